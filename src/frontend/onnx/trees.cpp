#include "frontend/onnx/trees.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace gex::onnx {
namespace {

bool holds(const TreeNode& n, double x) {
  if (std::isnan(x)) return n.missing_is_true;
  switch (n.mode) {
    case TreeNode::Mode::leq:
      return x <= n.value;
    case TreeNode::Mode::lt:
      return x < n.value;
    case TreeNode::Mode::gte:
      return x >= n.value;
    case TreeNode::Mode::gt:
      return x > n.value;
    case TreeNode::Mode::eq:
      return x == n.value;
    case TreeNode::Mode::neq:
      return x != n.value;
    case TreeNode::Mode::member:
      return std::ranges::find(n.members, x) != n.members.end();
    case TreeNode::Mode::leaf:
      break;
  }
  return false;
}

TreeNode::Mode mode_of(const Row& r, const std::string& name) {
  static const std::map<std::string, TreeNode::Mode> modes{
      {"BRANCH_LEQ", TreeNode::Mode::leq}, {"BRANCH_LT", TreeNode::Mode::lt},
      {"BRANCH_GTE", TreeNode::Mode::gte}, {"BRANCH_GT", TreeNode::Mode::gt},
      {"BRANCH_EQ", TreeNode::Mode::eq},   {"BRANCH_NEQ", TreeNode::Mode::neq},
      {"LEAF", TreeNode::Mode::leaf}};
  const auto found = modes.find(name);
  if (found == modes.end()) r.refuse("unknown kind of node " + name);
  return found->second;
}

// Checks that children exist, features are not negative, and there are no cycles.
void check(const Row& r, Forest& forest) {
  const auto count = static_cast<std::int64_t>(forest.nodes.size());
  std::vector<int> state(forest.nodes.size(), 0);  // 1: on the way down, 2: done
  for (const std::int64_t root : forest.roots) {
    std::vector<std::int64_t> stack{root};
    while (!stack.empty()) {
      const std::int64_t at = stack.back();
      if (at < 0 || at >= count) r.refuse("a tree refers to a node that does not exist");
      const TreeNode& n = forest.nodes[static_cast<std::size_t>(at)];
      int& s = state[static_cast<std::size_t>(at)];
      if (s != 0 || n.mode == TreeNode::Mode::leaf) {
        s = 2;
        stack.pop_back();
        continue;
      }
      s = 1;
      for (const std::int64_t child : {n.yes, n.no}) {
        if (child >= 0 && child < count && state[static_cast<std::size_t>(child)] == 1)
          r.refuse("the nodes of a tree form a cycle");
        if (child < 0 || child >= count || state[static_cast<std::size_t>(child)] == 0)
          stack.push_back(child);
      }
    }
  }
  for (const TreeNode& n : forest.nodes) {
    if (n.feature < 0) r.refuse("a negative feature");
    forest.features = std::max(forest.features, n.mode == TreeNode::Mode::leaf ? 0 : n.feature + 1);
    for (const auto& [target, weight] : n.weights)
      if (target < 0 || target >= forest.targets)
        r.refuse("a leaf refers to a target that does not exist");
  }
}

std::vector<double> numbers(const Row& r, const std::string& name) {
  if (r.has_attr(name)) return r.floats_attr(name);
  std::vector<double> values;
  if (!r.has_attr(name + "_as_tensor")) return values;
  const HostTensor tensor = r.tensor_attr(name + "_as_tensor");
  for (std::int64_t k = 0; k < tensor.numel(); ++k) values.push_back(tensor.get(k));
  return values;
}

void fold_into(Forest::Fold fold, double& total, bool& first, double weight) {
  if (fold == Forest::Fold::min)
    total = first ? weight : std::min(total, weight);
  else if (fold == Forest::Fold::max)
    total = first ? weight : std::max(total, weight);
  else
    total += weight;
  first = false;
}

}  // namespace

HostTensor Forest::evaluate(const HostTensor& x) const {
  const std::int64_t rows = x.shape()[0], width = x.shape().size() > 1 ? x.shape()[1] : 1;
  if (features > width)
    fail(ErrorCode::shape_mismatch, "the trees require ", features, " features, got ", width);
  HostTensor out(x.dtype(), {rows, targets});
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> total(static_cast<std::size_t>(targets), 0);
    std::vector<char> untouched(total.size(), 1);
    for (const std::int64_t root : roots) {
      const TreeNode* n = &nodes[static_cast<std::size_t>(root)];
      while (n->mode != TreeNode::Mode::leaf)
        n = &nodes[static_cast<std::size_t>(holds(*n, x.get(row * width + n->feature)) ? n->yes
                                                                                       : n->no)];
      for (const auto& [target, weight] : n->weights) {
        const auto t = static_cast<std::size_t>(target);
        bool first = untouched[t] != 0;
        fold_into(fold, total[t], first, weight);
        untouched[t] = 0;
      }
    }
    for (std::size_t t = 0; t < total.size(); ++t) {
      double value = total[t];
      if (fold == Fold::average) value /= static_cast<double>(roots.size());
      if (t < base.size()) value += base[t];
      out.set(row * targets + static_cast<std::int64_t>(t), value);
    }
  }
  return out;
}

Forest forest_of(const Row& r, const std::string& leaves, std::int64_t targets) {
  Forest forest;
  forest.targets = targets;
  const Ints trees = r.ints_attr("nodes_treeids"), ids = r.ints_attr("nodes_nodeids");
  const Ints features = r.ints_attr("nodes_featureids"), yes = r.ints_attr("nodes_truenodeids");
  const Ints no = r.ints_attr("nodes_falsenodeids");
  const Ints missing = r.ints_attr("nodes_missing_value_tracks_true");
  const auto modes = r.strings_attr("nodes_modes");
  const std::vector<double> values = numbers(r, "nodes_values");
  const std::size_t count = trees.size();
  if (ids.size() != count || features.size() != count || yes.size() != count ||
      no.size() != count || modes.size() != count || values.size() != count)
    r.refuse("the lists of nodes differ in length");
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> place;
  for (std::size_t k = 0; k < count; ++k) place[{trees[k], ids[k]}] = static_cast<std::int64_t>(k);
  const auto at = [&](std::int64_t tree, std::int64_t id) {
    const auto found = place.find({tree, id});
    return found == place.end() ? -1 : found->second;
  };
  std::vector<char> is_child(count, 0);
  for (std::size_t k = 0; k < count; ++k) {
    TreeNode n;
    n.mode = mode_of(r, modes[k]);
    n.feature = features[k];
    n.value = values[k];
    n.missing_is_true = k < missing.size() && missing[k] != 0;
    if (n.mode != TreeNode::Mode::leaf) {
      n.yes = at(trees[k], yes[k]);
      n.no = at(trees[k], no[k]);
      for (const std::int64_t child : {n.yes, n.no})
        if (child >= 0) is_child[static_cast<std::size_t>(child)] = 1;
    }
    forest.nodes.push_back(std::move(n));
  }
  for (std::size_t k = 0; k < count; ++k)
    if (is_child[k] == 0) forest.roots.push_back(static_cast<std::int64_t>(k));
  const Ints leaf_trees = r.ints_attr(leaves + "_treeids"),
             leaf_ids = r.ints_attr(leaves + "_nodeids");
  const Ints leaf_targets = r.ints_attr(leaves + "_ids");
  const std::vector<double> weights = numbers(r, leaves + "_weights");
  for (std::size_t k = 0; k < leaf_trees.size(); ++k) {
    if (k >= leaf_ids.size() || k >= leaf_targets.size() || k >= weights.size())
      r.refuse("the lists of leaves differ in length");
    const std::int64_t node = at(leaf_trees[k], leaf_ids[k]);
    if (node < 0) r.refuse("a leaf that does not exist");
    forest.nodes[static_cast<std::size_t>(node)].weights.emplace_back(leaf_targets[k], weights[k]);
  }
  forest.base = numbers(r, "base_values");
  const std::string fold = r.string_attr("aggregate_function", "SUM");
  forest.fold = fold == "AVERAGE" ? Forest::Fold::average
                : fold == "MIN"   ? Forest::Fold::min
                : fold == "MAX"   ? Forest::Fold::max
                                  : Forest::Fold::sum;
  check(r, forest);
  return forest;
}

Forest forest_of_tensors(const Row& r) {
  Forest forest;
  forest.targets = r.int_attr("n_targets", 1);
  forest.fold = static_cast<Forest::Fold>(r.int_attr("aggregate_function", 1));
  const HostTensor modes = r.tensor_attr("nodes_modes"), splits = r.tensor_attr("nodes_splits");
  const HostTensor weights = r.tensor_attr("leaf_weights");
  const Ints features = r.ints_attr("nodes_featureids"), yes = r.ints_attr("nodes_truenodeids");
  const Ints no = r.ints_attr("nodes_falsenodeids"), yes_leaf = r.ints_attr("nodes_trueleafs");
  const Ints no_leaf = r.ints_attr("nodes_falseleafs"), targets = r.ints_attr("leaf_targetids");
  const Ints missing = r.ints_attr("nodes_missing_value_tracks_true");
  const auto count = static_cast<std::size_t>(modes.numel());
  if (features.size() != count || yes.size() != count || no.size() != count ||
      yes_leaf.size() != count || no_leaf.size() != count ||
      static_cast<std::size_t>(splits.numel()) != count ||
      static_cast<std::size_t>(weights.numel()) != targets.size())
    r.refuse("the lists of nodes differ in length");
  HostTensor members(DType::f32, {0});
  if (r.has_attr("membership_values")) members = r.tensor_attr("membership_values");
  std::int64_t member = 0;
  // Leaves come after the nodes.
  for (std::size_t k = 0; k < count; ++k) {
    TreeNode n;
    const std::int64_t mode = modes.get_int(static_cast<std::int64_t>(k));
    if (mode < 0 || mode > 6) r.refuse("unknown kind of node");
    n.mode = static_cast<TreeNode::Mode>(mode);
    n.feature = features[k];
    n.value = splits.get(static_cast<std::int64_t>(k));
    n.missing_is_true = k < missing.size() && missing[k] != 0;
    const auto leaf = static_cast<std::int64_t>(count);
    n.yes = yes_leaf[k] != 0 ? leaf + yes[k] : yes[k];
    n.no = no_leaf[k] != 0 ? leaf + no[k] : no[k];
    if (n.mode == TreeNode::Mode::member) {
      while (member < members.numel() && !std::isnan(members.get(member)))
        n.members.push_back(members.get(member++));
      ++member;
    }
    forest.nodes.push_back(std::move(n));
  }
  for (std::size_t k = 0; k < targets.size(); ++k) {
    TreeNode n;
    n.weights.emplace_back(targets[k], weights.get(static_cast<std::int64_t>(k)));
    forest.nodes.push_back(std::move(n));
  }
  forest.roots = r.ints_attr("tree_roots");
  check(r, forest);
  return forest;
}

}  // namespace gex::onnx
