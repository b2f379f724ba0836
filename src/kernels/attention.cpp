#include "kernels/attention.hpp"

#include <bit>

#include "kernels/bind.hpp"

namespace gex::kernels {

Hash AttentionProblem::hash() const {
  const std::uint64_t fields[] = {static_cast<std::uint64_t>(qkv),
                                  static_cast<std::uint64_t>(out),
                                  static_cast<std::uint64_t>(mask),
                                  static_cast<std::uint64_t>(mask_dtype),
                                  static_cast<std::uint64_t>(causal),
                                  scale.has_value(),
                                  std::bit_cast<std::uint64_t>(scale.value_or(0)),
                                  nan_if_blind};
  return hash_bytes(fields, sizeof fields);
}

Dim attention_grid(const AttentionProblem&, Dim batch, Dim heads, Dim kv_heads, Dim queries) {
  return batch * kv_heads * ceildiv(floordiv(heads, kv_heads) * queries, kQueryRows);
}

Dim attention_scratch_bytes(const AttentionProblem& problem, Dim head_size, Dim value_size) {
  const std::int64_t element = accumulator_bytes(problem.qkv);
  const std::int64_t panel = kPanelBytes / element;
  const Dim value_stride = ceildiv(value_size, panel) * panel;
  const Dim elements = kQueryRows * kDepthStride + 2 * kQueryRows + kKeyBlock * kDepth +
                       (kKeyBlock + kQueryRows) * value_stride +
                       ceildiv(head_size, kDepth) * (kQueryRows * kDepthStride);
  return elements * element;
}

program::Callable make_attention(const AttentionProblem& p, const Variant* variant) {
  check_product_dtypes("attention", p.qkv, p.qkv, p.out, false);
  if (p.mask == MaskKind::additive &&
      (!is_float(p.mask_dtype) || (p.mask_dtype == DType::f64) != (p.qkv == DType::f64)))
    fail(ErrorCode::unsupported, "attention kernel: a mask of ", p.mask_dtype,
         " can't be added to scores of ", p.qkv, " operands; cast the mask first");
  const AttentionContext context = {p.qkv,          p.mask_dtype,       p.out,
                                    p.mask,         p.causal,           p.scale.has_value(),
                                    p.nan_if_blind, p.scale.value_or(0)};
  return bind_kernel(choose_variant(variant).attention, context);
}

}  // namespace gex::kernels
