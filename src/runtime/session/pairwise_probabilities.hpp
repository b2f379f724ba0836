#pragma once
// Probabilities of a classifier that compares pairs of classes, as libsvm computes them: a kernel
// that every process has.

#include <string>

#include "runtime/session/user_kernels.hpp"

namespace gex::runtime {

inline constexpr const char* kPairwiseProbabilities = "gex.pairwise_probabilities";

// Operands: scores f32 [rows, pairs], one for each pair of classes (0, 1), (0, 2) ... (1, 2); a and
// b f64 [pairs], Platt's. The result is f32 [rows, classes].
void run_pairwise_probabilities(std::span<const TensorRef> inputs,
                                std::span<const TensorRef> outputs, const std::string& parameters);

}  // namespace gex::runtime
