// Inspecting and changing graphs through gex.h.

#include <algorithm>
#include <cstring>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"
#include "frontend/capi/run_host.hpp"
#include "ir/check_node.hpp"
#include "passes/splat.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

Node& node_of(const gex_graph& graph, gex_value value) {
  Node* node = graph.value(value, "value")->producer();
  if (node == nullptr)
    fail(ErrorCode::invalid_argument, "the value is an input of the graph; no node computes it");
  return *node;
}

// Copies as much of a list as there is room for.
template <class T, class List>
void give_list(const List& list, T* places, std::size_t capacity, std::size_t* count) {
  require_list(places, capacity, "the list");
  required(count, "count") = list.size();
  for (std::size_t k = 0; k < std::min(capacity, list.size()); ++k) places[k] = list[k];
}

struct AsIntegers {
  std::vector<std::int64_t> operator()(bool value) const { return {value}; }
  std::vector<std::int64_t> operator()(std::int64_t value) const { return {value}; }
  std::vector<std::int64_t> operator()(const std::vector<std::int64_t>& values) const {
    return values;
  }
  std::vector<std::int64_t> operator()(Dim value) const { return (*this)(std::vector<Dim>{value}); }
  std::vector<std::int64_t> operator()(const std::vector<Dim>& values) const {
    std::vector<std::int64_t> numbers;
    for (Dim value : values) {
      if (!value.is_const()) fail(ErrorCode::type_mismatch, "the size ", value, " is not a number");
      numbers.push_back(value.constant());
    }
    return numbers;
  }
  template <class T>
  std::vector<std::int64_t> operator()(const T& value) const {
    fail(ErrorCode::type_mismatch, "the attribute is a ", attr_kind_name(AttrValue(value)),
         ", not a list of integers");
  }
};

// If a shape rule rejects the copy, no nodes are left behind.
std::vector<Value*> inlined_or_nothing(Graph& graph, const Graph& callee,
                                       const std::vector<Value*>& inputs) {
  Node* const end = graph.insertion_point();
  const auto last = [&] { return end != nullptr ? end->prev() : graph.last(); };
  Node* const before = last();
  try {
    return graph.inline_graph(callee, inputs);
  } catch (const UserError&) {
    while (last() != before) graph.erase(last());
    throw;
  }
}

// Whether a node comes before another in their graph; null comes last.
bool is_before(const Node* a, const Node* b) {
  for (const Node* node = a->next(); node != nullptr; node = node->next())
    if (node == b) return true;
  return b == nullptr;
}

[[noreturn]] void fail_as_cycle(const Node& reader) {
  fail(ErrorCode::invalid_graph, "`", print_node(reader),
       "` would read a value that is computed after it or from it (a cycle); make the new value "
       "before it (gex_graph_insert_before)");
}

void check_order(const Value& to, const Value& from) {
  if (to.is_input()) return;
  for (const Use& use : from.uses())
    if (use.node != nullptr && !is_before(to.producer(), use.node)) fail_as_cycle(*use.node);
}

// Uses in the order of the nodes, those as graph outputs last.
std::vector<Use> in_order(const Value& value) {
  std::vector<Use> uses = value.uses();
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
    if (a.node == b.node) return a.index < b.index;
    return b.node == nullptr || (a.node != nullptr && is_before(a.node, b.node));
  });
  return uses;
}

}  // namespace

extern "C" {

gex_status gex_graph_nodes(gex_graph* graph, gex_value* values, size_t capacity, size_t* count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    std::vector<gex_value> list;
    for (const Node& node : g.graph->nodes())
      list.push_back(node.num_outputs() == 0 ? GEX_NO_VALUE : g.handle(node.output()));
    give_list(list, values, capacity, count);
  });
}

gex_status gex_value_op(const gex_graph* graph, gex_value value, char** op) {
  return guarded([&] {
    const Node* node = required(graph, "graph").value(value, "value")->producer();
    give_text(node == nullptr ? "" : node->op().name, op);
  });
}

gex_status gex_value_operands(gex_graph* graph, gex_value value, gex_value* operands,
                              size_t capacity, size_t* count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    std::vector<gex_value> list;
    for (Value* input : node_of(g, value).inputs())
      list.push_back(input == nullptr ? GEX_NO_VALUE : g.handle(input));
    give_list(list, operands, capacity, count);
  });
}

gex_status gex_value_results(gex_graph* graph, gex_value value, gex_value* results, size_t capacity,
                             size_t* count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const Node& node = node_of(g, value);
    std::vector<gex_value> list;
    for (std::size_t k = 0; k < node.num_outputs(); ++k) list.push_back(g.handle(node.output(k)));
    give_list(list, results, capacity, count);
  });
}

gex_status gex_value_readers(gex_graph* graph, gex_value value, gex_value* readers,
                             size_t* operands, size_t capacity, size_t* count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    std::vector<gex_value> nodes;
    std::vector<std::size_t> indices;
    for (const Use& use : in_order(*g.value(value, "value"))) {
      const bool has_result = use.node != nullptr && use.node->num_outputs() != 0;
      nodes.push_back(has_result ? g.handle(use.node->output()) : GEX_NO_VALUE);
      indices.push_back(static_cast<std::size_t>(use.index));
    }
    give_list(nodes, readers, capacity, count);
    give_list(indices, operands, capacity, count);
  });
}

gex_status gex_value_uses(const gex_graph* graph, gex_value value, size_t* count) {
  return guarded([&] {
    required(count, "count") = required(graph, "graph").value(value, "value")->uses().size();
  });
}

gex_status gex_value_attr(const gex_graph* graph, gex_value value, const char* name, char** text) {
  return guarded([&] {
    const Node& node = node_of(required(graph, "graph"), value);
    give_text(attr_text(node.attr(&required(name, "name"))), text);
  });
}

gex_status gex_value_attr_integers(const gex_graph* graph, gex_value value, const char* name,
                                   int64_t* numbers, size_t capacity, size_t* count) {
  return guarded([&] {
    const Node& node = node_of(required(graph, "graph"), value);
    const AttrValue& attr = node.attr(&required(name, "name"));
    give_list(std::visit(AsIntegers(), attr), numbers, capacity, count);
  });
}

gex_status gex_value_constant(const gex_graph* graph, gex_value value, gex_tensor* tensor) {
  return guarded([&] {
    const Value& v = *required(graph, "graph").value(value, "value");
    gex_tensor& place = required(tensor, "tensor");
    if (place.struct_size < sizeof(gex_tensor))
      fail(ErrorCode::invalid_argument, "tensor.struct_size is ", place.struct_size,
           "; start from GEX_TENSOR_INIT");
    const std::optional<HostTensor> elements = passes::constant_value(v);
    if (!elements) fail(ErrorCode::not_found, "the value is not a constant of known size");
    auto copy = std::make_unique<OwnedTensor>(std::make_shared<const Memory>(nullptr),
                                              elements->dtype(), elements->shape());
    std::memcpy(copy->data(), elements->data(), elements->bytes());
    hand_out(std::move(copy), place);
  });
}

gex_status gex_graph_insert_before(gex_graph* graph, gex_value value) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    g.graph->insert_before(value == GEX_NO_VALUE ? nullptr : &node_of(g, value));
  });
}

gex_status gex_graph_replace(gex_graph* graph, gex_value from, gex_value to) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    Value* old = g.value(from, "from");
    Value* value = g.value(to, "to");
    if (!same_data_type(old->type(), value->type()))
      fail(ErrorCode::type_mismatch, "a value of type ", value->type(), " can't replace one of ",
           old->type());
    if (!g.graph->can_replace(old, value))
      fail(ErrorCode::invalid_argument, "the graph promises a memory layout for ", old->type(),
           " that ", value->type(), " does not have");
    check_order(*value, *old);
    g.graph->replace_all_uses(old, value);
  });
}

gex_status gex_graph_set_operand(gex_graph* graph, gex_value value, size_t index,
                                 gex_value operand) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    Value* to = g.value(operand, "operand");
    Node* node = value == GEX_NO_VALUE ? nullptr : &node_of(g, value);
    const std::size_t count = node == nullptr ? g.graph->outputs().size() : node->inputs().size();
    if (index >= count)
      fail(ErrorCode::invalid_argument, node == nullptr ? "the graph" : node->op().name, " has ",
           count, node == nullptr ? " outputs" : " operands", ", so none has the index ", index);
    const Value* from = node == nullptr ? g.graph->outputs()[index] : node->input(index);
    const int position = static_cast<int>(index);
    if (from == nullptr)
      fail(ErrorCode::invalid_argument, "operand ", index, " of ", node->op().name,
           " is absent; create a new node instead");
    if (!same_data_type(from->type(), to->type()))
      fail(ErrorCode::type_mismatch, "a value of type ", to->type(), " can't replace one of ",
           from->type());
    if (node == nullptr) {
      if (!g.graph->can_replace(from, to))
        fail(ErrorCode::invalid_argument, "the graph promises a memory layout for ", from->type(),
             " that ", to->type(), " does not have");
      g.graph->set_output(position, to);
      return;
    }
    if (!to->is_input() && !is_before(to->producer(), node)) fail_as_cycle(*node);
    g.graph->set_input(node, position, to);
  });
}

gex_status gex_graph_erase(gex_graph* graph, gex_value value) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    Node& node = node_of(g, value);
    if (node.op().has(Trait::effect))
      fail(ErrorCode::invalid_argument, node.op().name, " has an effect; it can't be removed");
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      if (!node.output(k)->uses().empty())
        fail(ErrorCode::invalid_argument, "`", print_node(node), "` is still used");
    if (g.graph->insertion_point() == &node) g.graph->insert_before(node.next());
    g.subgraph_names.reset();
    for (std::size_t k = 0; k < node.num_outputs(); ++k) g.forget(node.output(k));
    g.graph->erase(&node);
  });
}

gex_status gex_graph_inline(gex_graph* graph, const gex_graph* callee, const gex_value* inputs,
                            size_t input_count, gex_value* outputs, size_t output_count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const Graph& from = *required(callee, "callee").graph;
    require_list(inputs, input_count, "inputs");
    require_list(outputs, output_count, "outputs");
    if (output_count != from.outputs().size())
      fail(ErrorCode::invalid_argument, "graph '", from.name(), "' returns ", from.outputs().size(),
           " values, but ", output_count, " are expected");
    std::vector<Value*> values;
    for (std::size_t k = 0; k < input_count; ++k)
      values.push_back(g.value(inputs[k], str("input ", k).c_str()));
    if (&from == g.graph.get())
      fail(ErrorCode::invalid_argument, "graph '", from.name(),
           "' can't be copied into itself; copy a clone of it");
    g.subgraph_names.reset();
    const std::vector<Value*> results = inlined_or_nothing(*g.graph, from, values);
    for (std::size_t k = 0; k < results.size(); ++k) outputs[k] = g.handle(results[k]);
  });
}

}  // extern "C"
