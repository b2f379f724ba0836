#pragma once
// The rules of a single node, used when it is built and by the verifier.

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace gex {

// Later stages recurse into subgraphs: deeper nesting could overflow a thread's stack.
inline constexpr int kDeepestSubgraph = 1024;

// Arity against the op's InputSpecs. UserError(invalid_argument).
void check_inputs(const OpDef& op, std::span<Value* const> inputs);
// Count and kinds against the op's schema. UserError(invalid_argument).
void check_attrs(const OpDef& op, const AttrList& attrs);
// The result types that the op's shape rule computes for these inputs.
std::vector<Type> infer_types(const OpDef& op, std::span<Value* const> inputs,
                              const AttrList& attrs,
                              std::span<const std::unique_ptr<Graph>> subgraphs);
// Same kind, dtype and provably equal sizes; strides don't count.
bool same_data_type(const Type& a, const Type& b);
// The error in the tie itself; empty if there is none.
std::string tie_problem(const Graph& graph, const Tie& tie);
// verify() of the graph alone: its subgraphs are taken to be valid.
void verify_level(const Graph& graph);
// "matmul(a, b)": the signature of the op, for messages.
std::string signature_of(const OpDef& op);

}  // namespace gex
