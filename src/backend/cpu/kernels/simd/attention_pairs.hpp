#pragma once
// Attention of bf16 by dot products of pairs: of neighbouring elements of a head for the scores, of
// neighbouring keys for the sums. Weights are rounded to bf16, as in PyTorch's kernel; their sum
// is that of the weights before.

#include <cstdint>

#include "backend/cpu/kernels/simd/attention_panels.hpp"
#include "backend/cpu/kernels/simd/pair_views.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

struct PairOfBF16;

template <>
struct Products<PairOfBF16> {
  using Word = std::uint32_t;
  using Sum = float;
  using Words = __m512bh;
  static GEX_INLINE Words load_words(const Word* p) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
  static GEX_INLINE Words repeat(Word word) {
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(word)));
  }
  static GEX_INLINE Vec<Sum> add(Words a, Words b, Vec<Sum> sum) {
    return _mm512_dpbf16_ps(sum, a, b);
  }
};

template <>
struct AttentionWords<PairOfBF16> {
  static constexpr i64 kNumbers = 2;

  static void pack_queries(std::uint32_t* dst, const MatrixView& q, i64 query, i64 count,
                           i64 head_size) {
    pack_pairs_of_columns(dst, kPanel<float>, q.transposed(), 0, head_size, query, count);
  }
  static void copy_keys(std::uint32_t* dst, i64 stride, const MatrixView& k, i64 key0, i64 n,
                        i64 head_size) {
    pack_pairs_of_rows(dst, stride, k, key0, n, 0, head_size);
  }
  static void copy_values(std::uint32_t* dst, i64 stride, const MatrixView& v, i64 key0, i64 n,
                          i64 value_size) {
    pack_pairs_of_columns(dst, stride, v, key0, n, 0, value_size);
  }
  static GEX_INLINE void store_weights(std::uint32_t* dst, const Vec<float> (&weights)[kNumbers]) {
    const auto narrow = [](Vec<float> w) __attribute__((always_inline)) {
      return __builtin_convertvector(reinterpret_cast<VecU16Half>(_mm512_cvtneps_pbh(w)), VecU32);
    };
    store_pairs(dst, narrow(weights[0]) | narrow(weights[1]) << 16);
  }
};

void run_attention_by_pairs(const void* context, void* const* buffers, const i64* dims, i64 begin,
                            i64 end, std::byte* scratch) {
  run_attention<PanelAttention<PairOfBF16>, float>(*static_cast<const AttentionContext*>(context),
                                                   buffers, dims, begin, end, scratch);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
