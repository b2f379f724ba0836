#include "lower/cluster_graph.hpp"

#include <algorithm>
#include <map>

namespace gex::lower {

namespace {

// Sizes known only after a `bind` make its consumers wait for it.
bool mentions(const Node& node, Dim symbol) {
  auto depends = [&](const Value* v) {
    return v != nullptr && std::any_of(v->type().shape.begin(), v->type().shape.end(),
                                       [&](Dim d) { return d.depends_on(symbol); });
  };
  for (Value* input : node.inputs()) {
    if (depends(input)) return true;
  }
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    if (depends(node.output(k))) return true;
  }
  return std::any_of(node.attrs().begin(), node.attrs().end(), [&](const AttrValue& a) {
    const auto* dims = std::get_if<std::vector<Dim>>(&a);
    if (dims)
      return std::any_of(dims->begin(), dims->end(), [&](Dim d) { return d.depends_on(symbol); });
    const Dim* dim = std::get_if<Dim>(&a);
    return dim != nullptr && dim->depends_on(symbol);
  });
}

}  // namespace

ClusterGraph::ClusterGraph(const Graph& graph) {
  int position = 0;
  for (const Node& node : graph.nodes()) {
    position_[&node] = position++;
    if (node.op().step == StepKind::bind)
      binds_.push_back({std::get<Dim>(node.attr("symbol")), &node});
  }
}

std::optional<int> ClusterGraph::find(const Node& node) const {
  const auto found = cluster_of_.find(&node);
  if (found == cluster_of_.end()) return std::nullopt;
  return found->second;
}

void ClusterGraph::sources(const Value* v, std::set<int>& out) const {
  const Node* node = v->producer();
  if (node == nullptr) return;
  auto found = cluster_of_.find(node);
  if (found != cluster_of_.end()) {
    out.insert(found->second);
    return;
  }
  for (Value* input : node->inputs()) {
    if (input != nullptr) sources(input, out);
  }
}

std::set<int> ClusterGraph::sources(const Cluster& cluster) const {
  std::set<int> out;
  for (const Node* node : cluster.nodes) {
    for (Value* input : node->inputs()) {
      if (input != nullptr) sources(input, out);
    }
    for (const auto& [symbol, bind] : binds_) {
      auto found = cluster_of_.find(bind);
      if (bind != node && found != cluster_of_.end() && mentions(*node, symbol))
        out.insert(found->second);
    }
  }
  return out;
}

void ClusterGraph::add(Cluster cluster, const Node& node, const std::vector<int>& absorbed) {
  const int id = size();
  for (int old : absorbed) clusters_[static_cast<std::size_t>(old)].nodes.clear();
  for (const Node* member : cluster.nodes) cluster_of_[member] = id;
  clusters_.push_back(std::move(cluster));
  reach_.push_back(position_.at(&node));
  for (int from : sources(clusters_.back()))
    if (from != id) reach_.back() = std::max(reach_.back(), reach_[static_cast<std::size_t>(from)]);
  if (!absorbed.empty()) raise_readers(id);
}

// A cluster that grows may already have readers: everything that depends on it is updated.
void ClusterGraph::raise_readers(int grown) {
  std::vector<int> todo{grown};
  while (!todo.empty()) {
    const int from = todo.back();
    todo.pop_back();
    std::set<int> readers;
    for (const Node* node : clusters_[static_cast<std::size_t>(from)].nodes) {
      for (std::size_t k = 0; k < node->num_outputs(); ++k)
        collect_readers(node->output(k), readers);
      if (node->op().step == StepKind::bind)
        collect_waiting(std::get<Dim>(node->attr("symbol")), readers);
    }
    for (int reader : readers) {
      int& reach = reach_[static_cast<std::size_t>(reader)];
      if (reach >= reach_[static_cast<std::size_t>(from)]) continue;
      reach = reach_[static_cast<std::size_t>(from)];
      todo.push_back(reader);
    }
  }
}

// The reverse of `sources`, as far as nodes are assigned to clusters.
void ClusterGraph::collect_readers(const Value* v, std::set<int>& out) const {
  for (const Use& use : v->uses()) {
    if (use.node == nullptr) continue;
    if (auto found = cluster_of_.find(use.node); found != cluster_of_.end()) {
      out.insert(found->second);
    } else if (is_free(*use.node)) {
      collect_readers(use.node->output(), out);
    }
  }
}

void ClusterGraph::collect_waiting(Dim symbol, std::set<int>& out) const {
  for (const auto& [node, id] : cluster_of_)
    if (mentions(*node, symbol)) out.insert(id);
}

bool ClusterGraph::makes_cycle(const Cluster& mine, int other_id,
                               const std::vector<int>& absorbed) const {
  std::set<int> inside(absorbed.begin(), absorbed.end());
  inside.insert(other_id);
  std::set<int> frontier, seen;
  auto expand = [&](const Cluster& cluster) {
    for (int id : sources(cluster)) {
      if (inside.count(id) == 0 && seen.insert(id).second) frontier.insert(id);
    }
  };
  int first = position_.at(clusters_[static_cast<std::size_t>(other_id)].nodes.front());
  for (const Node* n : mine.nodes) first = std::min(first, position_.at(n));
  expand(mine);
  expand(clusters_[static_cast<std::size_t>(other_id)]);
  while (!frontier.empty()) {
    int id = *frontier.begin();
    frontier.erase(frontier.begin());
    const Cluster& cluster = clusters_[static_cast<std::size_t>(id)];
    if (reach_[static_cast<std::size_t>(id)] < first) continue;
    for (int up : sources(cluster)) {
      if (inside.count(up) != 0) return true;
      if (seen.insert(up).second) frontier.insert(up);
    }
  }
  return false;
}

std::vector<int> ClusterGraph::in_order() const {
  std::map<int, std::vector<int>> consumers;
  std::vector<int> waiting(clusters_.size(), 0);
  std::set<std::pair<int, int>> ready;
  const auto priority = [&](int id) { return position_.at(at(id).nodes.back()); };
  std::size_t live = 0;
  for (int id = 0; id < size(); ++id) {
    if (at(id).nodes.empty()) continue;
    ++live;
    for (int from : sources(at(id))) {
      if (from == id) continue;
      consumers[from].push_back(id);
      ++waiting[static_cast<std::size_t>(id)];
    }
    if (waiting[static_cast<std::size_t>(id)] == 0) ready.insert({priority(id), id});
  }
  std::vector<int> ordered;
  while (!ready.empty()) {
    const int id = ready.begin()->second;
    ready.erase(ready.begin());
    ordered.push_back(id);
    for (int next : consumers[id])
      if (--waiting[static_cast<std::size_t>(next)] == 0) ready.insert({priority(next), next});
  }
  GEX_CHECK(ordered.size() == live, "fusion made a cycle");
  return ordered;
}

}  // namespace gex::lower
