// Greedy forward fusion: each node joins the clusters of its operands if the union can still be
// lowered to one kernel. Legality is decided by lower_cluster, profit by the rules in `pays`.

#include <algorithm>
#include <set>

#include "ir/run_labels.hpp"
#include "loop/body.hpp"
#include "loop/walk.hpp"
#include "lower/cluster.hpp"
#include "lower/cluster_graph.hpp"
#include "lower/grid_order.hpp"
#include "lower/prologue.hpp"
#include "lower/views.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::lower {
namespace {

bool has_loop_body(const Node& node) {
  return node.op().body && (node.op().body->map || node.op().body->reduction);
}

class Fusion {
 public:
  Fusion(const Graph& graph, const FuseOptions& options)
      : graph_(graph), options_(options), clusters_(graph) {}

  FusedGraph run() {
    collect_roots();
    for (const Node& node : graph_.nodes()) {
      if (is_free(node) && !needed_in_memory(node)) continue;
      place(node);
    }
    return emit();
  }

 private:
  // Whether loops compute the node. Concatenations that are placed need none.
  bool is_loop(const Node& node) const {
    return has_loop_body(node) && options_.placed_cats.count(&node) == 0;
  }
  bool is_alone(const Node& node) const {
    return options_.cats_alone && node.op().has(Trait::concatenation);
  }

  void collect_roots() {
    for (Value* output : graph_.outputs()) {
      if (options_.views.count(output) == 0) require(output);
    }
    for (const Node& node : graph_.nodes()) {
      if (is_loop(node) && !is_problem(node)) continue;
      if (is_free(node)) continue;
      for (int k = 0; k < static_cast<int>(node.inputs().size()); ++k) {
        Value* input = node.inputs()[static_cast<std::size_t>(k)];
        if (input == nullptr || input->type().is_token()) continue;
        input = operand_value(node, k);
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
    if (is_problem(node)) {
      cluster.kind = Unit::Kind::problem;
      cluster.anchor = &node;
      cluster.space = node.output()->type().shape;
      cluster.sealed = !takes_epilogue(node) || is_library_product(node);
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

  // Left to the vendor's library, without epilogue and prologues.
  bool is_library_product(const Node& node) const {
    if (!options_.costs.library_products || !is_problem(node)) return false;
    if (!node.op().problem->library_product) return false;
    const Shape& shape = node.output()->type().shape;
    const Dim rows = shape[shape.size() - 2];
    return rows.range().hi > options_.costs.few_rows;
  }

  void remark(const Node& node, const std::vector<const Node*>& neighbour, std::string reason) {
    const std::string& at = node.location();
    remarks_.push_back(
        {str(node.op().name, " -> ", node.output()->type(), at.empty() ? "" : " at ", at),
         std::move(reason), &node, neighbour.empty() ? nullptr : neighbour.back()});
  }

  // An epilogue would store its elements unnecessarily: they are only reduced, or they are reduced
  // and their operands are already in memory for the kernel that does it.
  bool belongs_to_reductions(const Node& node, int contraction) const {
    constexpr int kRecomputeLimit = 8;
    if (weight_of(node) >= kRecomputeLimit || roots_.count(node.output()) != 0) return false;
    if (consumers_reduce(node.output())) return true;
    return is_reduced(node.output()) && reads_only_memory(node, contraction);
  }

  // Whether everything it reads from this cluster is stored anyway.
  bool reads_only_memory(const Node& node, int cluster) const {
    for (const Value* v : node.inputs()) {
      std::set<int> from;
      if (v != nullptr) clusters_.sources(v, from);
      if (from.count(cluster) == 0) continue;
      while (is_free(*v->producer())) v = v->producer()->input(0);
      if (roots_.count(v) == 0 && !is_reduced(v)) return false;
    }
    return true;
  }

  static bool is_reduction(const Node& node) {
    return node.op().body && node.op().body->reduction && !is_problem(node);
  }

  // Whether some user of the value reduces it, which an epilogue can't do.
  static bool is_reduced(const Value* v) {
    return std::ranges::any_of(v->uses(), [](const Use& use) {
      if (use.node == nullptr) return false;
      return is_free(*use.node) ? is_reduced(use.node->output()) : is_reduction(*use.node);
    });
  }

  static bool consumers_reduce(const Value* v) {
    for (const Use& use : v->uses()) {
      if (use.node == nullptr) return false;
      if (is_free(*use.node) ? !consumers_reduce(use.node->output()) : !is_reduction(*use.node))
        return false;
    }
    return !v->uses().empty();
  }

  // Combines results of several matmuls, and a matmul of few rows can compute it as its operand: as
  // an epilogue it would make one of those matmuls wait for the others.
  bool belongs_to_consumer(const Node& node, const std::set<int>& from) const {
    if (!options_.costs.merges_launches || !options_.prologues) return false;
    const auto is_product = [&](int id) { return clusters_.at(id).kind == Unit::Kind::problem; };
    if (std::count_if(from.begin(), from.end(), is_product) < 2) return false;
    const Value* v = node.output();
    while (v->uses().size() == 1 && v->uses()[0].node != nullptr && is_free(*v->uses()[0].node))
      v = v->uses()[0].node->output();
    if (v->uses().size() != 1 || v->uses()[0].node == nullptr) return false;
    const Node& consumer = *v->uses()[0].node;
    if (!is_problem(consumer) || is_library_product(consumer)) return false;
    for (int operand : computable_operands(consumer))
      if (computable_value(consumer, operand) == node.output())
        return prologue_pays(consumer, operand, {&node}, options_.costs);
    return false;
  }

  void place(const Node& node) {
    Cluster mine = single(node);
    std::vector<int> absorbed;
    bool fusible = options_.enabled && mine.kind == Unit::Kind::loop && !is_alone(node);
    if (fusible) {
      std::set<int> from = clusters_.sources(mine);
      for (auto it = from.rbegin(); it != from.rend(); ++it) {
        std::string why;
        if (clusters_.at(*it).kind == Unit::Kind::problem && belongs_to_reductions(node, *it)) {
          continue;  // not a loss: it is computed where it is reduced, and never stored
        }
        if (clusters_.at(*it).kind == Unit::Kind::problem && belongs_to_consumer(node, from))
          continue;
        if (consumers_reduce(node.output()) && has_many_conditions(clusters_.at(*it))) {
          remark(node, clusters_.at(*it).nodes,
                 str("not fused with ", label(clusters_.at(*it).nodes), ": ", kManyParts));
          continue;  // computed where it is reduced
        }
        auto merged = merge(mine, *it, absorbed, why);
        if (merged) {
          mine = std::move(*merged);
          absorbed.push_back(*it);
        } else {
          const std::vector<const Node*>& others = clusters_.at(*it).nodes;
          remark(node, others, str("not fused with ", label(others), ": ", why));
        }
      }
    }
    if (options_.enabled && options_.prologues && mine.kind == Unit::Kind::problem &&
        !is_library_product(node)) {
      for (int operand : computable_operands(node)) absorb_operand(mine, operand, absorbed);
    }
    clusters_.add(std::move(mine), node, absorbed);
  }

  // Makes the problem compute the operand in a prologue, if nothing else reads the operand's
  // cluster. As only the problem reads it, no cycle can arise.
  void absorb_operand(Cluster& mine, int operand, std::vector<int>& absorbed) {
    const Node& node = *mine.anchor;
    Value* value = computable_value(node, operand);
    if (value == nullptr || used_outside(value, {&node})) return;
    const auto id = clusters_.find(*value->producer());
    // A reduction is computed once, not at each read of its result.
    if (!id || clusters_.at(*id).kind != Unit::Kind::loop || !clusters_.at(*id).inner.empty())
      return;
    const Cluster& maker = clusters_.at(*id);
    std::string why;
    ClusterPrologue prologue{operand, value, maker.nodes};
    if (escaping(maker) != std::vector<Value*>{value}) {
      why = "its other results are needed in memory";
    } else if (!run_labels_of(node).same_limits(run_labels_of(*maker.nodes.front()))) {
      why = "they may use different numbers of cores";
    } else if (!prologue_pays(node, operand, maker.nodes, options_.costs)) {
      why = "it would be recomputed too often";
    } else if (LoweredCluster lowered = lower_prologue(node, prologue, roots_, options_);
               !lowered.ok) {
      why = lowered.reason;
    }
    if (!why.empty()) {
      remark(node, maker.nodes,
             str("operand ", operand, " is not computed by a prologue but by ", label(maker.nodes),
                 ": ", why));
      return;
    }
    roots_.erase(value);
    mine.nodes.insert(mine.nodes.end(), prologue.nodes.begin(), prologue.nodes.end());
    sort_in_order(mine.nodes);
    mine.prologues.push_back(std::move(prologue));
    absorbed.push_back(*id);
  }

  void sort_in_order(std::vector<const Node*>& nodes) const {
    std::sort(nodes.begin(), nodes.end(), [&](const Node* a, const Node* b) {
      return clusters_.position(a) < clusters_.position(b);
    });
  }

  // The contraction with its epilogue only.
  static Cluster without_prologues(const Cluster& cluster) {
    Cluster rest = cluster;
    rest.prologues.clear();
    for (const ClusterPrologue& prologue : cluster.prologues)
      for (const Node* node : prologue.nodes) std::erase(rest.nodes, node);
    return rest;
  }

  // Whether one of these clusters computes an operand of the contraction, which is needed before
  // the contraction begins and so can't be part of its epilogue. Operands computed by its prologues
  // are not clusters.
  bool is_operand(const Node& contraction, int other_id, const std::vector<int>& absorbed) const {
    std::set<int> from;
    for (Value* input : contraction.inputs())
      if (input != nullptr) clusters_.sources(input, from);
    if (const auto own = clusters_.find(contraction)) from.erase(*own);
    return from.count(other_id) != 0 || std::any_of(absorbed.begin(), absorbed.end(),
                                                    [&](int id) { return from.count(id) != 0; });
  }

  // Epilogues run row by row: if rows are shorter than a vector, the rest of each vector is idle,
  // which a kernel over all rows avoids at the cost of a pass over memory. Threads of a GPU are not
  // bound to rows.
  bool wastes_lanes(const Node& contraction, const Cluster& work) const {
    constexpr std::int64_t kLanes = 16;
    const Shape& shape = contraction.output()->type().shape;
    if (options_.costs.library_products || shape.empty() || !shape.back().is_const() ||
        shape.back().constant() >= kLanes)
      return false;
    std::int64_t weight = 0;
    for (const Node* node : work.nodes) weight += weight_of(*node);
    return weight * (kLanes - shape.back().constant()) / kLanes >
           2 * options_.costs.memory_round_trip;
  }

  // Why loops of one cluster can't be an epilogue of the contraction in the other; empty: they can.
  std::string why_no_epilogue(const Node& contraction, const Cluster& mine, int other_id,
                              const std::vector<int>& absorbed) const {
    const Cluster& other = clusters_.at(other_id);
    if (!mine.inner.empty() || !other.inner.empty())
      return "a reduction over the rows does not fit into an epilogue";
    if (is_operand(contraction, other_id, absorbed))
      return str(contraction.op().name, " reads it from memory");
    if (wastes_lanes(contraction, mine.anchor ? other : mine))
      return str("rows of ", text_of(contraction.output()->type().shape),
                 " are too short for so much work");
    return {};
  }

  // Why two clusters can't be one, whatever its iteration space; empty: they may.
  std::string why_separate(const Cluster& mine, int other_id,
                           const std::vector<int>& absorbed) const {
    const Cluster& other = clusters_.at(other_id);
    if (other.sealed) {
      const bool cat = is_alone(*other.nodes.front());
      return str(other.anchor ? other.anchor->op().name
                 : cat        ? "cat"
                              : "a scan",
                 " takes no consumers");
    }
    if (mine.nodes.size() + other.nodes.size() > options_.max_nodes)
      return "the kernel would have too many operators";
    if (!run_labels_of(*mine.nodes.front()).same_limits(run_labels_of(*other.nodes.front())))
      return "they may use different numbers of cores";
    if (mine.kind == Unit::Kind::problem && other.kind == Unit::Kind::problem)
      return "two contractions";
    if (!mine.inner.empty() && !other.inner.empty()) {
      if (mine.space != other.space)
        return str("they reduce over different rows: ", text_of(other.space), " and ",
                   text_of(mine.space));
      if (mine.inner != other.inner)
        return str("they reduce over different axes of ", text_of(mine.space));
    }
    if (is_contraction(mine, other)) {
      const Node* anchor = mine.anchor ? mine.anchor : other.anchor;
      std::string why = why_no_epilogue(*anchor, mine, other_id, absorbed);
      if (!why.empty()) return why;
    }
    if (clusters_.makes_cycle(mine, other_id, absorbed))
      return "a node between them depends on the first and feeds the second";
    return {};
  }

  static bool is_contraction(const Cluster& mine, const Cluster& other) {
    return mine.kind == Unit::Kind::problem || other.kind == Unit::Kind::problem;
  }

  // The union of two clusters, in an iteration space in which it can be lowered.
  std::optional<Cluster> merge(const Cluster& mine, int other_id, const std::vector<int>& absorbed,
                               std::string& why) {
    const Cluster& other = clusters_.at(other_id);
    why = why_separate(mine, other_id, absorbed);
    if (!why.empty()) return std::nullopt;
    Cluster merged;
    merged.nodes = mine.nodes;
    merged.nodes.insert(merged.nodes.end(), other.nodes.begin(), other.nodes.end());
    sort_in_order(merged.nodes);
    merged.prologues = mine.anchor ? mine.prologues : other.prologues;
    merged.kind = is_contraction(mine, other) ? Unit::Kind::problem : Unit::Kind::loop;
    merged.anchor = mine.anchor ? mine.anchor : other.anchor;
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
      if (can_be_lowered(merged, out, why)) return merged;
    }
    return std::nullopt;
  }

  bool can_be_lowered(const Cluster& cluster, const std::vector<Value*>& out,
                      std::string& why) const {
    const LoweredCluster lowered = lower_cluster(without_prologues(cluster), out, roots_, options_);
    const auto most = static_cast<std::size_t>(options_.costs.max_epilogue_buffers);
    const bool fits = cluster.kind != Unit::Kind::problem || !lowered.ok ||
                      lowered.inputs.size() + out.size() <= most;
    if (!lowered.ok) why = lowered.reason;
    if (!fits) why = "its epilogue would use too many buffers";
    if (lowered.ok && reads_columns_as_rows(cluster, lowered)) {
      why = "its epilogue, which runs row by row, would read columns of a large operand";
      return false;
    }
    if (lowered.ok && stores_rows_apart(cluster, lowered)) {
      why = "its epilogue, which runs row by row, would store columns";
      return false;
    }
    return lowered.ok && fits;
  }

  // Whether the rows of an epilogue are columns of an operand that the first-level cache does not
  // hold: each row would read all its cache lines again. A kernel of its own runs by tiles. Threads
  // of a GPU are not bound to rows.
  bool reads_columns_as_rows(const Cluster& cluster, const LoweredCluster& lowered) const {
    constexpr std::int64_t kCachedElements = 4096;
    if (cluster.kind != Unit::Kind::problem || options_.costs.library_products) return false;
    const loop::Kernel& kernel = lowered.kernel;
    if (kernel.grid.size() < 2) return false;
    for (int b = 0; b < kernel.num_params(); ++b) {
      const auto elements = product(kernel.buffers[static_cast<std::size_t>(b)].shape).range().hi;
      if (elements > kCachedElements && loop::loads_across(kernel, b)) return true;
    }
    return false;
  }

  // Whether an epilogue would store neighbouring elements of its rows far apart, such as a
  // convolution's images with the channels last in memory. A kernel of its own runs by tiles.
  bool stores_rows_apart(const Cluster& cluster, const LoweredCluster& lowered) const {
    if (cluster.kind != Unit::Kind::problem || options_.costs.library_products) return false;
    if (cluster.anchor->op().problem->any_result_strides) return false;
    const loop::Kernel& kernel = lowered.kernel;
    if (kernel.grid.size() < 2) return false;
    const Dim lane = kernel.grid.back().index;
    return std::ranges::any_of(kernel.stages, [&](const loop::Stage& stage) {
      return std::ranges::any_of(stage.stores, [&](const loop::Store& s) {
        const auto& buffer = kernel.buffers[static_cast<std::size_t>(s.buffer)];
        const auto parts = affine_in(loop::linear_offset(buffer, s.index), lane);
        return !parts || !(parts->coefficient == Dim(1));
      });
    });
  }

  static constexpr const char* kManyParts =
      "it is assembled of many parts, which each pass of a reduction would do again";
  // Conditions in the loops of a reduction prevent vectors, and cost more than a pass over memory.
  static bool has_many_conditions(const Cluster& cluster) {
    if (!cluster.inner.empty()) return false;
    constexpr int kMost = 4;
    int reads = 0;
    for (const Node* node : cluster.nodes) reads += conditional_reads(*node);
    return reads > kMost;
  }

  // Fusing into a larger space recomputes the smaller cluster: fine if that is cheap, or if the
  // operand is constant along the innermost axis and so computed once per row.
  bool pays(const Cluster& space, const Cluster& smaller, const Cluster& consumer,
            const Cluster& producer, std::string& why) const {
    if (!consumer.inner.empty() && has_many_conditions(producer)) {
      why = kManyParts;
      return false;
    }
    if (provably_eq(product(space.space), product(smaller.space))) return true;
    if (&smaller == &consumer) return true;  // a row result computed once per row
    int cost = 0;
    for (const Node* node : producer.nodes) cost += weight_of(*node);
    if (cost < 8) return true;
    for (const Node* node : consumer.nodes) {
      for (Value* input : node->inputs()) {
        if (input == nullptr) continue;
        std::set<int> from;
        clusters_.sources(input, from);
        bool from_producer = false;
        for (int id : from) from_producer |= &clusters_.at(id) == &producer;
        if (!from_producer) continue;
        Value* v = input;
        bool row = v->type().shape.empty() || v->type().shape.back() == Dim(1);
        while (!row && v->producer() && is_free(*v->producer()) &&
               !v->producer()->inputs().empty()) {
          v = v->producer()->input(0);
          row = v->type().shape.empty() || v->type().shape.back() == Dim(1);
        }
        if (!row) {
          why = str("it would be recomputed for each element of ", text_of(space.space));
          return false;
        }
      }
    }
    return true;
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
    for (const ClusterPrologue& prologue : cluster.prologues) {
      LoweredCluster lowered = lower_prologue(*cluster.anchor, prologue, roots_, options_);
      GEX_CHECK(lowered.ok, "prologue ", label(prologue.nodes), ": ", lowered.reason);
      lowered.kernel.name = label(prologue.nodes);
      unit.prologues.push_back(
          {prologue.operand, prologue.value, std::move(lowered.inputs), std::move(lowered.kernel)});
    }
    const Cluster rest = without_prologues(cluster);
    bool plain = cluster.kind == Unit::Kind::problem && rest.nodes.size() == 1;
    if (cluster.kind == Unit::Kind::loop || (cluster.kind == Unit::Kind::problem && !plain)) {
      LoweredCluster lowered = lower_cluster(rest, unit.outputs, roots_, options_);
      GEX_CHECK(lowered.ok, "cluster ", unit.label(), ": ", lowered.reason);
      unit.inputs = std::move(lowered.inputs);
      unit.kernel = std::move(lowered.kernel);
      unit.kernel.name = unit.label();
      if (cluster.kind == Unit::Kind::loop) order_grid(unit.kernel);
      unit.has_epilogue = cluster.kind == Unit::Kind::problem;
    }
    return unit;
  }

  FusedGraph emit() {
    FusedGraph fused;
    for (int id : clusters_.in_order()) {
      Unit unit = lower(clusters_.at(id));
      // At O0 no pass removes unused nodes: their units have no outputs.
      const bool dead = unit.kind != Unit::Kind::step && unit.outputs.empty();
      if (!dead) fused.units.push_back(std::move(unit));
    }
    fused.remarks = std::move(remarks_);
    return fused;
  }

  const Graph& graph_;
  const FuseOptions& options_;
  std::unordered_set<const Value*> roots_;
  ClusterGraph clusters_;
  std::vector<Remark> remarks_;
};

}  // namespace

FusedGraph fuse(const Graph& graph, const FuseOptions& options) {
  return Fusion(graph, options).run();
}

}  // namespace gex::lower
