#include "backend/cpu/kernels/quantised_matmul.hpp"

#include "backend/cpu/kernels/bf16_pairs.hpp"
#include "backend/cpu/kernels/bind.hpp"
#include "backend/cpu/kernels/quantised_tiles.hpp"

namespace gex::kernels {

namespace {

bool is_narrow_float(DType dtype) { return is_float(dtype) && dtype != DType::f64; }

void check_quantised(const QuantisedMatmulProblem& p, bool has_epilogue) {
  const bool stored =
      p.bits == 8 ? p.q == DType::i8 || p.q == DType::u8 : p.bits == 4 && p.q == DType::u8;
  if (!stored)
    fail(ErrorCode::unsupported, "quantised_matmul kernel: weights of ", p.bits, " bits in ", p.q,
         "; they must be 8 bits in i8 or u8, or 4 bits in u8");
  if (!is_narrow_float(p.a) || !is_narrow_float(p.scale) ||
      (!has_epilogue && !is_narrow_float(p.c)))
    fail(ErrorCode::unsupported, "quantised_matmul kernel: rows ", p.a, ", scales ", p.scale,
         " and result ", p.c, " must be f32, f16 or bf16; cast them");
  if (p.group < 0 || p.zero < -256 || p.zero > 256)
    fail(ErrorCode::invalid_argument, "quantised_matmul kernel: group ", p.group,
         " must not be negative and zero point ", p.zero, " must be from -256 to 256");
}

}  // namespace

Dim quantised_matmul_grid(Dim m, Dim n) {
  return ceildiv(m, kQuantisedRows) * ceildiv(n, kQuantisedColumns);
}

Dim quantised_matmul_scratch_bytes(const QuantisedMatmulProblem& problem, Dim m, Dim k) {
  const auto padded = [](Dim size) {
    return ceildiv(size, kQuantisedBlock) * Dim(kQuantisedBlock);
  };
  const Dim groups = problem.group == 0 ? min(k, Dim(1)) : ceildiv(k, problem.group);
  return Dim(4) * (min(m, Dim(kQuantisedRows)) * padded(k) +
                   max(Dim(kQuantisedWidened) * padded(k), Dim(kQuantisedStaged)) +
                   Dim(kQuantisedRows * kQuantisedColumns) +
                   Dim(2 * kQuantisedWidened + kQuantisedSeveralRows) * padded(groups));
}

program::Callable make_quantised_matmul(const QuantisedMatmulProblem& problem,
                                        const Attached& attached, const Variant* variant) {
  check_quantised(problem, attached.epilogue.has_value());
  const QuantisedContext context{
      problem.a,          problem.scale,    problem.c,          problem.q == DType::i8,
      problem.bits,       problem.group,    problem.zero,       problem.has_scale,
      problem.has_offset, problem.any_rows, problem.operands(), epilogue_call(attached.epilogue)};
  const Variant& chosen = choose_variant(variant);
  RangeFn fn = chosen.quantised_matmul;
  if (&chosen == usable_variants().front() && problem.a == DType::bf16 && !problem.keep_subnormals)
    if (const RangeFn by_pairs = quantised_by_pairs()) fn = by_pairs;
  return bind_kernel(fn, context, attached);
}

}  // namespace gex::kernels
