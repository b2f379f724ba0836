#pragma once
// Local rules: replace a node whose only result equals a simpler value.

#include <span>

#include "passes/engine/pass.hpp"

namespace gex::passes {

// The simpler value, created at the insertion point if it is new; null: the rule does not apply.
using Rule = Value* (*)(Graph&, Node&);

// Applies the first rule that matches to each pure node, once, in order, including subgraphs.
// Values whose layout is promised to the outside stay unchanged.
bool apply_rules(Graph& graph, PassContext& context, std::span<const Rule> rules);

// The node that computes the value if it is of this op, else null.
Node* producer_of(const Value* value, std::string_view op_name);

}  // namespace gex::passes
