#pragma once
// The rules that one node must obey by itself, used when it is built and again by the verifier.

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace gex {

// Arity against the op's InputSpecs. UserError(invalid_argument).
void check_inputs(const OpDef& op, std::span<Value* const> inputs);
// Count and kinds against the op's schema. UserError(invalid_argument).
void check_attrs(const OpDef& op, const AttrList& attrs);
// What the op's shape rule gives for these inputs.
std::vector<Type> infer_types(const OpDef& op, std::span<Value* const> inputs,
                              const AttrList& attrs,
                              std::span<const std::unique_ptr<Graph>> subgraphs);
// Same kind, dtype and provably the same sizes; strides are a promise about memory and don't count.
bool same_data_type(const Type& a, const Type& b);
// What is wrong with the tie by itself; empty if nothing is.
std::string tie_problem(const Graph& graph, const Tie& tie);
// "matmul(a, b)": how the op is called, for messages.
std::string signature_of(const OpDef& op);

}  // namespace gex
