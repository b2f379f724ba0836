#include "runtime/session/forest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"

namespace gex::runtime {
namespace {

template <class T>
struct List {
  const T* data = nullptr;
  std::int64_t size = 0;

  const T& at(std::int64_t k) const {
    if (k < 0 || k >= size) fail(ErrorCode::invalid_argument, "a tree refers to nothing");
    return data[k];
  }
};

template <class T>
List<T> list_of(const TensorRef& ref, DType dtype) {
  if (ref.dtype != dtype)
    fail(ErrorCode::invalid_argument, "an operand of a forest has another dtype");
  std::int64_t size = 1;
  for (std::int64_t n : ref.shape) size *= n;
  return {static_cast<const T*>(ref.data), size};
}

struct Trees {
  List<std::int32_t> nodes;
  List<double> values;
  List<std::int32_t> targets;
  List<double> weights;
  List<std::int32_t> roots;
  List<double> members, base;
  ForestFold fold = ForestFold::sum;
  std::int64_t outputs = 0;

  bool is_member(const std::int32_t* node, double x) const {
    for (std::int32_t k = 0; k < node[kTreeMembers]; ++k)
      if (members.at(std::int64_t{node[kTreeMember]} + k) == x) return true;
    return false;
  }
  bool holds(const std::int32_t* node, std::int64_t at, double x) const {
    if (std::isnan(x)) return (node[kTreeTest] & kMissingIsTrue) != 0;
    const double value = values.data[at];
    switch (static_cast<TreeTest>(node[kTreeTest] & ~kMissingIsTrue)) {
      case TreeTest::leq:
        return x <= value;
      case TreeTest::lt:
        return x < value;
      case TreeTest::gte:
        return x >= value;
      case TreeTest::gt:
        return x > value;
      case TreeTest::eq:
        return x == value;
      case TreeTest::neq:
        return x != value;
      case TreeTest::member:
        return is_member(node, x);
      case TreeTest::leaf:
        break;
    }
    return false;
  }
  // The leaf that a row comes to.
  template <class T>
  const std::int32_t* leaf(std::int64_t root, const T* row, std::int64_t features) const {
    const std::int64_t count = values.size;
    if (root < 0 || root >= count) fail(ErrorCode::invalid_argument, "a tree without a root");
    for (std::int64_t at = root;;) {
      const std::int32_t* node = nodes.data + at * kTreeColumns;
      if ((node[kTreeTest] & ~kMissingIsTrue) == static_cast<std::int32_t>(TreeTest::leaf))
        return node;
      const std::int32_t feature = node[kTreeFeature];
      if (feature < 0 || feature >= features)
        fail(ErrorCode::shape_mismatch, "the trees require ", std::int64_t{feature} + 1,
             " features, got ", features);
      const std::int64_t next =
          holds(node, at, static_cast<double>(row[feature])) ? node[kTreeYes] : node[kTreeNo];
      if (next <= at || next >= count)
        fail(ErrorCode::invalid_argument, "a tree has a node that does not follow its parent");
      at = next;
    }
  }
  void add(const std::int32_t* leaf, double* totals, char* touched) const {
    for (std::int32_t k = 0; k < leaf[kTreeYes]; ++k) {
      const std::int64_t entry = std::int64_t{leaf[kTreeFeature]} + k;
      const std::int32_t target = targets.at(entry);
      if (target < 0 || target >= outputs)
        fail(ErrorCode::invalid_argument, "a leaf refers to a target that does not exist");
      double& total = totals[target];
      const double weight = weights.at(entry);
      if (fold == ForestFold::min)
        total = touched[target] != 0 ? std::min(total, weight) : weight;
      else if (fold == ForestFold::max)
        total = touched[target] != 0 ? std::max(total, weight) : weight;
      else
        total += weight;
      touched[target] = 1;
    }
  }
  template <class T>
  void evaluate(const TensorRef& x, const TensorRef& out) const {
    const std::int64_t rows = x.shape[0], features = x.shape.size() > 1 ? x.shape[1] : 1;
    constexpr std::int64_t kBlock = 64;  // rows for which a tree stays in the caches
    std::vector<double> totals(static_cast<std::size_t>(kBlock * outputs));
    std::vector<char> touched(totals.size());
    for (std::int64_t first = 0; first < rows; first += kBlock) {
      const std::int64_t block = std::min(kBlock, rows - first);
      std::ranges::fill(totals, 0.0);
      std::ranges::fill(touched, char{0});
      const T* row = static_cast<const T*>(x.data) + first * features;
      for (std::int64_t tree = 0; tree < roots.size; ++tree)
        for (std::int64_t k = 0; k < block; ++k)
          add(leaf(roots.data[tree], row + k * features, features), totals.data() + k * outputs,
              touched.data() + k * outputs);
      T* results = static_cast<T*>(out.data) + first * outputs;
      for (std::int64_t k = 0; k < block * outputs; ++k) {
        double value = totals[static_cast<std::size_t>(k)];
        if (fold == ForestFold::average) value /= static_cast<double>(roots.size);
        if (k % outputs < base.size) value += base.data[k % outputs];
        results[k] = static_cast<T>(value);
      }
    }
  }
};

}  // namespace

void run_forest(std::span<const TensorRef> inputs, std::span<const TensorRef> outputs,
                const std::string& parameters) {
  if (inputs.size() != 8 || outputs.size() != 1 || parameters.size() != 1 || parameters[0] < '0' ||
      parameters[0] > '3')
    fail(ErrorCode::invalid_argument, "a forest takes 8 operands and the number of its fold");
  const TensorRef &x = inputs[0], &out = outputs[0];
  Trees trees{list_of<std::int32_t>(inputs[1], DType::i32), list_of<double>(inputs[2], DType::f64),
              list_of<std::int32_t>(inputs[3], DType::i32), list_of<double>(inputs[4], DType::f64),
              list_of<std::int32_t>(inputs[5], DType::i32), list_of<double>(inputs[6], DType::f64),
              list_of<double>(inputs[7], DType::f64)};
  trees.fold = static_cast<ForestFold>(parameters[0] - '0');
  if (trees.nodes.size != trees.values.size * kTreeColumns || x.shape.empty() ||
      x.shape.size() > 2 || out.shape.size() != 2 || out.shape[0] != x.shape[0] ||
      out.dtype != x.dtype || (x.dtype != DType::f32 && x.dtype != DType::f64))
    fail(ErrorCode::invalid_argument, "the operands of a forest do not fit each other");
  trees.outputs = out.shape[1];
  if (x.dtype == DType::f64)
    trees.evaluate<double>(x, out);
  else
    trees.evaluate<float>(x, out);
}

}  // namespace gex::runtime
