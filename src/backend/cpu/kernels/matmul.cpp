#include "backend/cpu/kernels/matmul.hpp"

#include "backend/cpu/kernels/bf16_pairs.hpp"
#include "backend/cpu/kernels/bind.hpp"
#include "backend/cpu/kernels/integer_product.hpp"

namespace gex::kernels {

namespace {

std::int64_t panel_columns(const MatmulProblem& p) { return kPanelBytes / accumulator_bytes(p.a); }

MatmulContext context_of(const MatmulProblem& p) {
  return {p.a, p.b, p.c, p.b_packed, p.any_rows, nullptr, Form::by_rule, {}, {}};
}

}  // namespace

Dim matmul_grid(const MatmulProblem& problem, Dim batch, Dim m, Dim n, Dim) {
  if (is_integer_product(problem)) return integer_matmul_grid(batch, m, n);
  return batch * ceildiv(m, kUnitRows) * ceildiv(n, kUnitCols);
}

Dim matmul_scratch_bytes(const MatmulProblem& problem, Dim, Dim m, Dim n, Dim k) {
  if (is_integer_product(problem)) return integer_matmul_scratch_bytes(k);
  const Dim staged = staged_bytes(problem.computed, problem.a);
  if (reads_pairs(problem.a, problem.b)) return tile_scratch_bytes(problem.a) + staged;
  const RightOperand right =
      right_operand(problem.a, problem.b, problem.b_packed, problem.computed != 0);
  return matmul_scratch(m, n, k, right).elements() * Dim(accumulator_bytes(problem.a)) + staged;
}

program::Callable make_matmul(const MatmulProblem& problem, const Attached& attached,
                              const Variant* variant, Form form) {
  if (is_integer_product(problem)) return make_integer_matmul(problem, attached);
  check_product_dtypes("matmul", problem.a, problem.b, problem.c, attached.epilogue.has_value());
  MatmulContext context = context_of(problem);
  context.form = form;
  context.epilogue = epilogue_call(attached.epilogue);
  for (int k = 0; k < 2; ++k) context.prologues[k] = prologue_call(attached, problem.computed, k);
  const Variant& chosen = choose_variant(variant);
  if (&chosen == usable_variants().front()) context.by_pairs = bf16_pairs(problem);
  return bind_kernel(chosen.matmul, context, attached);
}

Dim matmul_pack_grid(const MatmulProblem& problem, Dim batch, Dim n, Dim) {
  if (is_integer_product(problem)) return integer_matmul_pack_grid(batch, n);
  return batch * ceildiv(n, panel_columns(problem));
}

Dim matmul_packed_elements(const MatmulProblem& problem, Dim batch, Dim n, Dim k) {
  if (is_integer_product(problem)) return integer_matmul_packed_bytes(batch, n, k);
  return matmul_pack_grid(problem, batch, n, k) * panel_columns(problem) *
         (problem.b == DType::bf16 ? ceildiv(k, 2) * 2 : k);
}

program::Callable make_matmul_pack(const MatmulProblem& problem, const Variant* variant) {
  if (is_integer_product(problem)) return make_integer_matmul_pack(problem);
  check_product_dtypes("matmul", problem.a, problem.b, problem.c, true);
  return bind_kernel(choose_variant(variant).matmul_pack, context_of(problem));
}

}  // namespace gex::kernels
