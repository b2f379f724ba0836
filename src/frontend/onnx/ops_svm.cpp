// Support vector machines of ai.onnx.ml.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"
#include "frontend/onnx/svm.hpp"

namespace gex::onnx {
namespace {

Expr matrix(Graph& g, const std::vector<double>& values, std::int64_t rows, std::int64_t columns) {
  HostTensor tensor(DType::f32, {rows, columns});
  for (std::int64_t k = 0; k < tensor.numel(); ++k)
    tensor.set(k, values[static_cast<std::size_t>(k)]);
  return {g, ops::constant(g, std::move(tensor))};
}

// Of each row of x with each of the vectors [n, features].
Expr kernel(const Row& r, Expr x, Expr vectors) {
  const std::string type = r.string_attr("kernel_type", "LINEAR");
  std::vector<double> parameters = r.floats_attr("kernel_params");  // gamma, coef0, degree
  parameters.resize(3, 0);
  Expr products = matmul(x, transpose(vectors, {1, 0}));
  if (type == "LINEAR") return products;
  if (type == "RBF") {
    Expr distances =
        sum(x * x, {1}, true) + reshape(sum(vectors * vectors, {1}), {Dim(1), vectors.shape()[0]});
    return exp((distances - products * 2) * -parameters[0]);
  }
  Expr scaled = products * parameters[0] + parameters[1];
  if (type == "SIGMOID") return tanh(scaled);
  if (type != "POLY") r.refuse("kernel_type " + type + " is not supported");
  return binary("pow", scaled, scaled.number(parameters[2]));
}

// A matrix of the attribute's numbers; refuses numbers that do not fill it.
Expr vectors_of(const Row& r, const std::vector<double>& values, std::int64_t rows) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (rows < 1 || count % rows != 0) r.refuse("its vectors do not have one size");
  return matrix(r.g, values, rows, count / rows);
}

Items svm_regressor(Row& r) {
  const auto coefficients = r.floats_attr("coefficients"), rho = r.floats_attr("rho");
  const auto supports = r.int_attr("n_supports", 0);
  if (rho.empty()) r.refuse("it has no rho");
  Expr x = expr(r, 0).to(DType::f32);
  Expr y = supports > 0
               ? matmul(kernel(r, x, vectors_of(r, r.floats_attr("support_vectors"), supports)),
                        transpose(vectors_of(r, coefficients, 1), {1, 0}))
               : kernel(r, x, vectors_of(r, coefficients, 1));
  y = y + rho[0];
  if (r.int_attr("one_class", 0) != 0) y = where(y > 0, y.number(1), y.number(-1));
  if (r.string_attr("post_transform", "NONE") != "NONE")
    r.refuse("post_transform of a regressor is not supported");
  return r.one(y, Elem::f32);
}

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

// The values of one classifier for each pair of classes, and what turns them into probabilities.
struct Pairs {
  std::size_t classes = 0;
  std::vector<double> a, b;  // Platt's

  // [rows, pairs] to [rows, classes]
  HostTensor probabilities(const HostTensor& scores) const {
    constexpr double least = 1e-7;
    const auto count = static_cast<std::int64_t>(classes);
    const std::int64_t pairs = count * (count - 1) / 2;
    HostTensor out(DType::f32, {scores.shape()[0], count});
    for (std::int64_t row = 0; row < scores.shape()[0]; ++row) {
      std::vector<double> chances(classes * classes, 0);
      std::size_t k = 0;
      for (std::size_t i = 0; i < classes; ++i)
        for (std::size_t j = i + 1; j < classes; ++j, ++k) {
          const double score = scores.get(row * pairs + static_cast<std::int64_t>(k));
          const double chance = 1 / (1 + std::exp(score * a[k] + b[k]));
          chances[i * classes + j] = std::clamp(chance, least, 1 - least);
          chances[j * classes + i] = 1 - chances[i * classes + j];
        }
      const std::vector<double> p = coupled(chances, classes);
      for (std::int64_t c = 0; c < count; ++c)
        out.set(row * count + c, p[static_cast<std::size_t>(c)]);
    }
    return out;
  }
};

// [vectors, pairs]: what each support vector counts in the classifier of each pair of classes.
std::vector<double> pair_weights(const Row& r, const Ints& per_class) {
  const auto coefficients = r.floats_attr("coefficients");
  const auto total = std::accumulate(per_class.begin(), per_class.end(), std::int64_t{0});
  const std::size_t classes = per_class.size(), pairs = classes * (classes - 1) / 2;
  if (coefficients.size() != static_cast<std::size_t>(total) * (classes - 1))
    r.refuse("the number of its coefficients is not that of its vectors and classes");
  std::vector<std::int64_t> first(classes, 0);
  for (std::size_t c = 1; c < classes; ++c) first[c] = first[c - 1] + per_class[c - 1];
  std::vector<double> weights(static_cast<std::size_t>(total) * pairs, 0);
  std::size_t pair = 0;
  const auto set = [&](std::size_t of, std::size_t row) {
    for (std::int64_t v = first[of]; v < first[of] + per_class[of]; ++v)
      weights[static_cast<std::size_t>(v) * pairs + pair] =
          coefficients[row * static_cast<std::size_t>(total) + static_cast<std::size_t>(v)];
  };
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = i + 1; j < classes; ++j, ++pair) {
      set(i, j - 1);
      set(j, i);
    }
  return weights;
}

Item chosen_labels(Row& r, Expr places) {
  Ints labels = r.ints_attr("classlabels_ints");
  const auto strings = r.strings_attr("classlabels_strings");
  for (const std::string& text : strings) labels.push_back(string_number(text));
  Expr table(r.g, ops::constant(
                      r.g, HostTensor::of_i64({static_cast<std::int64_t>(labels.size())}, labels)));
  return Item::tensor(take(table, places, 0), strings.empty() ? Elem::i64 : Elem::string);
}

// With probabilities, as classifiers that were trained to give them are exported.
Items svm_classifier(Row& r) {
  const Ints per_class = r.ints_attr("vectors_per_class");
  Pairs pairs{per_class.size(), r.floats_attr("prob_a"), r.floats_attr("prob_b")};
  const std::size_t count = pairs.classes * (pairs.classes - 1) / 2;
  const auto rho = r.floats_attr("rho");
  if (pairs.classes < 2 || pairs.a.size() != count || pairs.b.size() != count ||
      rho.size() != count)
    r.refuse(
        "only classifiers by support vectors with probabilities (prob_a, prob_b) are supported");
  const auto total = std::accumulate(per_class.begin(), per_class.end(), std::int64_t{0});
  const auto columns = static_cast<std::int64_t>(count);
  Expr x = expr(r, 0).to(DType::f32);
  Expr near = kernel(r, x, vectors_of(r, r.floats_attr("support_vectors"), total));
  Expr scores = matmul(near, matrix(r.g, pair_weights(r, per_class), total, columns)) +
                matrix(r.g, rho, 1, columns);
  const Type type =
      Type::tensor(DType::f32, {x.shape()[0], Dim(static_cast<std::int64_t>(pairs.classes))});
  Expr p(r.g, r.host_call(r.attributes_key(), {scores.v}, {type},
                          [pairs](std::span<const HostTensor> in, std::span<const std::int64_t>) {
                            return std::vector{pairs.probabilities(in[0])};
                          })[0]);
  Expr best(r.g, ops::argmax(r.g, p, {1}));
  return {chosen_labels(r, best), Item::tensor(p, Elem::f32)};
}

}  // namespace

void add_svm_rows() {
  add_row("ai.onnx.ml", "SVMRegressor", svm_regressor);
  add_row("ai.onnx.ml", "SVMClassifier", svm_classifier);
}

}  // namespace gex::onnx
