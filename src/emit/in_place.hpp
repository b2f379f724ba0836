#pragma once
// Writing over memory that holds what nobody reads any more: what units read and write.

#include <optional>

#include "emit/state.hpp"

namespace gex::emit {

// The value in whose memory this one lies.
const Value* base_of(Value* value);
// Whether a step that takes the value as an operand reads the memory of the other: a view is read
// where its base lies, or where it was copied to.
bool lies_in(Value* value, const Value* memory);
// The operand of a call whose new contents the value is; null for any other value.
Value* written_operand(const Value* value);
// Whether the unit reads memory where the value lies.
bool reads(const lower::Unit& unit, const Value* value);
// The unit that computes the value.
std::optional<std::size_t> writer_of(const Units& units, const Value* value);
// A scatter into a reshaped input whose reshaped result is the input's new contents; null if the
// tie is none.
const Node* scatter_under(const Graph& graph, const Tie& tie);
// Whether a call whose result `value` is may have changed that operand where `memory` lies: its
// other operands do not lie there, and what it is given is not another view of it.
bool call_can_write(const Node& call, const Value* value, const Value* memory);
// As far as units are concerned: nothing is said about copies from one input to another.
bool can_write_in_place(const Units& units, Value* value, Value* input);

}  // namespace gex::emit
