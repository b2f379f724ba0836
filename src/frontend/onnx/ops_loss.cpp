// Losses.

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {
namespace {

// scores [N, C, d...] are log-probabilities, labels [N, d...].
Value* negative_log_likelihood(Row& r, Expr scores, std::size_t labels_at, std::size_t weights_at) {
  Graph& g = r.g;
  Expr labels = expr(r, labels_at).to(DType::i64);
  Expr weight(g, ops::full(g, scores.dtype(), 1, labels.shape()));
  Expr safe = labels;
  Expr kept(g, ops::full(g, DType::boolean, 1, {}));
  if (r.has_attr("ignore_index")) {
    kept = labels != static_cast<double>(r.int_attr("ignore_index", 0));
    safe = where(kept, labels, labels.number(0));
  }
  if (r.has(weights_at)) weight = take(expr(r, weights_at).to(scores.dtype()), safe, 0);
  if (r.has_attr("ignore_index")) weight = where(kept, weight, weight.number(0));
  Expr picked(g, ops::take_along(g, scores, unsqueeze(safe, 1), 1));
  Expr loss = -squeeze(picked, 1) * weight;
  const std::string reduction = r.string_attr("reduction", "mean");
  if (reduction == "none") return loss;
  Ints all;
  for (int d = 0; d < loss.rank(); ++d) all.push_back(d);
  Expr total = sum(loss, all);
  if (reduction == "sum") return total;
  return total / sum(weight, all);
}

Items nll_loss(Row& r) {
  return r.one(Expr(r.g, negative_log_likelihood(r, wide(r, 0), 1, 2)).to(r.dtype()));
}

Items cross_entropy(Row& r) {
  Expr log_prob(r.g, ops::log_softmax(r.g, wide(r, 0), 1));
  Value* loss = negative_log_likelihood(r, log_prob, 1, 2);
  return {Item::tensor(ops::cast(r.g, loss, r.dtype()), r.elem()),
          Item::tensor(log_prob.to(r.dtype()), r.elem())};
}

}  // namespace

void add_loss_rows() {
  add_row("NegativeLogLikelihoodLoss", nll_loss);
  add_row("SoftmaxCrossEntropyLoss", cross_entropy);
}

}  // namespace gex::onnx
