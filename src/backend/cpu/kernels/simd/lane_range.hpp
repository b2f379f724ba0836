#pragma once
// Vectors with only some lanes in memory: parts of an image's rows at its border. And vectors of
// half the width, for short rows.

#include "backend/cpu/kernels/simd/vec.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// A vector of kBytes: those of the variant, or half of them if `has_half`.
template <class T, int kBytes>
struct RowVec {
  static constexpr int lanes = kBytes / static_cast<int>(sizeof(T));
  using Lane = typename ShuffleIndex<T>::Int;
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
  typedef Lane Index __attribute__((vector_size(kBytes)));

  static GEX_INLINE type splat(T value) { return value - type{}; }
  static GEX_INLINE void store(T* p, type value) { *reinterpret_cast<unaligned*>(p) = value; }
  static GEX_INLINE Index numbers() {
    Index v{};
    for (int i = 0; i < lanes; ++i) v[i] = i;
    return v;
  }
};

#if defined(__AVX512F__)
template <class T>
constexpr bool has_half = sizeof(T) == 4;

using HalfVec = RowVec<float, 32>::type;
GEX_INLINE HalfVec mul_add(HalfVec a, HalfVec b, HalfVec c) { return _mm256_fmadd_ps(a, b, c); }
GEX_INLINE HalfVec widen_half(const F16*, __m128i bits) { return _mm256_cvtph_ps(bits); }
GEX_INLINE HalfVec widen_half(const BF16*, __m128i bits) {
  return reinterpret_cast<HalfVec>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
GEX_INLINE Vec<float> widen_whole(const F16*, __m256i bits) {
  return widen_f16(reinterpret_cast<VecU16Half>(bits));
}
GEX_INLINE Vec<float> widen_whole(const BF16*, __m256i bits) {
  return widen_bf16(reinterpret_cast<VecU16Half>(bits));
}
#else
template <class T>
constexpr bool has_half = false;
#endif

// Lanes [first, last) of a vector; both may be beyond its end.
template <class T, int kBytes>
class LaneRange {
  using V = RowVec<T, kBytes>;
  static constexpr i64 lanes = V::lanes;

 public:
  LaneRange() = default;
  GEX_INLINE LaneRange(i64 first, i64 last)
      : first_(larger(i64{0}, smaller(first, lanes))),
        last_(larger(first_, smaller(last, lanes))),
#if defined(__AVX512F__)
        mask_(static_cast<__mmask16>((1u << last_) - (1u << first_))) {
  }
#else
        mask_((V::numbers() >= static_cast<typename V::Lane>(first_)) &
              (V::numbers() < static_cast<typename V::Lane>(last_))) {
  }
#endif

  // The other lanes are zero, and their memory is not accessed.
  template <class S>
  GEX_INLINE typename V::type load(const S* p) const {
#if defined(__AVX512F__)
    const auto few = static_cast<__mmask8>(mask_);
    if constexpr (sizeof(S) == 8)
      return _mm512_maskz_loadu_pd(few, p);
    else if constexpr (sizeof(S) == 4 && kBytes == 64)
      return _mm512_maskz_loadu_ps(mask_, p);
    else if constexpr (sizeof(S) == 4)
      return _mm256_maskz_loadu_ps(few, p);
    else if constexpr (kBytes == 64)
      return widen_whole(p, _mm256_maskz_loadu_epi16(mask_, p));
    else
      return widen_half(p, _mm_maskz_loadu_epi16(few, p));
#else
#if defined(__AVX2__)
    if constexpr (sizeof(S) == 8)
      return _mm256_maskload_pd(p, reinterpret_cast<__m256i>(mask_));
    else if constexpr (sizeof(S) == 4)
      return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask_));
#endif
    if (first_ == 0 && last_ == lanes) return GEX_VARIANT::load<T>(p);
    alignas(kBytes) S some[lanes] = {};
    for (i64 i = first_; i < last_; ++i) some[i] = p[i];
    return GEX_VARIANT::load<T>(some);
#endif
  }

 private:
  i64 first_ = 0, last_ = 0;
#if defined(__AVX512F__)
  __mmask16 mask_ = 0;
#else
  typename V::Index mask_ = {};
#endif
};

// What K taps, one column apart, read from a row for pixels kStep apart. Elements [first, last) of
// the row are in memory, counted from the element that the first tap reads for the first pixel.
template <class T, int K, int kStep, int kBytes>
class TapColumns {
  static_assert(kStep == 1 || kStep == 2);
  using V = RowVec<T, kBytes>;
  static constexpr i64 lanes = V::lanes;
  static constexpr int kLoads = kStep == 1 ? K : (K + 1) / 2 * 2;

  LaneRange<T, kBytes> ranges_[kLoads];

 public:
  TapColumns() = default;
  // For `pixels` pixels; the other lanes are zero.
  GEX_INLINE TapColumns(i64 first, i64 last, i64 pixels) {
    if constexpr (kStep == 1) {
      for (int k = 0; k < K; ++k) ranges_[k] = {first - k, smaller(last - k, pixels)};
    } else {
      // Two taps share the even and the odd elements of a pair of vectors.
      for (int k = 0; k < kLoads; k += 2) {
        const i64 end = smaller(last - k, 2 * pixels);
        ranges_[k] = {first - k, end};
        ranges_[k + 1] = {first - k - lanes, end - lanes};
      }
    }
  }

  // taps[k][i] = row[k + i*kStep]
  template <class S>
  GEX_INLINE void load(const S* row, typename V::type (&taps)[K]) const {
    if constexpr (kStep == 1) {
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) taps[k] = ranges_[k].load(row + k);
    } else {
#pragma GCC unroll 8
      for (int k = 0; k < K; k += 2) {
        const auto low = ranges_[k].load(row + k), high = ranges_[k + 1].load(row + k + lanes);
        taps[k] = __builtin_shuffle(low, high, V::numbers() * 2);
        if (k + 1 < K) taps[k + 1] = __builtin_shuffle(low, high, V::numbers() * 2 + 1);
      }
    }
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
