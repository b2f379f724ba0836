#pragma once
// Queries for overwriting dead memory: what units read and write.

#include <optional>

#include "emit/state.hpp"

namespace gex::emit {

// The value whose memory this one shares.
const Value* base_of(Value* value);
// Whether a step with this operand reads the memory of the other value: a view is read in its
// base's memory, or in its copy.
bool lies_in(Value* value, const Value* memory);
// The call operand whose new contents are this value; null for any other value.
Value* written_operand(const Value* value);
// Whether the unit reads the value's memory.
bool reads(const lower::Unit& unit, const Value* value);
// The unit that computes the value.
std::optional<std::size_t> writer_of(const Units& units, const Value* value);
// A scatter into a reshaped input whose reshaped result is the input's new contents; null if the
// tie is not of that form.
const Node* scatter_under(const Graph& graph, const Tie& tie);
// Whether a call with result `value` may have written that operand in the memory of `memory`: its
// other operands do not overlap it, and its argument is not another view of it.
bool call_can_write(const Node& call, const Value* value, const Value* memory);
// Considers only units, not copies from one input to another.
bool can_write_in_place(const Units& units, Value* value, Value* input);

}  // namespace gex::emit
