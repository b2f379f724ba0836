#pragma once
// The clusters of a fusion in progress and their dependencies.

#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lower/cluster.hpp"

namespace gex::lower {

class ClusterGraph {
 public:
  explicit ClusterGraph(const Graph& graph);

  int position(const Node* node) const { return position_.at(node); }
  int size() const { return static_cast<int>(clusters_.size()); }
  std::optional<int> find(const Node& node) const;  // the cluster that contains it
  const Cluster& at(int id) const { return clusters_[static_cast<std::size_t>(id)]; }

  // Clusters that an operand's value comes from, looking through free nodes.
  void sources(const Value* v, std::set<int>& out) const;
  std::set<int> sources(const Cluster& cluster) const;

  // Whether something outside would depend on the union of these clusters and also feed it.
  bool makes_cycle(const Cluster& mine, int other, const std::vector<int>& absorbed) const;

  // The cluster that `node` ends; clusters that it absorbed are empty afterwards.
  void add(Cluster cluster, const Node& node, const std::vector<int>& absorbed);

  // Ids of the non-empty clusters in dependency order, otherwise in graph order.
  std::vector<int> in_order() const;

 private:
  void raise_readers(int grown);
  void collect_readers(const Value* v, std::set<int>& out) const;
  void collect_waiting(Dim symbol, std::set<int>& out) const;

  std::unordered_map<const Node*, int> position_, cluster_of_;
  std::vector<std::pair<Dim, const Node*>> binds_;
  std::vector<Cluster> clusters_;
  // By cluster: the last position of its nodes and of everything it depends on.
  std::vector<int> reach_;
};

}  // namespace gex::lower
