// Greedy fusion, forward: each node joins the clusters that feed it wherever the union can still be
// lowered to one kernel. Legality is lower_cluster's word; profit is the few rules in `pays`.

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "codegen/lower/cluster.hpp"
#include "codegen/lower/views.hpp"
#include "loop/body.hpp"

namespace gex::lower {
namespace {

bool has_loop_body(const Node& node) {
  return node.op().body && (node.op().body->map || node.op().body->reduction);
}

class Fusion {
 public:
  Fusion(const Graph& graph, const FuseOptions& options) : graph_(graph), options_(options) {}

  FusedGraph run() {
    int position = 0;
    for (const Node& node : graph_.nodes()) {
      position_[&node] = position++;
      if (node.is("bind")) binds_.push_back({std::get<Dim>(node.attr("symbol")), &node});
    }
    collect_roots();
    for (const Node& node : graph_.nodes()) {
      if (is_free(node) && !needed_in_memory(node)) continue;
      place(node);
    }
    return emit();
  }

 private:
  // Computed by loops here: a placed concatenation is not.
  bool is_loop(const Node& node) const {
    return has_loop_body(node) && options_.placed_cats.count(&node) == 0;
  }
  bool is_alone(const Node& node) const { return options_.cats_alone && node.is("cat"); }

  void collect_roots() {
    for (Value* output : graph_.outputs()) {
      if (options_.views.count(output) == 0) require(output);
    }
    for (const Node& node : graph_.nodes()) {
      if (is_loop(node) && !is_contraction(node)) continue;
      if (is_free(node)) continue;
      for (Value* input : node.inputs()) {
        if (input == nullptr || input->type().is_token()) continue;
        auto view = resolve_view(input);
        require(view ? view->base : input);
      }
    }
  }

  void require(Value* v) {
    if (v->producer() != nullptr) roots_.insert(v);
  }

  bool needed_in_memory(const Node& node) const {
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      if (roots_.count(node.output(k)) != 0) return true;
    }
    return false;
  }

  // Clusters that an operand's value comes from, looking through free nodes.
  void sources(const Value* v, std::set<int>& out) const {
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

  std::set<int> sources(const Cluster& cluster) const {
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

  // Sizes that are only known once a `bind` has run make its consumers wait for it.
  static bool mentions(const Node& node, Dim symbol) {
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

  bool used_outside(const Value* v, const std::unordered_set<const Node*>& members) const {
    for (const Use& use : v->uses()) {
      if (use.node == nullptr) return true;
      if (members.count(use.node) != 0) continue;
      if (!is_free(*use.node) || roots_.count(use.node->output()) != 0) return true;
      if (used_outside(use.node->output(), members)) return true;
    }
    return false;
  }

  std::vector<Value*> escaping(const Cluster& cluster) const {
    std::unordered_set<const Node*> members(cluster.nodes.begin(), cluster.nodes.end());
    std::vector<Value*> out;
    for (const Node* node : cluster.nodes) {
      for (std::size_t k = 0; k < node->num_outputs(); ++k) {
        Value* v = node->output(k);
        if (roots_.count(v) != 0 || used_outside(v, members)) out.push_back(v);
      }
    }
    return out;
  }

  Cluster single(const Node& node) const {
    Cluster cluster;
    cluster.nodes = {&node};
    if (is_contraction(node)) {
      cluster.kind = Unit::Kind::contraction;
      cluster.anchor = &node;
      cluster.space = node.output()->type().shape;
      cluster.sealed = !takes_epilogue(node);
    } else if (!is_loop(node)) {
      cluster.kind =
          node.op().body && node.op().body->scatter ? Unit::Kind::scatter : Unit::Kind::step;
      cluster.anchor = &node;
      cluster.sealed = true;
    } else if (node.op().body->reduction) {
      const loop::ReductionBody& body = *node.op().body->reduction;
      cluster.space = body.shape(node);
      cluster.inner = body.axes(node);
      std::sort(cluster.inner.begin(), cluster.inner.end());
      cluster.sealed = body.scan;
    } else {
      cluster.space = node.output()->type().shape;
      cluster.sealed = is_alone(node);
    }
    return cluster;
  }

  void remark(const Node& node, std::string reason) {
    const std::string& at = node.location();
    remarks_.push_back(
        {str(node.op().name, " -> ", node.output()->type(), at.empty() ? "" : " at ", at),
         std::move(reason)});
  }

  // Its elements are summed up (or the like) and nothing else: an epilogue would write them out in
  // vain.
  bool feeds_only_reductions(const Node& node) const {
    constexpr int kRecomputeLimit = 8;
    if (weight_of(node) >= kRecomputeLimit || roots_.count(node.output()) != 0) return false;
    return consumers_reduce(node.output());
  }

  static bool consumers_reduce(const Value* v) {
    for (const Use& use : v->uses()) {
      if (use.node == nullptr) return false;
      if (is_free(*use.node) ? consumers_reduce(use.node->output())
                             : use.node->op().body && use.node->op().body->reduction &&
                                   !is_contraction(*use.node)) {
        continue;
      }
      return false;
    }
    return !v->uses().empty();
  }

  void place(const Node& node) {
    Cluster mine = single(node);
    int id = static_cast<int>(clusters_.size());
    std::vector<int> absorbed;
    bool fusible = options_.enabled && mine.kind == Unit::Kind::loop && !is_alone(node);
    if (fusible) {
      std::set<int> from = sources(mine);
      for (auto it = from.rbegin(); it != from.rend(); ++it) {
        std::string why;
        if (clusters_[static_cast<std::size_t>(*it)].kind == Unit::Kind::contraction &&
            feeds_only_reductions(node)) {
          continue;  // not a loss: it is computed where it is reduced, and never written
        }
        auto merged = merge(mine, *it, absorbed, why);
        if (merged) {
          mine = std::move(*merged);
          absorbed.push_back(*it);
        } else {
          remark(node, str("not fused with ", label(clusters_[static_cast<std::size_t>(*it)].nodes),
                           ": ", why));
        }
      }
    }
    for (int old : absorbed) clusters_[static_cast<std::size_t>(old)].nodes.clear();
    for (const Node* member : mine.nodes) cluster_of_[member] = id;
    clusters_.push_back(std::move(mine));
    reach_.push_back(position_.at(&node));
    for (int from : sources(clusters_.back()))
      if (from != id)
        reach_.back() = std::max(reach_.back(), reach_[static_cast<std::size_t>(from)]);
    if (!absorbed.empty()) raise_readers(id);
  }

  // A cluster that grows may be read already: all that follows from it now reaches further too.
  void raise_readers(int grown) {
    std::vector<int> todo{grown};
    while (!todo.empty()) {
      const int from = todo.back();
      todo.pop_back();
      std::set<int> readers;
      for (const Node* node : clusters_[static_cast<std::size_t>(from)].nodes) {
        for (std::size_t k = 0; k < node->num_outputs(); ++k)
          collect_readers(node->output(k), readers);
        if (node->is("bind")) collect_waiting(std::get<Dim>(node->attr("symbol")), readers);
      }
      for (int reader : readers) {
        int& reach = reach_[static_cast<std::size_t>(reader)];
        if (reach >= reach_[static_cast<std::size_t>(from)]) continue;
        reach = reach_[static_cast<std::size_t>(from)];
        todo.push_back(reader);
      }
    }
  }

  // The reverse of `sources`, as far as nodes are placed.
  void collect_readers(const Value* v, std::set<int>& out) const {
    for (const Use& use : v->uses()) {
      if (use.node == nullptr) continue;
      if (auto found = cluster_of_.find(use.node); found != cluster_of_.end()) {
        out.insert(found->second);
      } else if (is_free(*use.node)) {
        collect_readers(use.node->output(), out);
      }
    }
  }

  void collect_waiting(Dim symbol, std::set<int>& out) const {
    for (const auto& [node, id] : cluster_of_)
      if (mentions(*node, symbol)) out.insert(id);
  }

  // Whether one of these clusters computes an operand of the contraction, which is there before
  // the contraction begins and so can't be part of its epilogue.
  bool is_operand(const Node& contraction, int other_id, const std::vector<int>& absorbed) const {
    std::set<int> from;
    for (Value* input : contraction.inputs())
      if (input != nullptr) sources(input, from);
    return from.count(other_id) != 0 || std::any_of(absorbed.begin(), absorbed.end(),
                                                    [&](int id) { return from.count(id) != 0; });
  }

  // The union of two clusters in some iteration space in which it can be lowered.
  std::optional<Cluster> merge(const Cluster& mine, int other_id, const std::vector<int>& absorbed,
                               std::string& why) {
    const Cluster& other = clusters_[static_cast<std::size_t>(other_id)];
    if (other.sealed) {
      const bool cat = is_alone(*other.nodes.front());
      why = str(other.anchor ? other.anchor->op().name
                : cat        ? "cat"
                             : "a scan",
                " takes no consumers");
      return std::nullopt;
    }
    if (mine.nodes.size() + other.nodes.size() > options_.max_nodes) {
      why = "the kernel would have too many operators";
      return std::nullopt;
    }
    bool contraction =
        mine.kind == Unit::Kind::contraction || other.kind == Unit::Kind::contraction;
    if (mine.kind == Unit::Kind::contraction && other.kind == Unit::Kind::contraction) {
      why = "two contractions";
      return std::nullopt;
    }
    if (contraction && (!mine.inner.empty() || !other.inner.empty())) {
      why = "a reduction over the rows does not fit into an epilogue";
      return std::nullopt;
    }
    if (!mine.inner.empty() && !other.inner.empty() &&
        (mine.space != other.space || mine.inner != other.inner)) {
      why = str("they reduce over different rows: ", text_of(other.space), " and ",
                text_of(mine.space));
      return std::nullopt;
    }
    const Node* anchor = mine.anchor ? mine.anchor : other.anchor;
    if (contraction && is_operand(*anchor, other_id, absorbed)) {
      why = str(anchor->op().name, " reads it from memory");
      return std::nullopt;
    }
    if (makes_cycle(mine, other_id, absorbed)) {
      why = "something between them depends on the first and feeds the second";
      return std::nullopt;
    }
    Cluster merged;
    merged.nodes = mine.nodes;
    merged.nodes.insert(merged.nodes.end(), other.nodes.begin(), other.nodes.end());
    std::sort(merged.nodes.begin(), merged.nodes.end(),
              [&](const Node* a, const Node* b) { return position_.at(a) < position_.at(b); });
    merged.kind = contraction ? Unit::Kind::contraction : Unit::Kind::loop;
    merged.anchor = anchor;
    merged.sealed = mine.sealed;
    std::vector<const Cluster*> spaces;
    if (!mine.inner.empty()) {
      spaces = {&mine};
    } else if (!other.inner.empty()) {
      spaces = {&other};
    } else {
      spaces = {&other, &mine};
      if (mine.space == other.space) spaces = {&mine};
    }
    std::vector<Value*> out = escaping(merged);
    for (const Cluster* choice : spaces) {
      merged.space = choice->space;
      merged.inner = choice->inner;
      if (!pays(*choice, choice == &mine ? other : mine, mine, other, why)) continue;
      LoweredCluster lowered = lower_cluster(merged, out, roots_, options_);
      if (lowered.ok) return merged;
      why = lowered.reason;
    }
    return std::nullopt;
  }

  // Fusing into a larger space computes the smaller cluster again and again: fine if that is cheap,
  // or if the operand is constant along the innermost axis and so computed once for each row.
  bool pays(const Cluster& space, const Cluster& smaller, const Cluster& consumer,
            const Cluster& producer, std::string& why) const {
    if (provably_eq(product(space.space), product(smaller.space))) return true;
    if (&smaller == &consumer) return true;  // a row result computed once beside the rows
    int cost = 0;
    for (const Node* node : producer.nodes) cost += weight_of(*node);
    if (cost < 8) return true;
    for (const Node* node : consumer.nodes) {
      for (Value* input : node->inputs()) {
        if (input == nullptr) continue;
        std::set<int> from;
        sources(input, from);
        bool from_producer = false;
        for (int id : from) from_producer |= &clusters_[static_cast<std::size_t>(id)] == &producer;
        if (!from_producer) continue;
        Value* v = input;
        bool row = v->type().shape.empty() || v->type().shape.back() == Dim(1);
        while (!row && v->producer() && is_free(*v->producer()) &&
               !v->producer()->inputs().empty()) {
          v = v->producer()->input(0);
          row = v->type().shape.empty() || v->type().shape.back() == Dim(1);
        }
        if (!row) {
          why = str("it would be computed again for each element of ", text_of(space.space));
          return false;
        }
      }
    }
    return true;
  }

  bool makes_cycle(const Cluster& mine, int other_id, const std::vector<int>& absorbed) const {
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

  static std::string label(const std::vector<const Node*>& nodes) {
    Unit unit;
    unit.nodes = nodes;
    return unit.label();
  }

  Unit lower(const Cluster& cluster) {
    Unit unit;
    unit.kind = cluster.kind;
    unit.nodes = cluster.nodes;
    unit.anchor = cluster.anchor;
    unit.outputs = escaping(cluster);
    unit.space = cluster.space;
    bool plain = cluster.kind == Unit::Kind::contraction && cluster.nodes.size() == 1;
    if (cluster.kind == Unit::Kind::loop || (cluster.kind == Unit::Kind::contraction && !plain)) {
      LoweredCluster lowered = lower_cluster(cluster, unit.outputs, roots_, options_);
      GEX_CHECK(lowered.ok, "cluster ", unit.label(), ": ", lowered.reason);
      unit.inputs = std::move(lowered.inputs);
      unit.kernel = std::move(lowered.kernel);
      unit.kernel.name = unit.label();
      unit.has_epilogue = cluster.kind == Unit::Kind::contraction;
    }
    return unit;
  }

  // Clusters in an order that respects what feeds what, the graph's order where that leaves a
  // choice.
  FusedGraph emit() {
    FusedGraph fused;
    std::map<int, std::vector<int>> consumers;
    std::vector<int> waiting(clusters_.size(), 0);
    std::set<std::pair<int, int>> ready;
    auto priority = [&](int id) {
      return position_.at(clusters_[static_cast<std::size_t>(id)].nodes.back());
    };
    for (int id = 0; id < static_cast<int>(clusters_.size()); ++id) {
      const Cluster& cluster = clusters_[static_cast<std::size_t>(id)];
      if (cluster.nodes.empty()) continue;
      for (int from : sources(cluster)) {
        if (from == id) continue;
        consumers[from].push_back(id);
        ++waiting[static_cast<std::size_t>(id)];
      }
      if (waiting[static_cast<std::size_t>(id)] == 0) ready.insert({priority(id), id});
    }
    std::size_t left_out = 0;
    while (!ready.empty()) {
      int id = ready.begin()->second;
      ready.erase(ready.begin());
      Unit unit = lower(clusters_[static_cast<std::size_t>(id)]);
      // At O0 nothing removes code whose result nobody wants; it has no place to write it to.
      const bool dead = unit.kind != Unit::Kind::step && unit.outputs.empty();
      if (dead) ++left_out;
      if (!dead) fused.units.push_back(std::move(unit));
      for (int next : consumers[id]) {
        if (--waiting[static_cast<std::size_t>(next)] == 0) ready.insert({priority(next), next});
      }
    }
    std::size_t live = 0;
    for (const Cluster& cluster : clusters_) live += cluster.nodes.empty() ? 0 : 1;
    GEX_CHECK(fused.units.size() + left_out == live, "fusion made a cycle");
    fused.remarks = std::move(remarks_);
    return fused;
  }

  const Graph& graph_;
  const FuseOptions& options_;
  std::unordered_map<const Node*, int> position_, cluster_of_;
  std::unordered_set<const Value*> roots_;
  std::vector<std::pair<Dim, const Node*>> binds_;
  std::vector<Cluster> clusters_;
  // By cluster: the last position of the nodes in it and in all that it depends on.
  std::vector<int> reach_;
  std::vector<Remark> remarks_;
};

}  // namespace

FusedGraph fuse(const Graph& graph, const FuseOptions& options) {
  return Fusion(graph, options).run();
}

std::string Unit::label() const {
  std::string text;
  std::size_t shown = 0;
  for (const Node* node : nodes) {
    if (is_free(*node) && nodes.size() > 1) continue;
    if (shown == 6) {
      text += "+...";
      break;
    }
    text += (text.empty() ? "" : "+") + node->op().name;
    ++shown;
  }
  return text;
}

std::string print(const FusedGraph& fused) {
  std::string text;
  int number = 0;
  for (const Unit& unit : fused.units) {
    const char* kind = unit.kind == Unit::Kind::loop          ? "kernel"
                       : unit.kind == Unit::Kind::contraction ? "contraction"
                       : unit.kind == Unit::Kind::scatter     ? "scatter"
                                                              : "step";
    text += str("// unit ", number++, ": ", kind, " ", unit.label(), " (", unit.nodes.size(),
                unit.nodes.size() == 1 ? " operator)\n" : " operators)\n");
    if (!unit.kernel.stages.empty()) text += loop::print(unit.kernel) + "\n";
  }
  for (const Remark& remark : fused.remarks)
    text += str("// not fused: ", remark.node, ": ", remark.reason, "\n");
  return text;
}

}  // namespace gex::lower
