// Labels, assignments to variables and control edges through gex.h.

#include <algorithm>
#include <unordered_set>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

Node& node_of(Value& value, const char* what) {
  if (value.is_input())
    fail(ErrorCode::invalid_argument, what, " is the input '", value.name(),
         "', which no node computes");
  return *value.producer();
}

void add_label(Labels& labels, const gex_attr* label, gex_graph& graph) {
  auto [name, value] = to_label(required(label, "label"), graph.symbols);
  set_label(labels, std::move(name), std::move(value));
}

std::string label_text(const Labels& labels, const char* name, const std::string& owner) {
  const std::string wanted = &required(name, "name");
  const AttrValue* value = find_label(labels, wanted);
  if (value == nullptr) fail(ErrorCode::not_found, owner, " has no label '", wanted, "'");
  return attr_text(*value);
}

// The nodes after `at` that must move before it so that `node` can: `node` and its producers, in
// order. UserError if one of them depends on `at`, through an operand or a control edge.
std::vector<Node*> to_move_before(const gex_graph& graph, Node& node, Node& at) {
  std::unordered_set<const Node*> behind;
  for (const Node* n = &at; n != nullptr; n = n->next()) behind.insert(n);
  if (!behind.contains(&node)) return {};
  std::unordered_set<const Node*> needed{&node};
  // Producers come before their users, so one backward walk from `node` finds them all.
  for (const Node* n = &node; n != &at; n = n->prev()) {
    if (!needed.contains(n)) continue;
    for (const Node* predecessor : graph.predecessors(*n))
      if (behind.contains(predecessor)) needed.insert(predecessor);
  }
  if (needed.contains(&at))
    fail(ErrorCode::invalid_graph, "'", node.output(0)->name(), "' needs '", at.output(0)->name(),
         "' and can't come before it: a cycle");
  std::vector<Node*> ordered;
  for (Node* n = at.next(); n != nullptr; n = n->next())
    if (needed.contains(n)) ordered.push_back(n);
  return ordered;
}

// Makes the node read the assigned value instead of the variable's old contents.
void read_assigned(Graph& graph, Node& reader, const gex_graph::Assignment& assignment) {
  for (std::size_t k = 0; k < reader.inputs().size(); ++k)
    if (reader.input(k) == assignment.variable)
      graph.set_input(&reader, static_cast<int>(k), assignment.value);
}

void remember_order(Node& after, const std::string& before) {
  Labels labels = after.labels();
  const AttrValue* known = find_label(labels, "after");
  const auto* text = known == nullptr ? nullptr : std::get_if<std::string>(known);
  set_label(labels, "after", text == nullptr ? before : *text + ", " + before);
  after.set_labels(std::move(labels));
}

}  // namespace

extern "C" {

gex_status gex_graph_set_label(gex_graph* graph, const gex_attr* label) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    Labels labels = g.graph->labels();
    add_label(labels, label, g);
    g.graph->set_labels(std::move(labels));
  });
}

gex_status gex_graph_label(const gex_graph* graph, const char* name, char** text) {
  return guarded([&] {
    const Graph& g = *required(graph, "graph").graph;
    give_text(label_text(g.labels(), name, str("graph '", g.name(), "'")), text);
  });
}

gex_status gex_value_set_label(gex_graph* graph, gex_value value, const gex_attr* label) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    Node& node = node_of(*g.value(value, "value"), "value");
    Labels labels = node.labels();
    add_label(labels, label, g);
    node.set_labels(std::move(labels));
  });
}

gex_status gex_value_label(const gex_graph* graph, gex_value value, const char* name, char** text) {
  return guarded([&] {
    const Node& node = node_of(*required(graph, "graph").value(value, "value"), "value");
    give_text(label_text(node.labels(), name, str("'", node.output(0)->name(), "'")), text);
  });
}

gex_status gex_graph_assign(gex_graph* graph, gex_value variable, gex_value value,
                            gex_value* assigned) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    required(assigned, "assigned");
    Value* into = g.value(variable, "variable");
    Value* from = g.value(value, "value");
    if (!into->is_input())
      fail(ErrorCode::invalid_argument, "'", into->name(), "' is the result of ",
           into->producer()->op().name, "; only inputs are variables");
    if (from->type().is_token() || from->type().shape != into->type().shape)
      fail(ErrorCode::shape_mismatch, "variable '", into->name(), "' is ", into->type(), ", given ",
           from->type());
    for (const Tie& tie : g.graph->ties())
      if (tie.input == into->index() &&
          std::none_of(g.assignments.begin(), g.assignments.end(),
                       [&](const auto& known) { return known.variable == into; }))
        fail(ErrorCode::invalid_argument, "'", into->name(), "' is tied to output ", tie.output,
             " already");
    Node* node = g.graph->add("cast", {from}, {{"dtype", into->type().dtype}});
    g.name_node(*node, "Assign");
    g.remove_assigned_outputs();
    std::erase_if(g.assignments, [&](const auto& known) { return known.variable == into; });
    g.assignments.push_back({into, node->output()});
    g.append_assigned_outputs();
    g.assigned_by[node->output()] = into;
    *assigned = g.handle(node->output());
  });
}

gex_status gex_graph_order(gex_graph* graph, gex_value after, const gex_value* before,
                           size_t count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    require_list(before, count, "before");
    Node& node = node_of(*g.value(after, "after"), "after");
    std::vector<Value*> sources;
    for (std::size_t k = 0; k < count; ++k) {
      Value* source = g.value(before[k], str("source ", k).c_str());
      if (source->is_input()) continue;              // exists before everything
      to_move_before(g, *source->producer(), node);  // all are checked before anything is changed
      sources.push_back(source);
    }
    for (Value* source : sources) {
      for (Node* moved : to_move_before(g, *source->producer(), node))
        g.graph->move_before(moved, &node);
      const auto variable = g.assigned_by.find(source);
      if (variable != g.assigned_by.end())
        read_assigned(*g.graph, node, {variable->second, source});
      g.add_order(node, *source->producer());
      remember_order(node, source->name());
    }
  });
}

}  // extern "C"
