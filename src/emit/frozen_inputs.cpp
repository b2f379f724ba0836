#include "emit/frozen_inputs.hpp"

#include <algorithm>

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

void FrozenInputs::define() {
  for (std::size_t k = 0; k < state_.options.frozen.size(); ++k) {
    const FrozenInput& input = state_.options.frozen[k];
    Value* value = state_.graph.inputs()[static_cast<std::size_t>(input.graph_input)].get();
    if (value->uses().empty()) continue;
    BufferDesc desc = describe(value->type(), BufferDesc::Kind::constant, value->name());
    state_.buffers[value] = add(std::move(desc), {static_cast<int>(k), {}}, input.contents);
  }
}

BufferId FrozenInputs::add(BufferDesc desc, compile_detail::FrozenSlot slot, bool contents) {
  desc.slot = static_cast<int>(state_.out.frozen.size());
  state_.out.frozen.push_back(std::move(slot));
  contents_.push_back(contents);
  return memory_.add(std::move(desc));
}

bool FrozenInputs::is_frozen(const Value* value) const {
  return value->is_input() && &value->graph() == &state_.graph &&
         std::ranges::any_of(state_.options.frozen, [&](const FrozenInput& input) {
           return input.graph_input == value->index();
         });
}

bool FrozenInputs::has_contents(BufferId id) const {
  const BufferDesc& desc = state_.program.buffers[static_cast<std::size_t>(id)];
  return desc.kind == BufferDesc::Kind::constant && desc.slot >= 0 &&
         contents_[static_cast<std::size_t>(desc.slot)];
}

void FrozenInputs::pack_operand(ops::ProblemLaunch& plan, int k, program::Launch& launch) {
  const Operand& operand = plan.operands[static_cast<std::size_t>(k)];
  if (!has_contents(operand.buffer) || !operand.offset.is_const()) return;
  const std::optional<backend::PackedOperand> packed = state_.backend.pack_operand(
      plan.problem, k, plan.dims, {.winograd = allows_winograd(state_.options)});
  if (!packed) return;
  std::string key = str(packed->form, " ", operand.buffer, " ", operand.offset);
  for (std::int64_t d : packed->dims) key += str(" ", d);
  auto [found, added] = packed_.try_emplace(key, -1);
  if (added) {
    const BufferDesc& from = state_.program.buffers[static_cast<std::size_t>(operand.buffer)];
    const auto element = static_cast<std::int64_t>(size_of(from.dtype));
    const std::int64_t bytes = packed->elements * static_cast<std::int64_t>(size_of(packed->dtype));
    compile_detail::FrozenSlot slot{
        from.slot,
        compile_detail::FrozenSlot::Packing{plan.problem, operand.offset.constant() * element,
                                            bytes, packed->dims, packed->grid}};
    BufferDesc desc = describe(Type::tensor(packed->dtype, {Dim(packed->elements)}),
                               BufferDesc::Kind::constant, from.name + ".packed");
    found->second = add(std::move(desc), std::move(slot), true);
    state_.program.counters.push_back({"packed_bytes", bytes});
  }
  launch.buffers[static_cast<std::size_t>(k)] = found->second;
}

}  // namespace gex::emit
