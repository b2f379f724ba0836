// Mixtures of experts: rows sorted by expert, each expert's rows times its own matrix.

#include "ops/build.hpp"
#include "ops/define.hpp"
#include "ops/families.hpp"
#include "ops/rows.hpp"

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

// Each row with its own matrix: the number of ends at or before it says which.
std::vector<Value*> expand_grouped(Graph& g, const Node& n) {
  Value *a = n.input(0), *b = n.input(1), *ends = cast(g, n.input(2), DType::i64);
  const Dim groups = b->type().shape[0];
  Value* row = unsqueeze(g, iota(g, a->type().shape[0]), 1);
  Value* group = reduce_sum(g, le(g, ends, row), {1});
  Value* product = matmul(g, unsqueeze(g, a, 1), take(g, b, group, 0));
  Value* has_group = lt(g, group, dim_value(g, groups));
  return {
      where(g, unsqueeze(g, has_group, 1), squeeze(g, product, 1), scalar(g, a->type().dtype, 0))};
}

// rows, matrices, ends, and for aten._grouped_mm bias and out_dtype
std::vector<Value*> import_grouped(AtenCall& c) {
  const bool plain = c.none(2) || !c.none(3);
  if (plain || c.tensor(0)->type().rank() != 2 || c.tensor(1)->type().rank() != 3) return {};
  Value* y = apply(c.graph(), "grouped_matmul", {c.tensor(0), c.tensor(1), c.tensor(2)});
  return one(to_result(c, y));
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
      .aten("aten._grouped_mm.default", import_grouped)
      .aten("transformers.grouped_mm_fallback.default", import_grouped)
      .define();
}

}  // namespace gex::ops
