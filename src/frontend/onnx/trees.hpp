#pragma once
// Ensembles of decision trees, evaluated row by row.

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/onnx/row.hpp"

namespace gex::onnx {

struct TreeNode {
  enum class Mode : std::uint8_t { leq, lt, gte, gt, eq, neq, member, leaf } mode = Mode::leaf;
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
  enum class Fold : std::uint8_t { average, sum, min, max } fold = Fold::sum;

  HostTensor evaluate(const HostTensor& x) const;  // [rows, features] to [rows, targets]
};

// TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class").
Forest forest_of(const Row& r, const std::string& leaves, std::int64_t targets);
Forest forest_of_tensors(const Row& r);  // TreeEnsemble

}  // namespace gex::onnx
