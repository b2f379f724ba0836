#include "backend/cpu/kernels/attention.hpp"

#include "backend/cpu/kernels/bf16_pairs.hpp"
#include "backend/cpu/kernels/bind.hpp"

namespace gex::kernels {

Dim attention_grid(const AttentionProblem&, Dim batch, Dim heads, Dim kv_heads, Dim queries) {
  return batch * kv_heads * ceildiv(floordiv(heads, kv_heads) * queries, kQueryRows);
}

Dim attention_scratch_bytes(const AttentionProblem& problem, Dim head_size, Dim value_size) {
  const Dim elements =
      attention_scratch(ceildiv(head_size, Dim(16)), ceildiv(value_size, Dim(16))).elements();
  return elements * Dim(accumulator_bytes(problem.qkv)) +
         Dim(staged_bytes(problem.computed, problem.qkv));
}

program::Callable make_attention(const AttentionProblem& p, const Attached& attached,
                                 const Variant* variant) {
  check_product_dtypes("attention", p.qkv, p.qkv, p.out, attached.epilogue.has_value());
  if (p.mask == MaskKind::additive &&
      (!is_float(p.mask_dtype) || (p.mask_dtype == DType::f64) != (p.qkv == DType::f64)))
    fail(ErrorCode::unsupported, "attention kernel: a mask of ", p.mask_dtype,
         " can't be added to scores of ", p.qkv, " operands; cast the mask first");
  AttentionContext context = {p.qkv,
                              p.mask_dtype,
                              p.out,
                              p.mask,
                              p.causal,
                              p.scale.has_value(),
                              p.nan_if_fully_masked,
                              p.scale.value_or(0),
                              nullptr,
                              {},
                              {}};
  const Variant& chosen = choose_variant(variant);
  if (&chosen == usable_variants().front()) context.by_pairs = bf16_pairs(p);
  context.epilogue = epilogue_call(attached.epilogue);
  for (int k = 0; k < 4; ++k) context.prologues[k] = prologue_call(attached, p.computed, k);
  return bind_kernel(chosen.attention, context, attached);
}

}  // namespace gex::kernels
