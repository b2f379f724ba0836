// Mixtures of experts: rows sorted by expert, each expert's rows times its own matrix, and the
// gradient of those matrices.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/problem_rules.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

Type grouped_type(const InferContext& c) {
  require_dtype(c, 0, floating);
  require_same_dtype(c, 0, 1);
  require_dtype(c, 2, [](DType d) { return d == DType::i32 || d == DType::i64; });
  require_rank(c, 0, 2);
  require_rank(c, 1, 3);
  require_rank(c, 2, 1);
  const Shape &a = c.in(0).shape, &b = c.in(1).shape, &ends = c.in(2).shape;
  if (!assume_eq(a[1], b[1]) || !assume_eq(b[0], ends[0]) || !assume_le(1, b[0])) {
    fail(ErrorCode::shape_mismatch, "grouped_matmul: rows ", c.in(0), ", matrices ", c.in(1),
         " and ends ", c.in(2), "; expected [T, K], [G, K, N] and [G]");
  }
  return Type::tensor(c.in(0).dtype, {a[0], b[2]});
}

Type grouped_weight_grad_type(const InferContext& c) {
  require_dtype(c, 0, floating);
  require_same_dtype(c, 0, 1);
  require_dtype(c, 2, [](DType d) { return d == DType::i32 || d == DType::i64; });
  require_rank(c, 0, 2);
  require_rank(c, 1, 2);
  require_rank(c, 2, 1);
  const Shape &a = c.in(0).shape, &grad = c.in(1).shape;
  if (!assume_eq(a[0], grad[0])) {
    fail(ErrorCode::shape_mismatch, "grouped_weight_grad: rows ", c.in(0), " and gradients ",
         c.in(1), "; expected [T, K] and [T, N]");
  }
  return Type::tensor(c.in(0).dtype, {c.in(2).shape[0], a[1], grad[1]});
}

// i64[T]: the group of a row is the number of ends at or before it. An end below its predecessor
// counts as equal to it: that group has no rows.
Value* group_of_rows(Graph& g, Value* ends, Dim rows) {
  Value* row = unsqueeze(g, iota(g, rows), 1);
  Value* reached = apply(g, "cummax_values", {cast(g, ends, DType::i64)}, Axis{0});
  return reduce_sum(g, le(g, reached, row), {1});
}

// Each row with its own matrix.
std::vector<Value*> expand_grouped(Graph& g, const Node& n) {
  Value *a = n.input(0), *b = n.input(1);
  const Dim groups = b->type().shape[0];
  Value* group = group_of_rows(g, n.input(2), a->type().shape[0]);
  Value* product = matmul(g, unsqueeze(g, a, 1), take(g, b, group, 0));
  Value* has_group = lt(g, group, dim_value(g, groups));
  return {
      where(g, unsqueeze(g, has_group, 1), squeeze(g, product, 1), scalar(g, a->type().dtype, 0))};
}

// Each group with all rows, where rows of other groups are zeroed on both sides: their contents
// must not matter.
std::vector<Value*> expand_grouped_weight_grad(Graph& g, const Node& n) {
  Value *a = n.input(0), *grad = n.input(1);
  const Dim rows = a->type().shape[0], groups = n.input(2)->type().shape[0];
  Value* group = group_of_rows(g, n.input(2), rows);
  Value* member = unsqueeze(g, eq(g, unsqueeze(g, iota(g, groups), 1), group), 2);
  Value* zero = scalar(g, a->type().dtype, 0);
  Value* left = transpose(g, where(g, member, a, zero), {0, 2, 1});
  return {matmul(g, left, where(g, member, grad, zero))};
}

Value* grouped_matmul(Graph& g, Value* a, Value* b, Value* ends) {
  return apply(g, "grouped_matmul", {a, b, ends});
}

// left, right, ends, bias, out_dtype. If `left` or `right` has no group axis, the ends split its
// rows or columns; if neither has, they split the summed axis.
std::vector<Value*> import_grouped(AtenCall& c) {
  Graph& g = c.graph();
  Value *left = c.tensor(0), *right = c.tensor(1);
  const bool many_left = left->type().rank() == 3, many_right = right->type().rank() == 3;
  if (!c.none(3) || c.none(2) != (many_left && many_right)) return {};
  Value* y = nullptr;
  if (many_left && many_right) {
    y = matmul(g, left, right);
  } else if (many_right) {
    y = grouped_matmul(g, left, right, c.tensor(2));
  } else if (many_left) {
    y = grouped_matmul(g, transpose(g, right, {1, 0}), transpose(g, left, {0, 2, 1}), c.tensor(2));
    y = transpose(g, y, {1, 0});
  } else {
    y = apply(g, "grouped_weight_grad", {transpose(g, left, {1, 0}), right, c.tensor(2)});
  }
  return one(to_result(c, y));
}

// rows, matrices, ends
std::vector<Value*> import_fallback(AtenCall& c) {
  return one(to_result(c, grouped_matmul(c.graph(), c.tensor(0), c.tensor(1), c.tensor(2))));
}

// rows, gradients, ends
std::vector<Value*> import_weight_grad(AtenCall& c) {
  return one(apply(c.graph(), "grouped_weight_grad", {c.tensor(0), c.tensor(1), c.tensor(2)}));
}

// Ends of a sample ascend: 1, 2, 3 plus the input.
auto with_ends(const char* name) {
  return [name](Graph& g, const std::vector<Value*>& v) {
    Value* ends = cumsum(g, add(g, v[2], scalar_int(g, DType::i64, 1)), 0);
    return std::vector<Value*>{apply(g, name, {v[0], v[1], ends})};
  };
}

}  // namespace

void register_grouped_matmul() {
  Definition("grouped_matmul",
             "Rows [T, K] in groups, those before ends[g] and not before ends[g-1] times matrix g "
             "of [G, K, N]; rows of no group give zeros.")
      .in({"a", "b", "ends"})
      .traits(Trait::pure | Trait::contraction)
      .infer_one(grouped_type)
      .expand(expand_grouped)
      .problem(grouped_matmul_rule())
      .aten("aten._grouped_mm.default", import_grouped)
      .aten("transformers.grouped_mm_fallback.default", import_fallback)
      .aten("gex.grouped_mm.default", import_fallback)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({s + 3, Dim(4)}), data({Dim(3), Dim(4), Dim(5)}), index_data({Dim(3)})},
            {},
            with_ends("grouped_matmul")};
      })
      .define();
  Definition("grouped_weight_grad",
             "The gradient of grouped_matmul's matrices from its rows [T, K] and the gradient "
             "[T, N] of its result: [G, K, N], zeros for groups without rows.")
      .in({"a", "grad", "ends"})
      .traits(Trait::pure | Trait::contraction)
      .infer_one(grouped_weight_grad_type)
      .expand(expand_grouped_weight_grad)
      .problem(grouped_weight_grad_rule())
      .aten("gex.grouped_mm_weight_grad.default", import_weight_grad)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({s + 3, Dim(4)}), data({s + 3, Dim(5)}), index_data({Dim(3)})},
                        {},
                        with_ends("grouped_weight_grad")};
      })
      .define();
}

}  // namespace gex::ops
