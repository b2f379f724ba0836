// Nodes and constants through gex.h.

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_set>

#include "cache/mapped_file.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"
#include "frontend/capi/operands.hpp"
#include "frontend/capi/spelling.hpp"
#include "ir/check_node.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

// Positions fit an int everywhere inside the library.
constexpr std::size_t kMostValues = 1u << 30;

std::vector<Value*> operands_of(const gex_graph& graph, const gex_node& node) {
  require_list(node.inputs, node.input_count, "inputs");
  if (node.input_count > kMostValues)
    fail(ErrorCode::invalid_argument, node.op, ": ", node.input_count, " inputs exceed the limit");
  std::vector<Value*> operands;
  for (std::size_t k = 0; k < node.input_count; ++k)
    operands.push_back(
        graph.optional_value(node.inputs[k], str("input ", k, " of ", node.op).c_str()));
  return operands;
}

// A node, and the casts of its operands; removed again unless keep() is called.
class NewNode {
 public:
  explicit NewNode(Graph& graph) : graph_(graph), before_(last()) {}
  ~NewNode() {
    if (kept_) return;
    for (Node* node = last(); node != before_;) {
      Node* before = node->prev();
      graph_.erase(node);
      node = before;
    }
  }
  NewNode(const NewNode&) = delete;
  NewNode& operator=(const NewNode&) = delete;
  void keep() { kept_ = true; }

 private:
  // The last node before the insertion point.
  Node* last() const {
    const Node* at = graph_.insertion_point();
    return at == nullptr ? graph_.last() : at->prev();
  }

  Graph& graph_;
  Node* before_;
  bool kept_ = false;
};

// Of the first version of the struct.
constexpr std::size_t kFirstNodeBytes = offsetof(gex_node, take_subgraphs);

bool is_named(const Graph& graph) { return !graph.name().empty() && graph.name() != "graph"; }

using Names = std::unordered_set<std::string>;

void collect_names(const Graph& graph, std::vector<std::string>& names) {
  for (const Node& node : graph.nodes())
    for (const auto& subgraph : node.subgraphs()) {
      if (is_named(*subgraph)) names.push_back(subgraph->name());
      collect_names(*subgraph, names);
    }
}

const Names& names_below(gex_graph& graph) {
  if (!graph.subgraph_names) {
    std::vector<std::string> names;
    collect_names(*graph.graph, names);
    graph.subgraph_names = Names(names.begin(), names.end());
  }
  return *graph.subgraph_names;
}

// The names of these subgraphs and below them; a name that occurs twice in the graph is an error.
Names new_names(gex_graph& above, const gex_node& node) {
  const Names& known = names_below(above);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < node.subgraph_count; ++k) {
    const Graph& given = *required(node.subgraphs[k], "a subgraph").graph;
    if (is_named(given)) names.push_back(given.name());
    collect_names(given, names);
  }
  Names added;
  for (std::string& name : names)
    if (known.contains(name) || !added.insert(name).second)
      fail(ErrorCode::invalid_graph, node.op, ": two subgraphs below graph '", above.graph->name(),
           "' are named '", name, "'; names must be unique");
  return added;
}

// Handles that the call destroys when it ends.
class TakenHandles {
 public:
  TakenHandles(const gex_graph& above, const gex_node& node) {
    if (node.take_subgraphs != 0 && node.take_subgraphs != 1)
      fail(ErrorCode::invalid_argument, "take_subgraphs is ", node.take_subgraphs,
           ", must be 0 or 1");
    if (node.take_subgraphs == 0 || node.subgraphs == nullptr) return;
    for (std::size_t k = 0; k < node.subgraph_count; ++k) {
      // The struct is also used for graphs that stay unchanged.
      auto* given = const_cast<gex_graph*>(&required(node.subgraphs[k], "a subgraph"));
      if (given->is_lent)
        fail(ErrorCode::invalid_argument,
             "a subgraph is borrowed by a callback and can't be taken");
      if (given == &above || std::ranges::find(handles_, given) != handles_.end())
        fail(ErrorCode::invalid_argument, "subgraph ", k,
             " can't be taken: it is the graph itself or another subgraph of the node");
      handles_.push_back(given);
    }
  }
  TakenHandles(const TakenHandles&) = delete;
  TakenHandles& operator=(const TakenHandles&) = delete;
  ~TakenHandles() {
    for (gex_graph* handle : handles_) delete handle;
  }

  std::unique_ptr<Graph> graph(std::size_t k) const {
    verify_level(*handles_[k]->graph);
    return std::move(handles_[k]->graph);
  }
  bool any() const { return !handles_.empty(); }

 private:
  std::vector<gex_graph*> handles_;
};

std::vector<std::unique_ptr<Graph>> subgraphs_of(const gex_node& node, const TakenHandles& taken) {
  std::vector<std::unique_ptr<Graph>> subgraphs;
  for (std::size_t k = 0; k < node.subgraph_count; ++k)
    subgraphs.push_back(taken.any() ? taken.graph(k) : node.subgraphs[k]->graph->clone());
  return subgraphs;
}

// Adds the node and writes its results to `outputs`, which has room for `capacity`.
std::size_t add_node(gex_graph& graph, const gex_node& node, gex_value* outputs,
                     std::size_t capacity, bool exactly) {
  const TakenHandles taken(graph, node);
  const OpDef& op = gex::op(&required(node.op, "op"));
  std::vector<Value*> operands = operands_of(graph, node);
  require_list(node.attrs, node.attr_count, "attrs");
  std::vector<std::pair<std::string, AttrValue>> attrs;
  for (std::size_t k = 0; k < node.attr_count; ++k) {
    attrs.push_back(to_attr(node.attrs[k], op, graph.symbols));
    for (std::size_t earlier = 0; earlier < k; ++earlier)
      if (attrs[earlier].first == attrs[k].first)
        fail(ErrorCode::invalid_argument, op.name, ": attribute '", attrs[k].first,
             "' is set twice");
  }
  require_list(node.subgraphs, node.subgraph_count, "subgraphs");
  Names names = node.subgraph_count == 0 ? Names() : new_names(graph, node);
  std::vector<std::unique_ptr<Graph>> subgraphs = subgraphs_of(node, taken);
  require_list(outputs, capacity, "outputs");

  NewNode guard(*graph.graph);
  graph.graph->set_location(node.location == nullptr ? "" : node.location);
  operands = promoted(*graph.graph, op, std::move(operands));
  count_axes_from_start(op, operands, attrs);
  Node* added =
      graph.graph->add(op.name, std::move(operands), std::move(attrs), std::move(subgraphs));
  const std::size_t count = added->num_outputs();
  if (exactly ? count != capacity : count > capacity)
    fail(ErrorCode::invalid_argument, op.name, " has ", count, " results, but there is room for ",
         capacity);
  graph.name_node(*added, es_name(op.name));
  for (std::size_t k = 0; k < count; ++k) outputs[k] = graph.handle(added->output(k));
  guard.keep();
  if (!names.empty()) graph.subgraph_names->merge(names);
  return count;
}

gex_value add_constant(gex_graph& graph, HostTensor tensor) {
  AttrValue value = std::make_shared<const HostTensor>(std::move(tensor));
  Node* added = graph.graph->add("constant", {}, {{"value", std::move(value)}});
  graph.name_node(*added, es_name("constant"));
  return graph.handle(added->output());
}

HostTensor read_tensor(const std::string& path, DType dtype, std::vector<std::int64_t> shape) {
  const MappedFile file = [&] {
    try {
      const std::optional<FileHandle> opened = open_regular_file(AT_FDCWD, path, Links::follow);
      if (!opened) fail(ErrorCode::io_error, "there is no such file");
      return MappedFile(*opened);
    } catch (const UserError& error) {
      fail(error.code(), "'", path, "' can't be read: ", error.what());
    }
  }();
  const Type type = Type::tensor(dtype, Shape(shape.begin(), shape.end()));
  check_bytes(type);
  const auto there = static_cast<std::int64_t>(file.bytes().size());
  auto needed = static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t size : shape) needed *= size;
  // Checked before allocating: a short file can't claim a large tensor.
  if (there < needed)
    fail(ErrorCode::io_error, "'", path, "' has ", there, " bytes, but ", type, " takes ", needed);
  return HostTensor::from_bytes(dtype, std::move(shape), file.bytes().data());
}

}  // namespace

extern "C" {

gex_status gex_graph_constant(gex_graph* graph, const gex_tensor* elements, gex_dtype dtype,
                              gex_value* constant) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    required(constant, "constant");
    HostTensor tensor = to_host(to_view(required(elements, "elements"), true, "elements"));
    *constant = add_constant(g, converted(tensor, to_dtype(dtype, "dtype")));
  });
}

gex_status gex_graph_constant_from_file(gex_graph* graph, const char* path, gex_dtype dtype,
                                        const int64_t* shape, size_t rank, gex_value* constant) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    required(constant, "constant");
    // The checks of any tensor in memory, except its data.
    gex_tensor described = GEX_TENSOR_INIT;
    described.dtype = dtype;
    described.rank = rank;
    described.shape = shape;
    const TensorView view = to_view(described, false, "constant");
    *constant = add_constant(g, read_tensor(&required(path, "path"), view.dtype, view.shape));
  });
}

gex_status gex_graph_add(gex_graph* graph, const char* op, const gex_value* inputs,
                         size_t input_count, const gex_attr* attrs, size_t attr_count,
                         gex_value* outputs, size_t output_count) {
  return guarded([&] {
    gex_node node = GEX_NODE_INIT;
    node.op = op;
    node.inputs = inputs;
    node.input_count = input_count;
    node.attrs = attrs;
    node.attr_count = attr_count;
    add_node(required(graph, "graph"), node, outputs, output_count, true);
  });
}

gex_status gex_graph_add_node(gex_graph* graph, const gex_node* node, gex_value* outputs,
                              size_t output_count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const gex_node defaults = GEX_NODE_INIT;
    add_node(g, read_versioned(node, defaults, kFirstNodeBytes, "node"), outputs, output_count,
             true);
  });
}

gex_status gex_graph_add_node_counted(gex_graph* graph, const gex_node* node, gex_value* outputs,
                                      size_t capacity, size_t* count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    required(count, "count");
    const gex_node defaults = GEX_NODE_INIT;
    *count = add_node(g, read_versioned(node, defaults, kFirstNodeBytes, "node"), outputs, capacity,
                      false);
  });
}

}  // extern "C"
