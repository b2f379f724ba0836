#pragma once
// Local rules: a node whose only result equals a simpler value.

#include <span>

#include "passes/engine/pass.hpp"

namespace gex::passes {

// The simpler value, made at the insertion point where it is new; null: the rule says nothing.
using Rule = Value* (*)(Graph&, Node&);

// Applies the first rule that fits to each pure node, once, in order, subgraphs included. Values
// whose layout is promised to somebody outside stay as they are.
bool apply_rules(Graph& graph, PassContext& context, std::span<const Rule> rules);

// The node that computes the value if it is of this op, else null.
Node* producer_of(const Value* value, std::string_view op_name);

}  // namespace gex::passes
