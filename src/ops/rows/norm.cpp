// ATen rows of normalisations, their statistics and their gradients.

#include <algorithm>
#include <cmath>

#include "base/precision.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

namespace {

Value* optional_tensor(const AtenCall& c, std::size_t i) {
  return c.none(i) ? nullptr : c.tensor(i);
}

// --- variance -----------------------------------------------------------------------------------

struct VarianceArguments {
  Ints axes;
  double correction = 1;
  bool keepdim = false;
};

Node* variance_node(AtenCall& c, const VarianceArguments& a) {
  Value* x = operand(c, 0, c.result().dtype);
  return c.graph().add(op("variance"), {x}, Variance{a.axes, a.keepdim, a.correction});
}

VarianceArguments with_correction(const AtenCall& c) {  // x, dim, correction, keepdim
  const int rank = c.tensor(0)->type().rank();
  return {axes_argument(c, 1, rank), c.none(2) ? 1.0 : c.number(2), !c.none(3) && c.flag(3)};
}

void register_variance_rows() {
  register_aten_row("aten.var.correction", [](AtenCall& c) {
    return one(variance_node(c, with_correction(c))->output(0));
  });
  register_aten_row("aten.std.correction", [](AtenCall& c) {
    Graph& g = c.graph();
    const auto a = with_correction(c);
    const DType t = compute_type(c.result().dtype);
    Node* n = g.add(op("variance"), {operand(c, 0, t)}, Variance{a.axes, a.keepdim, a.correction});
    return one(to_result(c, sqrt(g, n->output(0))));
  });
  register_aten_row("aten.std_mean.correction", [](AtenCall& c) {
    Graph& g = c.graph();
    const auto a = with_correction(c);
    const DType t = compute_type(c.result().dtype);
    Node* n = g.add(op("variance"), {operand(c, 0, t)}, Variance{a.axes, a.keepdim, a.correction});
    return std::vector{to_result(c, sqrt(g, n->output(0))), to_result(c, n->output(1), 1)};
  });
  register_aten_row("aten.var_mean.correction", [](AtenCall& c) {
    Node* n = variance_node(c, with_correction(c));
    return std::vector{n->output(0), n->output(1)};
  });
}

std::vector<Value*> import_vector_norm(AtenCall& c) {  // x, ord, dim, keepdim, dtype
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* x = abs(g, operand(c, 0, t));
  const Ints axes = axes_argument(c, 2, x->type().rank());
  const bool keepdim = c.flag(3);
  const double order = c.number(1);
  auto sum = [&](Value* v) { return reduce_sum(g, v, axes, keepdim); };
  Value* y = nullptr;
  const bool of_one = std::ranges::all_of(axes, [&](std::int64_t axis) {
    return provably_eq(x->type().shape[static_cast<std::size_t>(axis)], Dim(1));
  });
  if (of_one && order != 0) {
    y = sum(x);  // the element itself: its power may overflow
  } else if (order == 2) {
    y = sqrt(g, sum(square(g, x)));
  } else if (order == 1) {
    y = sum(x);
  } else if (order == 0) {
    y = sum(cast(g, ne(g, x, scalar(g, t, 0)), t));
  } else if (std::isinf(order)) {
    y = reduce(g, order > 0 ? "reduce_max" : "reduce_min", x, axes, keepdim);
  } else {
    y = pow(g, sum(pow(g, x, scalar(g, t, order))), scalar(g, t, 1 / order));
  }
  return one(to_result(c, y));
}

// --- layer norm and RMS norm --------------------------------------------------------------------

std::vector<Value*> import_layer_norm(AtenCall& c) {  // x, normalized_shape, weight, bias, eps
  Graph& g = c.graph();
  const auto rank = static_cast<std::int64_t>(c.dims(1).size());
  Node* n = g.add(op("layer_norm"), {c.tensor(0), optional_tensor(c, 2), optional_tensor(c, 3)},
                  Norm{rank, c.number(4)});
  std::vector<Value*> results{n->output(0)};
  for (std::size_t k = 1; k < c.results().size(); ++k) {
    results.push_back(to_result(c, reshape(g, n->output(k), c.result(k).shape), k));
  }
  return results;
}

std::vector<Value*> import_rms_norm(AtenCall& c) {  // x, normalized_shape, weight, eps
  Graph& g = c.graph();
  const auto rank = static_cast<std::int64_t>(c.dims(1).size());
  const DType t = c.tensor(0)->type().dtype;
  // Without an eps PyTorch uses the epsilon of the compute type.
  const double eps = c.none(3) ? epsilon_of(compute_type(t)) : c.number(3);
  Node* n = g.add(op("rms_norm"), {c.tensor(0), optional_tensor(c, 2)}, Norm{rank, eps});
  std::vector<Value*> results{to_result(c, n->output(0))};
  if (c.results().size() > 1) {
    results.push_back(to_result(c, reshape(g, n->output(1), c.result(1).shape), 1));
  }
  return results;
}

// How many leading axes a [normalised...] weight gradient is summed over.
Ints leading_axes(const Shape& x, const Shape& normalised) {
  return all_axes(static_cast<int>(x.size() - normalised.size()));
}

Value* sum_leading(Graph& g, Value* x, const Shape& normalised) {
  const Ints axes = leading_axes(x->type().shape, normalised);
  return axes.empty() ? x : reduce_sum(g, x, axes);
}

// grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
std::vector<Value*> import_layer_norm_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value *grad = wide(g, c.tensor(0)), *x = wide(g, c.tensor(1));
  const DType t = x->type().dtype;
  const Shape normalised = c.dims(2);
  const Ints axes = last_axes(x->type().rank(), normalised.size());
  const Shape kept = reduced_shape(x->type().shape, axes, true);
  Value* mean = reshape(g, cast(g, c.tensor(3), t), kept);
  Value* rstd = reshape(g, cast(g, c.tensor(4), t), kept);
  Value* normed = mul(g, sub(g, x, mean), rstd);
  std::vector<Value*> results(3, nullptr);
  if (asked_for(c, 7, 0)) {
    Value* scaled = c.none(5) ? grad : mul(g, grad, cast(g, c.tensor(5), t));
    Value* mean_grad = reduce_mean(g, scaled, axes, true);
    Value* mean_product = reduce_mean(g, mul(g, scaled, normed), axes, true);
    Value* inner = sub(g, sub(g, scaled, mean_grad), mul(g, normed, mean_product));
    results[0] = to_result(c, mul(g, rstd, inner), 0);
  }
  if (asked_for(c, 7, 1)) {
    results[1] = to_result(c, sum_leading(g, mul(g, grad, normed), normalised), 1);
  }
  if (asked_for(c, 7, 2)) results[2] = to_result(c, sum_leading(g, grad, normalised), 2);
  return results;
}

// grad_out, input, normalized_shape, rstd, weight, output_mask
std::vector<Value*> import_rms_norm_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value *grad = wide(g, c.tensor(0)), *x = wide(g, c.tensor(1));
  const DType t = x->type().dtype;
  const Shape normalised = c.dims(2);
  const Ints axes = last_axes(x->type().rank(), normalised.size());
  Value* rstd = reshape(g, cast(g, c.tensor(3), t), reduced_shape(x->type().shape, axes, true));
  Value* normed = mul(g, x, rstd);
  std::vector<Value*> results(2, nullptr);
  if (asked_for(c, 5, 0)) {
    Value* scaled = c.none(4) ? grad : mul(g, grad, cast(g, c.tensor(4), t));
    Value* mean_product = reduce_mean(g, mul(g, scaled, normed), axes, true);
    results[0] = to_result(c, mul(g, rstd, sub(g, scaled, mul(g, normed, mean_product))), 0);
  }
  if (asked_for(c, 5, 1) && !c.none(4)) {
    results[1] = to_result(c, sum_leading(g, mul(g, grad, normed), normalised), 1);
  }
  return results;
}

// --- batch norm ---------------------------------------------------------------------------------

Ints all_but_channels(int rank) {
  Ints axes = all_axes(rank);
  axes.erase(axes.begin() + 1);
  return axes;
}

struct BatchStatistics {
  Value *mean, *variance;  // [C], in the compute type
};

BatchStatistics batch_statistics(Graph& g, Value* x) {
  const auto m = moments(g, x, all_but_channels(x->type().rank()), 0);
  const Shape channels{x->type().shape[1]};
  return {reshape(g, m.mean, channels), reshape(g, m.variance, channels)};
}

Value* moved_towards(Graph& g, Value* running, Value* now, double momentum) {
  Value* old = mul(g, wide(g, running), 1 - momentum);
  return cast(g, add(g, old, mul(g, now, momentum)), running->type().dtype);
}

Value* normalised(Graph& g, AtenCall& c, Value* mean, Value* variance, double eps) {
  return g
      .add(op("batch_norm"),
           {c.tensor(0), optional_tensor(c, 1), optional_tensor(c, 2), mean, variance},
           BatchNorm{eps})
      ->output();
}

// With statistics of the batch itself. The mean is subtracted first: x * scale - mean * scale would
// lose digits if the mean is large.
Value* of_batch(Graph& g, AtenCall& c, Value* x, Value* mean, Value* variance, double eps) {
  const int rank = x->type().rank();
  const DType t = x->type().dtype;
  Value* scale = rsqrt(g, add(g, variance, eps));
  if (!c.none(1)) scale = mul(g, cast(g, c.tensor(1), t), scale);
  Value* y = mul(g, sub(g, x, along_channels(g, mean, rank)), along_channels(g, scale, rank));
  if (c.none(2)) return y;
  return add(g, y, along_channels(g, cast(g, c.tensor(2), t), rank));
}

struct BatchNormForm {
  bool training;
  double momentum, eps;
  bool running;                 // running statistics are arguments 3 and 4
  std::size_t running_results;  // position of the new ones among the results; 0: none
};

std::vector<Value*> batch_norm(AtenCall& c, const BatchNormForm& form) {
  Graph& g = c.graph();
  if (!form.training) {
    Value* y = normalised(g, c, c.tensor(3), c.tensor(4), form.eps);
    std::vector<Value*> results{y};
    for (std::size_t k = 1; k < c.results().size(); ++k) {
      results.push_back(full(g, c.result(k).dtype, 0, c.result(k).shape));
    }
    if (form.running_results != 0) {
      const std::size_t k = form.running_results;
      results[k] = to_result(c, c.tensor(3), k);
      results[k + 1] = to_result(c, c.tensor(4), k + 1);
    }
    return results;
  }
  Value* x = wide(g, c.tensor(0));
  const DType t = x->type().dtype;
  const auto [mean, variance] = batch_statistics(g, x);
  std::vector<Value*> results(c.results().size(), nullptr);
  results[0] = to_result(c, of_batch(g, c, x, mean, variance, form.eps), 0);
  results[1] = to_result(c, mean, 1);
  results[2] = to_result(c, rsqrt(g, add(g, variance, form.eps)), 2);
  if (form.running_results != 0) {
    const Ints axes = all_but_channels(x->type().rank());
    Value* count = element_count(g, t, x->type().shape, axes);
    Value* unbiased = mul(g, variance, div(g, count, sub(g, count, 1)));
    const std::size_t k = form.running_results;
    results[k] = to_result(c, moved_towards(g, c.tensor(3), mean, form.momentum), k);
    results[k + 1] = to_result(c, moved_towards(g, c.tensor(4), unbiased, form.momentum), k + 1);
  }
  for (std::size_t k = 3; k < results.size(); ++k) {
    if (results[k] == nullptr) results[k] = full(g, c.result(k).dtype, 0, c.result(k).shape);
  }
  return results;
}

void register_batch_norm_rows() {
  register_aten_row("aten._native_batch_norm_legit_no_training.default", [](AtenCall& c) {
    return batch_norm(c, {false, c.number(5), c.number(6), true, 0});
  });
  register_aten_row("aten._native_batch_norm_legit_functional.default", [](AtenCall& c) {
    return batch_norm(c, {c.flag(5), c.number(6), c.number(7), true, 3});
  });
  register_aten_row("aten._native_batch_norm_legit.no_stats", [](AtenCall& c) {
    if (!c.flag(3)) return std::vector<Value*>{};
    return batch_norm(c, {true, c.number(4), c.number(5), false, 0});
  });
  register_aten_row("aten._batch_norm_with_update_functional.default", [](AtenCall& c) {
    return batch_norm(c, {true, c.number(5), c.number(6), true, 4});
  });
  register_aten_row("aten._batch_norm_no_update.default", [](AtenCall& c) {
    if (c.none(3) || c.none(4)) return std::vector<Value*>{};
    return batch_norm(c, {false, c.number(5), c.number(6), true, 0});
  });
}

struct BatchNormGradient {
  std::size_t save_mean, save_rstd;
  bool training;
  double eps;
  std::size_t mask;
};

// grad_out, input, weight, running_mean, running_var, ...
std::vector<Value*> batch_norm_backward(AtenCall& c, const BatchNormGradient& form) {
  Graph& g = c.graph();
  Value *grad = wide(g, c.tensor(0)), *x = wide(g, c.tensor(1));
  const DType t = x->type().dtype;
  const int rank = x->type().rank();
  const Ints axes = all_but_channels(rank);
  auto channels = [&](Value* v) { return along_channels(g, cast(g, v, t), rank); };
  Value* mean = channels(c.tensor(form.training ? form.save_mean : 3));
  Value* rstd = form.training ? channels(c.tensor(form.save_rstd))
                              : rsqrt(g, add(g, channels(c.tensor(4)), form.eps));
  Value* normed = mul(g, sub(g, x, mean), rstd);
  Value* total = reduce_sum(g, grad, axes, true);
  Value* total_product = reduce_sum(g, mul(g, grad, normed), axes, true);
  std::vector<Value*> results(3, nullptr);
  if (asked_for(c, form.mask, 0)) {
    Value* inner = grad;
    if (form.training) {
      Value* count = element_count(g, t, x->type().shape, axes);
      Value* mean_grad = div(g, total, count);
      Value* mean_product = div(g, total_product, count);
      inner = sub(g, sub(g, grad, mean_grad), mul(g, normed, mean_product));
    }
    Value* scale = c.none(2) ? rstd : mul(g, rstd, channels(c.tensor(2)));
    results[0] = to_result(c, mul(g, inner, scale), 0);
  }
  const Shape per_channel{x->type().shape[1]};
  if (asked_for(c, form.mask, 1)) {
    results[1] = to_result(c, reshape(g, total_product, per_channel), 1);
  }
  if (asked_for(c, form.mask, 2)) results[2] = to_result(c, reshape(g, total, per_channel), 2);
  return results;
}

// --- group norm ---------------------------------------------------------------------------------

std::vector<Value*> import_group_norm(AtenCall& c) {  // x, weight, bias, N, C, HxW, group, eps
  Graph& g = c.graph();
  Value* x = wide(g, c.tensor(0));
  const DType t = x->type().dtype;
  const Shape shape = x->type().shape;
  const Dim groups = c.dim(6);
  Value* grouped = reshape(g, x, {c.dim(3), groups, floordiv(c.dim(4), groups) * c.dim(5)});
  const auto m = moments(g, grouped, {2}, 0);
  Value* rstd = rsqrt(g, add(g, m.variance, c.number(7)));
  Value* y = reshape(g, mul(g, sub(g, grouped, m.mean), rstd), shape);
  const int rank = c.tensor(0)->type().rank();
  if (!c.none(1)) y = mul(g, y, along_channels(g, cast(g, c.tensor(1), t), rank));
  if (!c.none(2)) y = add(g, y, along_channels(g, cast(g, c.tensor(2), t), rank));
  return {to_result(c, y, 0), to_result(c, reshape(g, m.mean, c.result(1).shape), 1),
          to_result(c, reshape(g, rstd, c.result(2).shape), 2)};
}

// grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
std::vector<Value*> import_group_norm_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value *grad = wide(g, c.tensor(0)), *x = wide(g, c.tensor(1));
  const DType t = x->type().dtype;
  const Shape shape = x->type().shape;
  const int rank = x->type().rank();
  const Dim n = c.dim(5), groups = c.dim(8);
  const Shape grouped{n, groups, floordiv(c.dim(6), groups) * c.dim(7)};
  const Shape kept{n, groups, Dim(1)};
  Value* mean = reshape(g, cast(g, c.tensor(2), t), kept);
  Value* rstd = reshape(g, cast(g, c.tensor(3), t), kept);
  Value* normed = mul(g, sub(g, reshape(g, x, grouped), mean), rstd);
  std::vector<Value*> results(3, nullptr);
  if (asked_for(c, 9, 0)) {
    Value* scaled = grad;
    if (!c.none(4)) {
      scaled = mul(g, grad, along_channels(g, cast(g, c.tensor(4), t), rank));
    }
    scaled = reshape(g, scaled, grouped);
    Value* mean_grad = reduce_mean(g, scaled, {2}, true);
    Value* mean_product = reduce_mean(g, mul(g, scaled, normed), {2}, true);
    Value* inner = sub(g, sub(g, scaled, mean_grad), mul(g, normed, mean_product));
    results[0] = to_result(c, reshape(g, mul(g, rstd, inner), shape), 0);
  }
  const Ints axes = all_but_channels(rank);
  if (asked_for(c, 9, 1)) {
    Value* product = mul(g, grad, reshape(g, normed, shape));
    results[1] = to_result(c, reduce_sum(g, product, axes), 1);
  }
  if (asked_for(c, 9, 2)) results[2] = to_result(c, reduce_sum(g, grad, axes), 2);
  return results;
}

}  // namespace

void register_norm_rows() {
  register_variance_rows();
  register_batch_norm_rows();
  register_aten_row("aten.linalg_vector_norm.default", import_vector_norm);
  register_aten_row("aten.native_layer_norm.default", import_layer_norm);
  register_aten_row("aten.layer_norm.default", import_layer_norm);
  register_aten_row("aten._fused_rms_norm.default", import_rms_norm);
  register_aten_row("aten.rms_norm.default", import_rms_norm);
  register_aten_row("aten.native_layer_norm_backward.default", import_layer_norm_backward);
  register_aten_row("aten._fused_rms_norm_backward.default", import_rms_norm_backward);
  register_aten_row("aten.native_batch_norm_backward.default", [](AtenCall& c) {
    return batch_norm_backward(c, {5, 6, c.flag(7), c.number(8), 9});
  });
  register_aten_row("aten.native_group_norm.default", import_group_norm);
  register_aten_row("aten.native_group_norm_backward.default", import_group_norm_backward);
  register_aten_facts({"aten.linalg_vector_norm", "aten.std", "aten.var", "aten.var_mean"},
                      {.padding = AtenFacts::Padding::folds});
  register_aten_facts({"aten.native_layer_norm"}, {.padding = AtenFacts::Padding::normalises_last,
                                                   .decomposition = AtenFacts::Decomposition::any});
  register_aten_facts({"aten.native_batch_norm"},
                      {.padding = AtenFacts::Padding::normalises_batch, .padding_argument = 5});
  register_aten_facts({"aten._native_batch_norm_legit_no_training"},
                      {.padding = AtenFacts::Padding::keeps_positions,
                       .decomposition = AtenFacts::Decomposition::any});
  register_aten_facts({"aten._native_batch_norm_legit", "aten.native_group_norm",
                       "aten.native_group_norm_backward", "aten.native_layer_norm_backward"},
                      {.decomposition = AtenFacts::Decomposition::any});
}

}  // namespace gex::ops
