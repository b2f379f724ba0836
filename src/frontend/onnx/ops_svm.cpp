// Support vector machines of ai.onnx.ml.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"
#include "frontend/onnx/svm.hpp"
#include "runtime/session/pairwise_probabilities.hpp"

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

// [vectors, pairs]: the coefficient of each support vector in the classifier of each pair of
// classes.
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

// For each class how many of its pairs it wins: [rows, classes].
Expr votes_of(Expr scores, std::size_t classes) {
  Graph& g = scores.g;
  const auto count = static_cast<std::int64_t>(classes);
  std::vector<double> first, second;  // [pairs, classes]
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = i + 1; j < count; ++j)
      for (std::int64_t c = 0; c < count; ++c) {
        first.push_back(c == i ? 1 : 0);
        second.push_back(c == j ? 1 : 0);
      }
  const std::int64_t pairs = count * (count - 1) / 2;
  const Expr won = (scores > 0).to(DType::f32);
  return matmul(won, matrix(g, first, pairs, count)) +
         matmul(1.0 - won, matrix(g, second, pairs, count));
}

Expr probabilities_of(Row& r, Expr scores, const Ints& per_class) {
  const auto row = [&](const char* name) {
    const auto values = r.floats_attr(name);
    HostTensor tensor(DType::f64, {std::ssize(values)});
    for (std::size_t k = 0; k < values.size(); ++k)
      tensor.set(static_cast<std::int64_t>(k), values[k]);
    return ops::constant(r.g, std::move(tensor));
  };
  return {r.g, r.kernel_call(
                   runtime::kPairwiseProbabilities, "", {scores.v, row("prob_a"), row("prob_b")},
                   Type::tensor(DType::f32, {scores.shape()[0], Dim(std::ssize(per_class))}))};
}

// The class that wins most pairs. Its scores are probabilities if the classifier was trained to
// give them, else the values of the pairs' classifiers.
Items svm_classifier(Row& r) {
  const Ints per_class = r.ints_attr("vectors_per_class");
  const std::size_t classes = per_class.size(), count = classes * (classes - 1) / 2;
  const auto rho = r.floats_attr("rho");
  if (classes < 2 || rho.size() != count)
    r.refuse("only classifiers by support vectors of two or more classes are supported");
  const std::size_t a = r.floats_attr("prob_a").size(), b = r.floats_attr("prob_b").size();
  if (a + b > 0 && (a != count || b != count))
    r.refuse("prob_a and prob_b must have an entry for each pair of classes");
  if (const std::string transform = r.string_attr("post_transform", "NONE"); transform != "NONE")
    r.refuse("post_transform " + transform + " is not supported");
  const auto total = std::accumulate(per_class.begin(), per_class.end(), std::int64_t{0});
  const auto columns = static_cast<std::int64_t>(count);
  Expr x = expr(r, 0).to(DType::f32);
  Expr near = kernel(r, x, vectors_of(r, r.floats_attr("support_vectors"), total));
  Expr scores = matmul(near, matrix(r.g, pair_weights(r, per_class), total, columns)) +
                matrix(r.g, rho, 1, columns);
  Expr best(r.g, ops::argmax(r.g, votes_of(scores, classes), {1}));
  const Item label = chosen_labels(r, best);
  if (a > 0) return {label, Item::tensor(probabilities_of(r, scores, per_class), Elem::f32)};
  if (classes == 2) scores = Expr(r.g, ops::cat(r.g, {(-scores).v, scores.v}, 1));
  return {label, Item::tensor(scores, Elem::f32)};
}

}  // namespace

void add_svm_rows() {
  add_row("ai.onnx.ml", "SVMRegressor", svm_regressor);
  add_row("ai.onnx.ml", "SVMClassifier", svm_classifier);
}

}  // namespace gex::onnx
