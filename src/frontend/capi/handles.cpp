#include "frontend/capi/handles.hpp"

#include <atomic>

#include "base/error.hpp"

namespace {

std::uint32_t next_serial() {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

}  // namespace

gex_graph::gex_graph(std::unique_ptr<gex::Graph> from)
    : graph(std::move(from)), serial_(next_serial()) {
  for (gex::Dim symbol : gex::all_symbols_of(*graph)) symbols.emplace(symbol.name(), symbol);
}

gex_value gex_graph::handle(gex::Value* value) {
  auto [at, is_new] = handles_.try_emplace(value, 0);
  if (is_new) {
    values_.push_back(value);
    at->second = (static_cast<gex_value>(serial_) << 32) | static_cast<gex_value>(values_.size());
  }
  return at->second;
}

void gex_graph::forget(const gex::Value* value) {
  subgraph_names.reset();
  order_.erase(value);
  for (auto& [after, before] : order_) std::erase(before, value);
  const auto at = handles_.find(value);
  if (at == handles_.end()) return;
  values_[(at->second & 0xffffffffu) - 1] = nullptr;
  handles_.erase(at);
}

gex::Value* gex_graph::value(gex_value handle, const char* what) const {
  using gex::ErrorCode;
  if (handle == GEX_NO_VALUE)
    gex::fail(ErrorCode::invalid_argument, what, " is GEX_NO_VALUE; a value is needed here");
  if (handle >> 32 != serial_)
    gex::fail(ErrorCode::invalid_argument, what, " is not a value of graph '", graph->name(),
              "': it belongs to another graph or is invalid");
  const std::uint64_t position = handle & 0xffffffffu;
  if (position == 0 || position > values_.size())
    gex::fail(ErrorCode::invalid_argument, what, " is not a value of graph '", graph->name(), "'");
  if (values_[position - 1] == nullptr)
    gex::fail(ErrorCode::invalid_argument, what, " was erased from graph '", graph->name(), "'");
  return values_[position - 1];
}

gex::Value* gex_graph::optional_value(gex_value handle, const char* what) const {
  return handle == GEX_NO_VALUE ? nullptr : value(handle, what);
}

void gex_graph::name_node(gex::Node& node, const std::string& kind) {
  const std::string name = kind + "_" + std::to_string(next_node_++);
  for (std::size_t k = 0; k < node.num_outputs(); ++k)
    node.output(k)->set_name(node.num_outputs() == 1 ? name : name + "." + std::to_string(k));
}

void gex_graph::add_order(const gex::Node& node, gex::Node& before) {
  order_[node.output(0)].push_back(before.output(0));
}

std::vector<gex::Node*> gex_graph::predecessors(const gex::Node& node) const {
  std::vector<gex::Node*> nodes;
  for (const gex::Value* input : node.inputs())
    if (input != nullptr && !input->is_input()) nodes.push_back(input->producer());
  if (node.num_outputs() == 0) return nodes;
  const auto at = order_.find(node.output(0));
  if (at == order_.end()) return nodes;
  for (const gex::Value* before : at->second) nodes.push_back(before->producer());
  return nodes;
}

void gex_graph::append_assigned_outputs() {
  for (const Assignment& assignment : assignments) {
    graph->add_output(assignment.value);
    graph->ties().push_back(
        {static_cast<int>(graph->outputs().size()) - 1, assignment.variable->index()});
  }
  assigned_outputs_ = assignments.size();
}

void gex_graph::remove_assigned_outputs() {
  std::vector<gex::Value*> outputs = graph->outputs();
  outputs.resize(outputs.size() - assigned_outputs_);
  std::erase_if(graph->ties(), [&](const gex::Tie& tie) {
    return static_cast<std::size_t>(tie.output) >= outputs.size();
  });
  graph->set_outputs(std::move(outputs));
  assigned_outputs_ = 0;
}

void gex_graph::continue_from(const gex_graph& other) {
  symbols = other.symbols;
  next_node_ = other.next_node_;
  assigned_outputs_ = other.assigned_outputs_;
  std::unordered_map<const gex::Node*, gex::Node*> copies;
  gex::Node* copy = graph->first();
  for (const gex::Node& node : other.graph->nodes()) {
    copies[&node] = copy;
    copy = copy->next();
  }
  for (const auto& [after, sources] : other.order_)
    for (const gex::Value* before : sources)
      add_order(*copies.at(after->producer()), *copies.at(before->producer()));
  const std::size_t own = graph->outputs().size() - assigned_outputs_;
  for (std::size_t k = 0; k < other.assignments.size(); ++k) {
    const auto variable = static_cast<std::size_t>(other.assignments[k].variable->index());
    assignments.push_back({graph->inputs()[variable].get(), graph->outputs()[own + k]});
    assigned_by[assignments.back().value] = assignments.back().variable;
  }
}
