#include "compile/index_checks.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ops/call.hpp"
#include "ops/core/build.hpp"

namespace gex {

namespace {

// Callees of front ends count from 0.
constexpr int kIndexCheck = -2;

// The node that the elements come from, looking through views.
const Node* source_of(const Value* value) {
  const Node* node = value->producer();
  while (node != nullptr && node->op().has(Trait::view)) node = node->input(0)->producer();
  return node;
}

std::string name_of_check(const Node& node) {
  return node.location().empty() ? node.op().name : str(node.op().name, " at ", node.location());
}

[[noreturn]] void refuse(const std::string& name, std::int64_t low, std::int64_t high,
                         std::int64_t size) {
  fail(ErrorCode::invalid_argument, name, ": index out of range: indices range from ", low, " to ",
       high, ", but the axis has ", size, " elements");
}

// True if nothing needs to be checked at run time.
bool fits_surely(const Node& node, const Value* indices, Dim size) {
  for (Dim d : indices->type().shape)
    if (d == Dim(0)) return true;
  const Node* source = source_of(indices);
  if (source == nullptr || source->op().bounds == nullptr) return false;
  const std::optional<ElementBounds> bounds = source->op().bounds(*source);
  if (!bounds) return false;
  const auto never_negative = [](Dim d) { return d.range().lo >= 0; };
  if (never_negative(bounds->low + size) && never_negative(size - Dim(1) - bounds->high))
    return true;
  // A view may read only some of the elements; then it is checked at run time.
  const bool known = bounds->low.is_const() && bounds->high.is_const() && size.is_const();
  if (!known || source != indices->producer()) return false;
  refuse(name_of_check(node), bounds->low.constant(), bounds->high.constant(), size.constant());
}

std::unique_ptr<Graph> branch(const char* name, const Node* failing, Dim size) {
  auto graph = std::make_unique<Graph>(name);
  const Type type = Type::tensor(DType::i64, {});
  Value* low = graph->add_input(type, "low");
  Value* high = graph->add_input(type, "high");
  if (failing != nullptr) {
    ops::Call call = ops::make_call(kIndexCheck, name_of_check(*failing), {});
    call.integers = {size};
    graph->add(op("call_effect"), {ops::apply(*graph, "token", {}), low, high}, call);
  }
  graph->set_outputs({});
  return graph;
}

void add_check(Graph& graph, Node& node, Value* indices, Dim size) {
  const InsertBefore here(graph, &node);
  graph.set_location(node.location());
  std::vector<std::int64_t> axes(indices->type().shape.size());
  for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
  const auto smallest = [&](const char* reduction) {
    Value* of_all = axes.empty() ? indices : ops::reduce(graph, reduction, indices, axes);
    return ops::cast(graph, of_all, DType::i64);
  };
  Value* low = smallest("reduce_min");
  Value* high = smallest("reduce_max");
  Value* above = ops::ge(graph, low, ops::dim_value(graph, Dim(0) - size));
  Value* below = ops::lt(graph, high, ops::dim_value(graph, size));
  Value* fits = ops::bit_and(graph, above, below);
  std::vector<std::unique_ptr<Graph>> branches;
  branches.push_back(branch("fits", nullptr, size));
  branches.push_back(branch("fails", &node, size));
  graph.add(op("if"), {fits, low, high}, AttrList{}, std::move(branches));
  graph.set_location({});
}

}  // namespace

void add_index_checks(Graph& graph) {
  std::set<std::pair<const Value*, std::string>> done;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) add_index_checks(*subgraph);
    if (node.op().indices == nullptr) continue;
    for (const IndexInput& use : node.op().indices(node)) {
      Value* indices = node.input(use.input);
      const Dim size = node.input(0)->type().shape[static_cast<std::size_t>(use.axis)];
      if (!done.emplace(indices, size.text()).second) continue;
      if (!fits_surely(node, indices, size)) add_check(graph, node, indices, size);
    }
  }
}

bool is_index_check(const program::Call& call) { return call.callee == kIndexCheck; }

void fail_index_check(const program::Call& call, std::span<const runtime::TensorRef> inputs,
                      std::span<const std::int64_t> integers) {
  GEX_CHECK(inputs.size() == 2 && integers.size() == 1, "a check of other operands");
  std::int64_t bounds[2] = {};
  for (std::size_t k = 0; k < 2; ++k) std::memcpy(&bounds[k], inputs[k].data, sizeof bounds[k]);
  refuse(call.name, bounds[0], bounds[1], integers[0]);
}

}  // namespace gex
