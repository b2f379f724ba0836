#pragma once
// Ensembles of decision trees.

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/onnx/row.hpp"
#include "runtime/session/forest.hpp"

namespace gex::onnx {

struct TreeNode {
  runtime::TreeTest test = runtime::TreeTest::leaf;
  bool missing_is_true = false;
  std::int64_t feature = 0;
  double value = 0;
  std::vector<double> members;
  std::int64_t yes = -1, no = -1;                        // indices of nodes
  std::vector<std::pair<std::int64_t, double>> weights;  // of a leaf: target, weight
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> roots;
  std::vector<double> base;  // of each target; empty: zeros
  std::int64_t targets = 1, features = 0;
  runtime::ForestFold fold = runtime::ForestFold::sum;
};

// [rows, features] to [rows, targets], by the kernel of runtime/session/forest.hpp.
Value* call_forest(const Row& r, const Forest& forest, Value* x);

// TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class").
Forest forest_of(const Row& r, const std::string& leaves, std::int64_t targets);
Forest forest_of_tensors(const Row& r);  // TreeEnsemble

}  // namespace gex::onnx
