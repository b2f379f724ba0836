#pragma once
// The current import: names in scope, and what is known about values.

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/importer.hpp"
#include "runtime/session/host_functions.hpp"

namespace gex::onnx {

// Thrown instead of ValueNeeded inside a native loop or branch, where a run can't compute a value.
// The code that started the inner graph imports the body in another way.
struct InnerValueNeeded {
  std::string why;
};

using Opsets = std::map<std::string, std::int64_t>;

class ImportState {
 public:
  ImportState(const ModelProto& model, const ImportOptions& options, Import& import);

  const ModelProto& model;
  const ImportOptions& options;
  Import& import;

  // --- graphs: the model's own, and nested ones of native loops and branches
  Graph& graph() { return *frames_.back().graph; }
  bool is_nested() const { return frames_.size() > 1; }
  // Nodes go into a separate graph until it is popped. Values from outside become its inputs.
  struct Frame {
    Graph* graph = nullptr;
    std::vector<Value*> captured;  // outer values, in the order of their inputs
    std::unordered_map<Value*, Value*> inner;
  };
  void push(Graph& inner);
  Frame pop();
  // Failed inner graphs, kept alive because known values are stored by the address of values.
  void keep(std::unique_ptr<Graph> graph) { kept_.push_back(std::move(graph)); }
  // The value in the current graph.
  Value* here(Value* value) { return seen_from(frames_.size() - 1, value); }
  Item here(Item item);

  // --- names: inner scopes see outer ones
  struct Scope {
    std::map<std::string, Item> names;
    const Scope* outer = nullptr;
    const Opsets* opsets = nullptr;
    const std::map<std::string, const AttributeProto*>* attributes = nullptr;  // of a function
  };
  Item lookup(const Scope& scope, const std::string& name) const;

  // Imports the nodes of a graph whose inputs have been put into `scope`; returns its outputs.
  std::vector<Item> import_body(const GraphProto& graph, Scope& scope);
  std::vector<Item> import_subgraph(const GraphProto& graph, const std::vector<Item>& inputs);
  void import_node(const NodeProto& node, Scope& scope);
  std::vector<Item> call_function(const FunctionProto& function, const NodeProto& node,
                                  const std::vector<Item>& inputs);
  const FunctionProto* find_function(const NodeProto& node) const;
  const Scope* current = nullptr;  // of the current node

  Item constant(HostTensor carried, Elem elem);
  Item initialiser(const TensorProto& tensor);

  // --- what is known
  const HostTensor* known(Value* value);
  std::optional<std::vector<Dim>> known_dims(Value* value);
  const HostTensor& need(Value* value, const std::string& why);
  Dim fresh_symbol(const char* hint);

 private:
  Value* seen_from(std::size_t frame, Value* value);

  std::vector<Frame> frames_;
  std::vector<std::unique_ptr<Graph>> kept_;
  std::optional<HostTensor> evaluate(const Node& node, std::size_t output);
  std::optional<std::vector<Dim>> symbolic(Value* value);
  std::optional<std::vector<Dim>> moved_dims(const Node& node);
  std::optional<std::vector<Dim>> arithmetic_dims(const Node& node);

  std::unordered_map<Value*, std::optional<HostTensor>> known_;
  std::unordered_map<Value*, std::optional<std::vector<Dim>>> dims_;
  std::size_t answered_ = 0;
  int symbols_ = 0;
  int depth_ = 0;
  std::map<const TensorProto*, Item> initialisers_;
};

}  // namespace gex::onnx
