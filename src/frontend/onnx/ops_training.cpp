// ai.onnx.preview.training: optimisers.

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {
namespace {

constexpr const char* kTraining = "ai.onnx.preview.training";

// Inputs are the learning rate, the number of updates so far, then lists of equal length.
struct Optimiser {
  Optimiser(Row& row, std::size_t the_lists)
      : r(row), lists(the_lists), count((row.num_inputs() - 2) / the_lists) {}
  Expr rate() const { return expr(r, 0); }
  Expr updates() const { return expr(r, 1); }
  Expr at(std::size_t list, std::size_t k) const { return expr(r, 2 + list * count + k); }
  Row& r;
  std::size_t lists, count;
};

// Results of all tensors, list after list.
Items by_list(const std::vector<std::vector<Expr>>& lists, Elem elem) {
  Items items;
  for (const auto& list : lists)
    for (const Expr& e : list) items.push_back(Item::tensor(e, elem));
  return items;
}

Items adagrad(Row& r) {
  const Optimiser o(r, 3);
  const double decay = r.float_attr("decay_factor", 0), eps = r.float_attr("epsilon", 0);
  const double norm = r.float_attr("norm_coefficient", 0);
  std::vector<std::vector<Expr>> out(2);
  for (std::size_t k = 0; k < o.count; ++k) {
    Expr x = o.at(0, k), h = o.at(2, k);
    Expr rate = o.rate().to(x.dtype()) / (o.updates().to(x.dtype()) * decay + 1);
    Expr g = x * norm + o.at(1, k);
    Expr sum_ = h + g * g;
    out[0].push_back(x - rate * g / (sqrt(sum_) + eps));
    out[1].push_back(sum_);
  }
  return by_list(out, r.elem(2));
}

Items adam(Row& r) {
  const Optimiser o(r, 4);
  const double alpha = r.float_attr("alpha", 0.9f), beta = r.float_attr("beta", 0.999f);
  const double eps = r.float_attr("epsilon", 0), norm = r.float_attr("norm_coefficient", 0);
  const double post = r.float_attr("norm_coefficient_post", 0);
  std::vector<std::vector<Expr>> out(3);
  for (std::size_t k = 0; k < o.count; ++k) {
    Expr x = o.at(0, k), g = x * norm + o.at(1, k);
    Expr v = o.at(2, k) * alpha + g * (1 - alpha);
    Expr h = o.at(3, k) * beta + g * g * (1 - beta);
    Expr t = o.updates().to(x.dtype()), rate = o.rate().to(x.dtype());
    Expr corrected = rate * sqrt(1.0 - binary("pow", t.number(beta), t)) /
                     (1.0 - binary("pow", t.number(alpha), t));
    rate = where(t > 0, corrected, rate);
    out[0].push_back((x - rate * (v / (sqrt(h) + eps))) * (1 - post));
    out[1].push_back(v);
    out[2].push_back(h);
  }
  return by_list(out, r.elem(2));
}

Items momentum(Row& r) {
  const Optimiser o(r, 3);
  const double alpha = r.float_attr("alpha", 0), beta = r.float_attr("beta", 0);
  const double norm = r.float_attr("norm_coefficient", 0);
  const bool nesterov = r.string_attr("mode", "standard") == "nesterov";
  std::vector<std::vector<Expr>> out(2);
  for (std::size_t k = 0; k < o.count; ++k) {
    Expr x = o.at(0, k), g = x * norm + o.at(1, k);
    Expr later = o.updates() > 0;
    Expr factor = where(later, x.number(beta), x.number(1));
    Expr v = o.at(2, k) * alpha + factor * g;
    Expr rate = o.rate().to(x.dtype());
    out[0].push_back(nesterov ? x - rate * (g + v * alpha) : x - rate * v);
    out[1].push_back(v);
  }
  return by_list(out, r.elem(2));
}

}  // namespace

void add_training_rows() {
  add_row(kTraining, "Adagrad", adagrad);
  add_row(kTraining, "Adam", adam);
  add_row(kTraining, "Momentum", momentum);
}

}  // namespace gex::onnx
