#include "runtime/session/pairwise_probabilities.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"

namespace gex::runtime {
namespace {

// Probabilities of classes from those of pairs, as libsvm couples them (Wu, Lin and Weng 2004).
std::vector<double> coupled(const std::vector<double>& pairs, std::size_t classes) {
  const auto at = [&](std::size_t i, std::size_t j) { return pairs[i * classes + j]; };
  std::vector<double> q(classes * classes, 0), p(classes, 1.0 / static_cast<double>(classes));
  for (std::size_t t = 0; t < classes; ++t)
    for (std::size_t j = 0; j < classes; ++j) {
      if (j == t) continue;
      q[t * classes + t] += at(j, t) * at(j, t);
      q[t * classes + j] = -at(j, t) * at(t, j);
    }
  const double close = 0.005 / static_cast<double>(classes);
  std::vector<double> qp(classes);
  for (int turn = 0; turn < 100; ++turn) {
    double total = 0, worst = 0;
    for (std::size_t t = 0; t < classes; ++t) {
      qp[t] = 0;
      for (std::size_t j = 0; j < classes; ++j) qp[t] += q[t * classes + j] * p[j];
      total += p[t] * qp[t];
    }
    for (std::size_t t = 0; t < classes; ++t) worst = std::max(worst, std::abs(qp[t] - total));
    if (worst < close) break;
    for (std::size_t t = 0; t < classes; ++t) {
      const double own = q[t * classes + t], step = (-qp[t] + total) / own;
      p[t] += step;
      total = (total + step * (step * own + 2 * qp[t])) / (1 + step) / (1 + step);
      for (std::size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + step * q[t * classes + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

void check(const TensorRef& scores, const TensorRef& a, const TensorRef& b, const TensorRef& out) {
  const bool fits = scores.dtype == DType::f32 && scores.shape.size() == 2 &&
                    a.dtype == DType::f64 && a.shape.size() == 1 && b.dtype == DType::f64 &&
                    b.shape.size() == 1 && out.dtype == DType::f32 && out.shape.size() == 2 &&
                    out.shape[0] == scores.shape[0] &&
                    scores.shape[1] == out.shape[1] * (out.shape[1] - 1) / 2 &&
                    a.shape[0] == scores.shape[1] && b.shape[0] == scores.shape[1];
  if (!fits)
    fail(ErrorCode::invalid_argument, "the operands of the pairs' scores do not fit each other");
}

}  // namespace

void run_pairwise_probabilities(std::span<const TensorRef> inputs,
                                std::span<const TensorRef> outputs, const std::string&) {
  if (inputs.size() != 3 || outputs.size() != 1)
    fail(ErrorCode::invalid_argument, "probabilities of pairs take 3 operands");
  check(inputs[0], inputs[1], inputs[2], outputs[0]);
  constexpr double kLeast = 1e-7;
  const auto classes = static_cast<std::size_t>(outputs[0].shape[1]);
  const auto *a = static_cast<const double*>(inputs[1].data),
             *b = static_cast<const double*>(inputs[2].data);
  const auto* score = static_cast<const float*>(inputs[0].data);
  auto* out = static_cast<float*>(outputs[0].data);
  std::vector<double> probabilities(classes * classes, 0);
  for (std::int64_t row = 0; row < inputs[0].shape[0]; ++row) {
    std::size_t k = 0;
    for (std::size_t i = 0; i < classes; ++i)
      for (std::size_t j = i + 1; j < classes; ++j, ++k) {
        const double probability = 1 / (1 + std::exp(double{*score++} * a[k] + b[k]));
        probabilities[i * classes + j] = std::clamp(probability, kLeast, 1 - kLeast);
        probabilities[j * classes + i] = 1 - probabilities[i * classes + j];
      }
    for (const double p : coupled(probabilities, classes)) *out++ = static_cast<float>(p);
  }
}

}  // namespace gex::runtime
