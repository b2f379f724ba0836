#include "backend/cpu/kernels/attention.hpp"

#include "backend/cpu/kernels/bind.hpp"

namespace gex::kernels {

Dim attention_grid(const AttentionProblem&, Dim batch, Dim heads, Dim kv_heads, Dim queries) {
  return batch * kv_heads * ceildiv(floordiv(heads, kv_heads) * queries, kQueryRows);
}

Dim attention_scratch_bytes(const AttentionProblem& problem, Dim head_size, Dim value_size) {
  const std::int64_t element = accumulator_bytes(problem.qkv);
  const std::int64_t panel = kPanelBytes / element;
  const Dim value_stride = ceildiv(value_size, panel) * panel;
  return attention_scratch_elements(ceildiv(head_size, kDepth), value_stride) * Dim(element) +
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
                              {},
                              {}};
  context.epilogue = epilogue_call(attached.epilogue);
  for (int k = 0; k < 4; ++k) context.prologues[k] = prologue_call(attached, p.computed, k);
  return bind_kernel(choose_variant(variant).attention, context, attached);
}

}  // namespace gex::kernels
