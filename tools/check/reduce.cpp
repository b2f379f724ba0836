#include "check/reduce.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "check/rebuild.hpp"
#include "ops/call.hpp"

namespace gex::check {
namespace {

// Symbols whose value a run can't determine: no input has exactly this symbol as a size, and no
// bind or call defines them.
std::set<std::string> untold_symbols(const Graph& graph) {
  std::set<std::string> untold;
  for (Dim symbol : all_symbols_of(graph)) untold.insert(symbol.name());
  for (const Node& node : graph.nodes()) {
    if (node.op().step == StepKind::bind) untold.erase(std::get<Dim>(node.attr("symbol")).name());
    if (!ops::is_call(node)) continue;
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      for (Dim size : node.output(k)->type().shape)
        if (size.is_symbol()) untold.erase(size.name());
  }
  for (Dim symbol : symbols_of(graph)) untold.insert(symbol.name());
  for (Dim symbol : symbols_told_by_inputs(graph)) untold.erase(symbol.name());
  return untold;
}

class Reducer {
 public:
  Reducer(const Graph& graph, const std::function<bool(const Graph&)>& holds,
          const ReduceOptions& options)
      : graph_(graph.clone()), untold_(untold_symbols(graph)), holds_(holds), options_(options) {}

  std::unique_ptr<Graph> run() {
    bool smaller = true;
    while (smaller) {
      smaller = drop_ties();
      smaller |= fewer_outputs();
      smaller |= fewer_nodes();
      smaller |= shorter_paths();
      smaller |= smaller_sizes();
      smaller |= plainer_attributes();
    }
    return std::move(graph_);
  }

 private:
  // Tries the changed graph: if it is valid, can be run like the given one and still fails, it
  // becomes the current graph.
  bool attempt(const Changes& changes) {
    if (tests_ >= options_.most_tests) return false;
    std::unique_ptr<Graph> candidate;
    try {
      candidate = rebuild(*graph_, changes);
    } catch (const UserError&) {
      return false;  // not a valid graph
    }
    if (structurally_equal(*candidate, *graph_)) return false;
    if (!std::ranges::includes(untold_, untold_symbols(*candidate))) return false;
    ++tests_;
    if (!holds_(*candidate)) return false;
    graph_ = std::move(candidate);
    if (options_.progress) options_.progress(*graph_);
    return true;
  }

  // Tries to remove chunks of `count()` elements: halves first, then quarters, then single ones.
  template <class Count, class Without>
  bool in_chunks(Count count, Without without) {
    bool smaller = false;
    for (std::size_t chunk = std::max<std::size_t>(1, count() / 2);; chunk /= 2) {
      for (std::size_t from = 0; from < count();)
        if (without(from, std::min(from + chunk, count()))) {
          smaller = true;
        } else {
          from += chunk;
        }
      if (chunk <= 1) return smaller;
    }
  }

  bool drop_ties() {
    Changes changes;
    changes.drop_ties = true;
    return !graph_->ties().empty() && attempt(changes);
  }

  bool fewer_outputs() {
    if (graph_->outputs().size() < 2) return false;
    return in_chunks([&] { return graph_->outputs().size(); },
                     [&](std::size_t from, std::size_t to) {
                       if (to - from == graph_->outputs().size()) return false;
                       Changes changes;
                       for (std::size_t k = from; k < to; ++k) changes.dropped_outputs.insert(k);
                       return attempt(changes);
                     });
  }

  std::vector<Node*> nodes() const {
    std::vector<Node*> all;
    for (Node& node : graph_->nodes()) all.push_back(&node);
    return all;
  }

  static bool can_cut(const Node& node) {
    if (node.op().has(Trait::effect)) return false;
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      if (node.output(k)->type().is_token()) return false;
    return true;
  }

  bool fewer_nodes() {
    return in_chunks([&] { return graph_->num_nodes(); },
                     [&](std::size_t from, std::size_t to) {
                       const std::vector<Node*> all = nodes();
                       Changes changes;
                       for (std::size_t k = from; k < to; ++k)
                         if (can_cut(*all[k])) changes.cut.insert(all[k]);
                       const std::size_t before = graph_->num_nodes();
                       return !changes.cut.empty() && attempt(changes) &&
                              graph_->num_nodes() < before;
                     });
  }

  // Replaces a node by one of its operands, or an if by one of its branches.
  bool shorter_paths() {
    bool smaller = false;
    for (std::size_t at = 0; at < graph_->num_nodes(); ++at) {
      Node* node = nodes()[at];
      bool done = false;
      // A successful attempt replaces the graph, which invalidates the node.
      for (std::size_t k = 0; !done && k < node->inputs().size() && node->num_outputs() == 1; ++k) {
        if (!node->has_input(k) || node->input(k)->type() != node->output()->type()) continue;
        Changes changes;
        changes.bypass[node] = k;
        done = attempt(changes);
      }
      for (std::size_t k = 0; !done && k < node->subgraphs().size(); ++k) {
        if (node->subgraphs()[k]->outputs().size() != node->num_outputs()) continue;
        Changes changes;
        changes.inlined[node] = k;
        done = attempt(changes);
      }
      smaller |= done;
      if (done) --at;
    }
    return smaller;
  }

  bool replace_size(Dim from, Dim to) {
    Changes changes;
    changes.size = [=](Dim size) {
      if (from.is_const()) return size == from ? to : size;
      return size.substitute(
          [=](Dim symbol) { return symbol == from ? std::optional(to) : std::nullopt; });
    };
    return attempt(changes);
  }

  bool smaller_sizes() {
    bool smaller = false;
    for (Dim symbol : symbols_of(*graph_))
      for (std::int64_t size : {2, 3, 5})
        if (size >= symbol.range().lo && replace_size(symbol, Dim(size))) {
          smaller = true;
          break;
        }
    std::set<std::int64_t, std::greater<>> sizes;
    for (const auto& input : graph_->inputs())
      for (Dim size : input->type().shape)
        if (size.is_const() && size.constant() > 1) sizes.insert(size.constant());
    for (std::int64_t size : sizes)
      for (std::int64_t less : {std::int64_t{1}, std::int64_t{2}, size / 2, size - 1})
        if (less > 0 && less < size && replace_size(Dim(size), Dim(less))) {
          smaller = true;
          break;
        }
    return smaller;
  }

  bool plainer_attributes() {
    bool smaller = false;
    for (std::size_t at = 0; at < graph_->num_nodes(); ++at)
      for (std::size_t k = 0; k < nodes()[at]->attrs().size(); ++k) {
        Changes changes;
        changes.default_attr[nodes()[at]] = k;
        smaller |= attempt(changes);
      }
    return smaller;
  }

  std::unique_ptr<Graph> graph_;
  const std::set<std::string> untold_;  // of the given graph: these are allowed
  const std::function<bool(const Graph&)>& holds_;
  const ReduceOptions& options_;
  std::int64_t tests_ = 0;
};

}  // namespace

std::unique_ptr<Graph> reduce(const Graph& graph, const std::function<bool(const Graph&)>& holds,
                              const ReduceOptions& options) {
  return Reducer(graph, holds, options).run();
}

}  // namespace gex::check
