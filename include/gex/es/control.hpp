#pragma once
// If, While and For: branches are functions that build a subgraph from their arguments. Everything
// a branch uses must be passed through `inputs`; values of the outer graph are rejected.
//
//   If(flag, {x}, [](EsGraphBuilder&, const Holders& in) -> Holders { return {in[0] * 2}; },
//      [](EsGraphBuilder&, const Holders& in) -> Holders { return {in[0] * 0}; });

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gex/es/builder.hpp"
#include "gex/es/like.hpp"

namespace gex::es {

using Holders = std::vector<EsTensorHolder>;
using Branch = std::function<Holders(EsGraphBuilder& builder, const Holders& inputs)>;

namespace detail {

inline BuildingPtr CommonBuilding(const char* op, const std::vector<EsTensorLike>& operands) {
  for (const EsTensorLike& operand : operands)
    if (!operand.holder().empty()) return Access::BuildingOf(operand.holder());
  throw Error(GEX_INVALID_ARGUMENT, std::string(op) + ": no operand is a tensor");
}

inline Holders ToHolders(const BuildingPtr& building, const std::vector<EsTensorLike>& inputs) {
  Holders holders;
  for (const EsTensorLike& input : inputs) holders.push_back(input.In(building, std::nullopt));
  return holders;
}

inline std::unique_ptr<Graph> BuildBranch(const Building& outside, const std::string& name,
                                          const Holders& inputs, const Branch& branch) {
  EsGraphBuilder builder(name);
  Building& inside = *Access::BuildingOf(builder.Hold(GEX_NO_VALUE));
  inside.outermost = outside.outermost;
  inside.regions = outside.regions;
  Holders arguments;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    arguments.push_back(builder.CreateInputLike(static_cast<std::int64_t>(k), inputs[k]));
  return builder.BuildBranch(branch(builder, arguments));
}

// The node owns the branches.
inline Holders AddNodeWithBranches(const BuildingPtr& building, const std::string& op,
                                   const Holders& operands, const Attrs& attrs,
                                   std::size_t result_count,
                                   std::vector<std::unique_ptr<Graph>> branches) {
  building->open();
  std::vector<const gex_graph*> handles;
  for (const std::unique_ptr<Graph>& branch : branches) handles.push_back(branch->Release());
  return AddNode(building, op, operands, attrs, result_count, handles, true);
}

// A number is true if it is not zero.
inline EsTensorHolder AsFlag(const EsTensorHolder& condition) {
  return condition.dtype() == DType::boolean ? condition : Op("ne", {condition, 0}, {}, 1, true)[0];
}

inline std::string RegionName(const Building& building, const char* kind) {
  return building.outermost + "." + kind + std::to_string((*building.regions)++);
}

}  // namespace detail

// Prebuilt graphs: input k of each reads inputs[k]. `result_count` is checked against them.
inline Holders If(const EsTensorHolder& condition, const std::vector<EsTensorLike>& inputs,
                  std::size_t result_count, const Graph& then_graph, const Graph& else_graph) {
  const detail::BuildingPtr& building = detail::Access::BuildingOf(condition);
  Holders operands = detail::ToHolders(building, inputs);
  operands.insert(operands.begin(), detail::AsFlag(condition));
  return detail::AddNode(building, "if", operands, {}, result_count,
                         {then_graph.handle(), else_graph.handle()});
}

// The results of one of two branches, which must have the same types.
inline Holders If(const EsTensorHolder& condition, const std::vector<EsTensorLike>& inputs,
                  const Branch& then_branch, const Branch& else_branch) {
  const detail::BuildingPtr& building = detail::Access::BuildingOf(condition);
  const Holders holders = detail::ToHolders(building, inputs);
  const std::string name = detail::RegionName(*building, "if");
  Holders operands = {detail::AsFlag(condition)};
  operands.insert(operands.end(), holders.begin(), holders.end());
  std::vector<std::unique_ptr<Graph>> branches;
  branches.push_back(detail::BuildBranch(*building, name + ".then", holders, then_branch));
  branches.push_back(detail::BuildBranch(*building, name + ".else", holders, else_branch));
  const std::size_t results = branches[0]->output_count();
  return detail::AddNodeWithBranches(building, "if", operands, {}, results, std::move(branches));
}

// While `condition` of the values is true, replaces the first of them by the results of `body`;
// returns their final values. Values without a result of the body stay unchanged.
inline Holders While(const std::vector<EsTensorLike>& inputs, const Branch& condition,
                     const Branch& body) {
  const detail::BuildingPtr building = detail::CommonBuilding("while", inputs);
  const Holders holders = detail::ToHolders(building, inputs);
  const std::string name = detail::RegionName(*building, "while");
  const Branch flag = [&](EsGraphBuilder& builder, const Holders& values) {
    Holders results = condition(builder, values);
    if (results.size() == 1) results[0] = detail::AsFlag(results[0]);
    return results;
  };
  std::vector<std::unique_ptr<Graph>> branches;
  branches.push_back(detail::BuildBranch(*building, name + ".condition", holders, flag));
  branches.push_back(detail::BuildBranch(*building, name + ".body", holders, body));
  const std::size_t carried = branches[1]->output_count();
  return detail::AddNodeWithBranches(building, "while", holders, {{"carried", carried}}, carried,
                                     std::move(branches));
}

// For each index from `start` by `delta` up to but excluding `limit`: replaces the first of the
// values by the results of `body`, which gets the index and all values.
inline Holders For(const EsTensorLike& start, const EsTensorLike& limit, const EsTensorLike& delta,
                   const std::vector<EsTensorLike>& inputs, const Branch& body) {
  std::vector<EsTensorLike> operands = {start, limit, delta};
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  const detail::BuildingPtr building = detail::CommonBuilding("for", operands);
  const Holders holders = detail::ToHolders(building, operands);
  Holders taken = {holders[0]};
  taken.insert(taken.end(), holders.begin() + 3, holders.end());
  const std::string name = detail::RegionName(*building, "for");
  std::vector<std::unique_ptr<Graph>> branches;
  branches.push_back(detail::BuildBranch(*building, name + ".body", taken, body));
  const std::size_t carried = branches[0]->output_count();
  return detail::AddNodeWithBranches(building, "for", holders, {{"carried", carried}}, carried,
                                     std::move(branches));
}

}  // namespace gex::es
