#pragma once
// The tensor IR: pure SSA. A Graph owns its Nodes; a Node owns its output Values; everything else
// is a plain pointer into the Graph, stable until the Node is erased. No node owns device memory.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "ir/attrs.hpp"
#include "ir/op_def.hpp"
#include "ir/type.hpp"

namespace gex {

struct Use {
  Node* node;  // null: the graph's output list
  int index;   // input index of the node, or output index of the graph
  bool operator==(const Use&) const = default;
};

class Value {
 public:
  const Type& type() const { return type_; }
  void set_type(Type type) { type_ = std::move(type); }
  Node* producer() const { return producer_; }  // null for graph inputs
  int index() const { return index_; }  // output index of the producer, or graph input index
  const std::vector<Use>& uses() const { return uses_; }  // in no particular order
  bool is_input() const { return producer_ == nullptr; }
  Graph& graph() const { return *graph_; }
  const std::string& name() const { return name_; }  // a hint for printing; may be empty
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  friend class Graph;
  friend class Node;
  Type type_;
  Node* producer_ = nullptr;
  Graph* graph_ = nullptr;
  int index_ = 0;
  std::string name_;
  std::vector<Use> uses_;
};

class Node {
 public:
  const OpDef& op() const { return *op_; }
  bool is(std::string_view name) const { return op_->name == name; }
  std::span<Value* const> inputs() const { return inputs_; }  // absent optional inputs are null
  Value* input(std::size_t i) const { return inputs_[i]; }
  bool has_input(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  std::size_t num_outputs() const { return outputs_.size(); }
  Value* output(std::size_t i = 0) const { return outputs_[i].get(); }
  const AttrList& attrs() const { return attrs_; }
  template <class S>
  S as() const {
    return from_attr_list<S>(attrs_);
  }
  const AttrValue& attr(std::string_view name) const;  // UserError(not_found) lists the names
  std::span<const std::unique_ptr<Graph>> subgraphs() const { return subgraphs_; }
  Graph& graph() const { return *graph_; }
  // Location in the user's code ("model.py:12 in forward"); survives rewrites.
  const std::string& location() const { return location_; }
  void set_location(std::string location) { location_ = std::move(location); }
  // Nodes with different labels are never merged. Replacements of a node inherit its labels.
  const Labels& labels() const { return labels_; }
  void set_labels(Labels labels) { labels_ = std::move(labels); }
  Node* next() const { return next_; }
  Node* prev() const { return prev_; }

 private:
  friend class Graph;
  const OpDef* op_ = nullptr;
  std::vector<Value*> inputs_;
  std::vector<std::uint32_t> use_slots_;  // position of input i in its value's use list
  std::vector<std::unique_ptr<Value>> outputs_;
  AttrList attrs_;
  std::vector<std::unique_ptr<Graph>> subgraphs_;
  std::string location_;
  Labels labels_;
  Graph* graph_ = nullptr;
  Node* prev_ = nullptr;
  Node* next_ = nullptr;
};

// Output `output` is written into the memory of input `input` (a mutation in the user's program).
struct Tie {
  int output;
  int input;
  bool operator==(const Tie&) const = default;
};

class Graph {
 public:
  explicit Graph(std::string name = "main");
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  std::unique_ptr<Graph> clone() const;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  Value* add_input(Type type, std::string name = {});
  std::span<const std::unique_ptr<Value>> inputs() const { return inputs_; }
  // Removes an input that has no uses and no tie.
  void erase_input(int index);
  // New input k is the old input order[k]: a permutation of all inputs. Ties follow.
  void reorder_inputs(std::span<const int> order);

  // Runs the op's shape rule; throws UserError at the call that makes the mistake. Inserted at the
  // insertion point (the end by default).
  Node* add(const OpDef& op, std::vector<Value*> inputs, AttrList attrs = {},
            std::vector<std::unique_ptr<Graph>> subgraphs = {});
  template <class S>
  Node* add(const OpDef& op, std::vector<Value*> inputs, const S& attrs) {
    return add(op, std::move(inputs), to_attr_list(attrs));
  }
  // By name, filling missing attributes with the schema's defaults.
  Node* add(std::string_view op_name, std::vector<Value*> inputs,
            std::vector<std::pair<std::string, AttrValue>> attrs = {},
            std::vector<std::unique_ptr<Graph>> subgraphs = {});

  void set_outputs(std::vector<Value*> outputs);
  void set_output(int index, Value* value);
  void add_output(Value* value);
  const std::vector<Value*>& outputs() const { return outputs_; }

  const Labels& labels() const { return labels_; }
  void set_labels(Labels labels) { labels_ = std::move(labels); }

  std::vector<Tie>& ties() { return ties_; }
  const std::vector<Tie>& ties() const { return ties_; }
  // The strides promised to the caller for an output are in its Type; an output that is returned as
  // a view of an input is marked here by the front end.

  Node* first() const { return first_; }
  Node* last() const { return last_; }
  std::size_t num_nodes() const { return num_nodes_; }

  // Iteration over nodes in order; erasing the current node while iterating is allowed.
  class Iterator {
   public:
    explicit Iterator(Node* n) : node_(n), next_(n ? n->next() : nullptr) {}
    Node& operator*() const { return *node_; }
    Iterator& operator++() {
      node_ = next_;
      next_ = node_ ? node_->next() : nullptr;
      return *this;
    }
    bool operator!=(const Iterator& o) const { return node_ != o.node_; }

   private:
    Node* node_;
    Node* next_;
  };
  struct NodeRange {
    Node* first;
    Iterator begin() const { return Iterator(first); }
    Iterator end() const { return Iterator(nullptr); }
  };
  NodeRange nodes() const { return {first_}; }

  // Insertion point: new nodes go before `node` (null: at the end).
  void insert_before(Node* node) { insertion_ = node; }
  Node* insertion_point() const { return insertion_; }

  // Whether `to` may replace `from`: the same dtype and sizes, and if `from` is a graph output, its
  // memory layout (the strides of its type) is that of `to` or can be given to it.
  bool can_replace(const Value* from, const Value* to) const;
  // Graph outputs are uses too; strides promised for them move to `to` if it has none.
  void replace_all_uses(Value* from, Value* to);
  void set_input(Node* node, int index, Value* value);
  void erase(Node* node);                  // GEX_CHECK: no uses left
  void move_before(Node* node, Node* at);  // the caller must preserve SSA order
  // Copies a node of another (or this) graph with new inputs; subgraphs are cloned.
  Node* clone_node(const Node& node, std::vector<Value*> inputs);
  // Copies the body of `callee` here with its inputs replaced; returns the copies of its outputs.
  std::vector<Value*> inline_graph(const Graph& callee, std::span<Value* const> inputs);

  void set_location(std::string location) { current_location_ = std::move(location); }
  const std::string& current_location() const { return current_location_; }

 private:
  void link(Node* node);
  void unlink(Node* node);
  std::unique_ptr<Node> make_node(const OpDef& op, AttrList attrs,
                                  std::vector<std::unique_ptr<Graph>> subgraphs);
  static std::unique_ptr<Value> make_value(Graph& graph, Type type, Node* producer, int index);
  void connect(Node* node, std::vector<Value*> inputs);
  void check_mine(const Value* value, std::string_view role) const;
  // Constant time: every use stores its slot in the list; removal swaps with the last one.
  std::uint32_t& slot_of(const Use& use);
  void add_use(Value* value, Use use);
  void drop_use(Value* value, Use use);

  std::string name_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<Value*> outputs_;
  std::vector<std::uint32_t> output_slots_;  // position of output i in its value's use list
  std::vector<Tie> ties_;
  Labels labels_;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  Node* insertion_ = nullptr;
  std::size_t num_nodes_ = 0;
  std::string current_location_;
};

// Insertion point for a scope.
class InsertBefore {
 public:
  InsertBefore(Graph& graph, Node* node) : graph_(graph), saved_(graph.insertion_point()) {
    graph.insert_before(node);
  }
  ~InsertBefore() { graph_.insert_before(saved_); }
  InsertBefore(const InsertBefore&) = delete;
  InsertBefore& operator=(const InsertBefore&) = delete;

 private:
  Graph& graph_;
  Node* saved_;
};

// Checks SSA order, use lists, arities, attribute types, types against the shape rules, ties, and
// that tokens are used linearly. Throws UserError(invalid_graph) naming the node.
void verify(const Graph& graph);

// Equal graphs (up to names and locations) have equal hashes, in every process.
Hash structural_hash(const Graph& graph);
bool structurally_equal(const Graph& a, const Graph& b);

// The symbols that appear in input types, in order of first appearance.
std::vector<Dim> symbols_of(const Graph& graph);
// Those of them that are a size or a stride by themselves: a run reads them from its inputs.
std::vector<Dim> symbols_told_by_inputs(const Graph& graph);
// All symbols, including those only in results, attributes and subgraphs (data-dependent sizes).
std::vector<Dim> all_symbols_of(const Graph& graph);

// The .gex text form (docs/text.md): print -> parse gives a structurally equal graph.
std::string print(const Graph& graph);
// Shortened for reading: at most the first and last three values of a constant. Can't be parsed.
std::string print_abbreviated(const Graph& graph);
// The node's line as printed by print(), without location and with subgraphs as "...". For
// messages: it numbers the whole graph, so don't use it in inner loops.
std::string print_node(const Node& node);
// UserError(parse_error) with line:column. Shape rules and ties are checked, token linearity is
// not: call verify() on untrusted text.
std::unique_ptr<Graph> parse_graph(std::string_view text);

}  // namespace gex
