#include "compile/index_checks.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ops/call.hpp"
#include "ops/core/build.hpp"

namespace gex {

namespace {

struct IndexUse {
  Value* indices;
  std::int64_t axis;  // of input 0
};

std::vector<IndexUse> uses_of(const Node& node) {
  std::vector<IndexUse> uses;
  const auto add_each = [&](std::size_t first, const std::vector<std::int64_t>& axes) {
    for (std::size_t k = 0; k < axes.size(); ++k) uses.push_back({node.input(first + k), axes[k]});
  };
  if (node.is("index")) add_each(1, node.as<ops::Index>().axes);
  if (node.is("index_put")) add_each(2, node.as<ops::IndexPut>().axes);
  if (node.is("take_along")) uses.push_back({node.input(1), node.as<ops::Axis>().axis});
  if (node.is("scatter")) uses.push_back({node.input(1), node.as<ops::Scatter>().axis});
  return uses;
}

// What the elements come from: views and conversions to wider integers add none.
const Node* source_of(const Value* value) {
  const Node* node = value->producer();
  while (node != nullptr) {
    const bool is_view = node->is("reshape") || node->is("transpose") || node->is("expand") ||
                         node->is("slice") || node->is("flip");
    if (!is_view) break;
    node = node->input(0)->producer();
  }
  return node;
}

std::string name_of_check(const Node& node) {
  return node.location().empty() ? node.op().name : str(node.op().name, " at ", node.location());
}

// True if nothing needs to be checked when the program runs.
bool fits_surely(const Node& node, const Value* indices, Dim size) {
  for (Dim d : indices->type().shape)
    if (d == Dim(0)) return true;
  const Node* source = source_of(indices);
  if (source == nullptr) return false;
  if (source->is("iota")) {
    const auto& shape = source->output()->type().shape;
    return shape.size() == 1 && (size - shape[0]).range().lo >= 0;
  }
  if (!source->is("constant") || !size.is_const()) return false;
  const auto& tensor = std::get<TensorPtr>(source->attr("value"));
  std::int64_t low = 0, high = 0;
  for (std::int64_t k = 0; k < tensor->numel(); ++k) {
    low = std::min(low, tensor->get_int(k));
    high = std::max(high, tensor->get_int(k));
  }
  if (low >= -size.constant() && high < size.constant()) return true;
  // A view may read only some of the elements; then the run decides.
  if (source != indices->producer()) return false;
  refuse_indices(name_of_check(node), low, high, size.constant());
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
    for (const IndexUse& use : uses_of(node)) {
      const Dim size = node.input(0)->type().shape[static_cast<std::size_t>(use.axis)];
      if (!done.emplace(use.indices, size.text()).second) continue;
      if (!fits_surely(node, use.indices, size)) add_check(graph, node, use.indices, size);
    }
  }
}

}  // namespace gex
