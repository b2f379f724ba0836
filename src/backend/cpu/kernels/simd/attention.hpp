#pragma once
// Attention: few rows read keys and values in place, others run as panels.

#include <cstdint>

#include "backend/cpu/kernels/simd/attention_few.hpp"
#include "backend/cpu/kernels/simd/attention_panels.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Whether the rows are few, and keys and values contiguous.
inline bool reads_few(const i64* dims) {
  namespace at = attention_dims;
  return dims[at::k_strides + 3] == 1 && dims[at::v_strides + 3] == 1 &&
         dims[at::heads] / dims[at::kv_heads] * dims[at::queries] <= kFewRows;
}

template <class T>
void attention_of(const AttentionContext& c, void* const* buffers, const i64* dims, i64 begin,
                  i64 end, std::byte* scratch) {
  if (reads_few(dims))
    run_attention<FewAttention<T>, T>(c, buffers, dims, begin, end, scratch);
  else
    run_attention<PanelAttention<T>, T>(c, buffers, dims, begin, end, scratch);
}

void attention(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
               std::byte* scratch) {
  const auto& c = *static_cast<const AttentionContext*>(context);
  if (c.by_pairs && !reads_few(dims))
    c.by_pairs(context, buffers, dims, begin, end, scratch);
  else if (c.qkv == DType::f64)
    attention_of<double>(c, buffers, dims, begin, end, scratch);
  else
    attention_of<float>(c, buffers, dims, begin, end, scratch);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
