#include "frontend/onnx/trees.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "ops/core/build.hpp"

namespace gex::onnx {
namespace {

constexpr std::int64_t kMissing = runtime::kMissingIsTrue;

// The nodes that the roots reach, each after all of its parents: a node may have several.
std::vector<std::int64_t> children_last(const Forest& forest) {
  std::vector<int> parents(forest.nodes.size(), 0);
  std::vector<char> reached(forest.nodes.size(), 0);
  const auto inner = [&](std::int64_t k) {
    return forest.nodes[static_cast<std::size_t>(k)].test != runtime::TreeTest::leaf;
  };
  std::vector<std::int64_t> stack(forest.roots), order;
  while (!stack.empty()) {
    const std::int64_t k = stack.back();
    stack.pop_back();
    if (std::exchange(reached[static_cast<std::size_t>(k)], 1) != 0 || !inner(k)) continue;
    const TreeNode& n = forest.nodes[static_cast<std::size_t>(k)];
    for (const std::int64_t child : {n.yes, n.no}) {
      ++parents[static_cast<std::size_t>(child)];
      stack.push_back(child);
    }
  }
  for (std::size_t k = 0; k < forest.nodes.size(); ++k)
    if (reached[k] != 0 && parents[k] == 0) stack.push_back(static_cast<std::int64_t>(k));
  while (!stack.empty()) {
    const std::int64_t k = stack.back();
    stack.pop_back();
    order.push_back(k);
    if (!inner(k)) continue;
    const TreeNode& n = forest.nodes[static_cast<std::size_t>(k)];
    for (const std::int64_t child : {n.no, n.yes})
      if (--parents[static_cast<std::size_t>(child)] == 0) stack.push_back(child);
  }
  return order;
}

Value* integers(Graph& g, const std::vector<std::int64_t>& values,
                std::vector<std::int64_t> shape) {
  HostTensor tensor(DType::i32, std::move(shape));
  for (std::size_t k = 0; k < values.size(); ++k)
    tensor.set_int(static_cast<std::int64_t>(k), values[k]);
  return ops::constant(g, std::move(tensor));
}

Value* numbers_in(Graph& g, const std::vector<double>& values) {
  HostTensor tensor(DType::f64, {std::ssize(values)});
  for (std::size_t k = 0; k < values.size(); ++k)
    tensor.set(static_cast<std::int64_t>(k), values[k]);
  return ops::constant(g, std::move(tensor));
}

runtime::TreeTest mode_of(const Row& r, const std::string& name) {
  static const std::map<std::string, runtime::TreeTest> modes{
      {"BRANCH_LEQ", runtime::TreeTest::leq}, {"BRANCH_LT", runtime::TreeTest::lt},
      {"BRANCH_GTE", runtime::TreeTest::gte}, {"BRANCH_GT", runtime::TreeTest::gt},
      {"BRANCH_EQ", runtime::TreeTest::eq},   {"BRANCH_NEQ", runtime::TreeTest::neq},
      {"LEAF", runtime::TreeTest::leaf}};
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
      if (s != 0 || n.test == runtime::TreeTest::leaf) {
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
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (n.feature < 0 || n.feature >= kMost) r.refuse("a negative or too large feature");
    forest.features =
        std::max(forest.features, n.test == runtime::TreeTest::leaf ? 0 : n.feature + 1);
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

}  // namespace

Value* call_forest(const Row& r, const Forest& forest, Value* x) {
  const Shape& shape = x->type().shape;
  const std::optional<std::int64_t> width = shape.size() > 1 ? shape[1].as_const() : 1;
  if (width && forest.features > *width)
    fail(ErrorCode::shape_mismatch, "the trees require ", forest.features, " features, got ",
         *width);
  const std::vector<std::int64_t> order = children_last(forest);
  std::vector<std::int64_t> place(forest.nodes.size(), 0);
  for (std::size_t k = 0; k < order.size(); ++k)
    place[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
  const auto at = [&](std::int64_t node) { return place[static_cast<std::size_t>(node)]; };
  std::vector<std::int64_t> nodes, targets, roots;
  std::vector<double> values, weights, members;
  for (const std::int64_t k : order) {
    const TreeNode& n = forest.nodes[static_cast<std::size_t>(k)];
    const bool is_leaf = n.test == runtime::TreeTest::leaf;
    nodes.insert(
        nodes.end(),
        {static_cast<std::int64_t>(n.test) + (n.missing_is_true ? kMissing : 0),
         is_leaf ? std::ssize(weights) : n.feature, is_leaf ? std::ssize(n.weights) : at(n.yes),
         is_leaf ? 0 : at(n.no), std::ssize(members), std::ssize(n.members)});
    values.push_back(n.value);
    members.insert(members.end(), n.members.begin(), n.members.end());
    for (const auto& [target, weight] : n.weights) {
      if (!is_leaf) break;
      targets.push_back(target);
      weights.push_back(weight);
    }
  }
  for (const std::int64_t root : forest.roots) roots.push_back(at(root));
  Graph& g = r.g;
  const std::int64_t columns = runtime::kTreeColumns;
  return r.kernel_call(
      runtime::kForestKernel, std::to_string(static_cast<int>(forest.fold)),
      {x, integers(g, nodes, {std::ssize(nodes) / columns, columns}), numbers_in(g, values),
       integers(g, targets, {std::ssize(targets)}), numbers_in(g, weights),
       integers(g, roots, {std::ssize(roots)}), numbers_in(g, members), numbers_in(g, forest.base)},
      Type::tensor(x->type().dtype, {shape[0], Dim(forest.targets)}));
}

namespace {

// The nodes that are nobody's child.
std::vector<std::int64_t> roots_of(const Row& r, const Ints& trees,
                                   const std::vector<char>& is_child) {
  std::vector<std::int64_t> roots;
  std::set<std::int64_t> without_root(trees.begin(), trees.end());
  for (std::size_t k = 0; k < trees.size(); ++k)
    if (is_child[k] == 0) {
      roots.push_back(static_cast<std::int64_t>(k));
      without_root.erase(trees[k]);
    }
  if (!without_root.empty()) r.refuse("the nodes of a tree form a cycle");
  return roots;
}

}  // namespace

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
    n.test = mode_of(r, modes[k]);
    n.feature = features[k];
    n.value = values[k];
    n.missing_is_true = k < missing.size() && missing[k] != 0;
    if (n.test != runtime::TreeTest::leaf) {
      n.yes = at(trees[k], yes[k]);
      n.no = at(trees[k], no[k]);
      for (const std::int64_t child : {n.yes, n.no})
        if (child >= 0) is_child[static_cast<std::size_t>(child)] = 1;
    }
    forest.nodes.push_back(std::move(n));
  }
  forest.roots = roots_of(r, trees, is_child);
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
  forest.fold = fold == "AVERAGE" ? runtime::ForestFold::average
                : fold == "MIN"   ? runtime::ForestFold::min
                : fold == "MAX"   ? runtime::ForestFold::max
                                  : runtime::ForestFold::sum;
  check(r, forest);
  return forest;
}

Forest forest_of_tensors(const Row& r) {
  Forest forest;
  forest.targets = r.int_attr("n_targets", 1);
  const std::int64_t fold = r.int_attr("aggregate_function", 1);
  if (fold < 0 || fold > 3) r.refuse("an unknown aggregate_function");
  forest.fold = static_cast<runtime::ForestFold>(fold);
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
    n.test = static_cast<runtime::TreeTest>(mode);
    n.feature = features[k];
    n.value = splits.get(static_cast<std::int64_t>(k));
    n.missing_is_true = k < missing.size() && missing[k] != 0;
    const auto leaf = static_cast<std::int64_t>(count);
    n.yes = yes_leaf[k] != 0 ? leaf + yes[k] : yes[k];
    n.no = no_leaf[k] != 0 ? leaf + no[k] : no[k];
    if (n.test == runtime::TreeTest::member) {
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
