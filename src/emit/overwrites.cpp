#include "emit/overwrites.hpp"

#include <algorithm>

#include "emit/in_place.hpp"
#include "loop/single_op.hpp"
#include "lower/cluster.hpp"
#include "ops/call.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

bool Overwrites::read_after(const Units& units, std::size_t position, const Value* value) const {
  return ties_.copies(value) || boundary_.copies(value) ||
         std::any_of(units.begin() + static_cast<std::ptrdiff_t>(position) + 1, units.end(),
                     [&](const lower::Unit& unit) { return reads(unit, value); });
}

// Operands that a call writes are computed in the memory of their new contents, last call first:
// chains of such calls then work in one buffer. If that is not possible, the call gets a copy.
void Overwrites::place_written(const Units& units) {
  if (!state_.options.in_place_temps) return;
  for (std::size_t u = units.size(); u-- > 0;) {
    if (units[u].kind != lower::Unit::Kind::step || !ops::is_call(*units[u].anchor)) continue;
    const Node& call = *units[u].anchor;
    for (std::size_t k = 0; k < call.num_outputs(); ++k) {
      Value* result = call.output(k);
      Value* changed = written_operand(result);
      if (changed == nullptr || state_.buffers.count(changed) != 0 || base_of(changed) != changed)
        continue;
      const bool own_memory =
          !lower::is_free(*changed->producer()) &&
          (!ops::is_call(*changed->producer()) || written_operand(changed) != nullptr);
      if (!own_memory || read_after(units, u, changed) || !call_can_write(call, result, changed))
        continue;
      const BufferId target = memory_.of(result);
      Value* input = memory_.input_at(target);
      if (input != nullptr &&
          (ties_.is_copied(input) || !can_write_in_place(units, changed, input)))
        continue;
      state_.buffers[changed] = target;
      ++state_.in_place;
    }
  }
}

bool Overwrites::can_overwrite(const Node& scatter, BufferId base, const Units& units,
                               std::size_t position) const {
  Value* value = scatter.input(0);
  const Value* result = scatter.output();
  const BufferDesc& desc = state_.program.buffers[static_cast<std::size_t>(base)];
  if (!state_.options.in_place_temps || state_.buffers.contains(result) ||
      concatenations_.holds_parts(base) || desc.kind != BufferDesc::Kind::temp ||
      desc.alias_of >= 0 || value->producer() == nullptr || value->type() != result->type())
    return false;
  // Copies at the end of the program read it last; its other operands are read while it writes.
  if (read_after(units, position, value)) return false;
  for (std::size_t k = 1; k < scatter.inputs().size(); ++k)
    if (scatter.has_input(k) && lies_in(scatter.input(k), value)) return false;
  return true;
}

void Overwrites::emit_scatter(const lower::Unit& unit, const Units& units, std::size_t position) {
  const Node& node = *unit.anchor;
  Value* base = node.input(0);
  Value* result = node.output();
  const BufferId base_buffer = launches_.materialised(base);
  bool in_place = state_.buffers.contains(result) && state_.buffers.at(result) == base_buffer;
  if (!in_place && can_overwrite(node, base_buffer, units, position)) {
    state_.buffers[result] = base_buffer;
    in_place = true;
    ++state_.in_place;
  }
  std::vector<BufferId> buffers;
  std::vector<bool> writes;
  std::vector<std::vector<Dim>> strides;  // of operands that are read as views
  for (Value* v : node.inputs()) {
    if (v == nullptr) continue;
    const Operand from = v == base ? launches_.placed(v) : memory_.operand(v);
    buffers.push_back(memory_.window(from.buffer, from.offset));
    strides.push_back(v == base ? std::vector<Dim>{} : from.strides);
    writes.push_back(in_place && v == base);
  }
  if (!in_place) {
    buffers.push_back(memory_.of(result));
    writes.push_back(true);
    state_.program.counters.push_back({"copies.scatter", 1});
  }
  loop::Kernel kernel = in_place ? loop::kernel_of_scatter_inplace(node) : loop::kernel_of(node);
  for (std::size_t k = 0; k < strides.size(); ++k)
    if (!strides[k].empty()) kernel.buffers[k].strides = std::move(strides[k]);
  launches_.launch(kernel, unit.label(), std::move(buffers), std::move(writes));
}

}  // namespace gex::emit
