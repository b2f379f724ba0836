// Frozen inputs, and packed copies of them in the layout that the target's kernels read. Here it is
// decided; frozen_plan.cpp does it.

#include <algorithm>

#include "emit/emitter.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

void Emitter::define_frozen() {
  for (std::size_t k = 0; k < options_.frozen.size(); ++k) {
    const FrozenInput& input = options_.frozen[k];
    Value* value = graph_.inputs()[static_cast<std::size_t>(input.graph_input)].get();
    if (value->uses().empty()) continue;
    BufferDesc desc = describe(value->type(), BufferDesc::Kind::constant, value->name());
    buffers_[value] = add_frozen(std::move(desc), {static_cast<int>(k), {}}, input.contents);
  }
}

BufferId Emitter::add_frozen(BufferDesc desc, compile_detail::FrozenSlot slot, bool contents) {
  desc.slot = static_cast<int>(out_.frozen.size());
  out_.frozen.push_back(std::move(slot));
  frozen_contents_.push_back(contents);
  return add_buffer(std::move(desc));
}

bool Emitter::is_frozen(const Value* value) const {
  return value->is_input() && &value->graph() == &graph_ &&
         std::ranges::any_of(options_.frozen, [&](const FrozenInput& input) {
           return input.graph_input == value->index();
         });
}

bool Emitter::has_frozen_contents(BufferId id) const {
  const BufferDesc& desc = program_.buffers[static_cast<std::size_t>(id)];
  return desc.kind == BufferDesc::Kind::constant && desc.slot >= 0 &&
         frozen_contents_[static_cast<std::size_t>(desc.slot)];
}

void Emitter::pack_operand(ops::ProblemLaunch& plan, int k, program::Launch& launch) {
  const Operand& operand = plan.operands[static_cast<std::size_t>(k)];
  if (!has_frozen_contents(operand.buffer) || !operand.offset.is_const()) return;
  const std::optional<backend::PackedOperand> packed =
      backend_.pack_operand(plan.problem, k, plan.dims);
  if (!packed) return;
  std::string key = str(packed->form, " ", operand.buffer, " ", operand.offset);
  for (std::int64_t d : packed->dims) key += str(" ", d);
  auto [found, added] = packed_.try_emplace(key, -1);
  if (added) {
    const BufferDesc& from = program_.buffers[static_cast<std::size_t>(operand.buffer)];
    const auto element = static_cast<std::int64_t>(size_of(packed->dtype));
    const std::int64_t bytes = packed->elements * element;
    compile_detail::FrozenSlot slot{
        from.slot,
        compile_detail::FrozenSlot::Packing{plan.problem, operand.offset.constant() * element,
                                            bytes, packed->dims, packed->grid}};
    BufferDesc desc = describe(Type::tensor(packed->dtype, {Dim(packed->elements)}),
                               BufferDesc::Kind::constant, from.name + ".packed");
    found->second = add_frozen(std::move(desc), std::move(slot), true);
    program_.counters.push_back({"packed_bytes", bytes});
  }
  launch.buffers[static_cast<std::size_t>(k)] = found->second;
}

}  // namespace gex::emit
