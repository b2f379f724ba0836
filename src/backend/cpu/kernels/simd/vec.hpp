#pragma once
// Vectors of this variant's width, and loads that widen any float storage to them.
//
// Every file of this folder is compiled once per variant with different machine flags. Everything
// is in an unnamed namespace inside the variant's namespace, and nothing here instantiates
// templates of the standard library: otherwise the linker could use a weak symbol compiled for
// AVX-512 for the rest of the program.

#ifndef GEX_VARIANT
#error "included only by variant_*.cpp, which define GEX_VARIANT"
#endif

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "backend/cpu/kernels/tiles.hpp"
#include "base/half.hpp"

#define GEX_INLINE inline __attribute__((always_inline))
// For what many functions call but none often: one copy of its code.
#define GEX_NOINLINE __attribute__((noinline))

namespace gex::kernels::GEX_VARIANT {
namespace {

using i64 = std::int64_t;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kMicroRows = 12;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kMicroRows = 6;
#else
constexpr int kVectorBytes = 16;
constexpr int kMicroRows = 6;
#endif
// Vectors of each row that a kernel of few rows computes at a time: with only two, each addition
// would wait for the one before.
constexpr int kFewMicroRows = 4;
GEX_INLINE constexpr int vectors_of_rows(int rows) {
  if (kMicroRows == 12) return rows == 1 ? 8 : rows == 2 ? 6 : rows <= kFewMicroRows ? 4 : 2;
  return rows <= 2 ? 4 : rows == 3 ? 3 : 2;
}

// Storage of the two 16-bit float types.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

template <class T, class E = T>
struct VecTraits {
  static constexpr int lanes = kVectorBytes / static_cast<int>(sizeof(T));
  typedef E type __attribute__((vector_size(lanes * sizeof(E))));
  typedef E unaligned
      __attribute__((vector_size(lanes * sizeof(E)), aligned(alignof(E)), may_alias));
};
template <class T>
using Vec = typename VecTraits<T>::type;
template <class T>
constexpr int kLanes = VecTraits<T>::lanes;
template <class T>
constexpr i64 kPanel = kPanelBytes / static_cast<i64>(sizeof(T));

template <class T>
GEX_INLINE constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
GEX_INLINE constexpr T larger(T a, T b) {
  return a < b ? b : a;
}
GEX_INLINE constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
GEX_INLINE constexpr i64 round_up(i64 a, i64 b) { return ceil_div(a, b) * b; }

// Prefetches into the second-level cache: it keeps far more requests in flight than the first,
// which doubles the bandwidth.
GEX_INLINE void fetch(const void* p) { __builtin_prefetch(p, 0, 2); }
constexpr i64 kFetchBytes = 16 << 10;  // a good prefetch distance

template <class T>
GEX_INLINE Vec<T> splat(T value) {
  return value - Vec<T>{};
}

// a*b + c, rounded once if the variant has such an instruction. Explicit, because whether the
// compiler fuses depends on the surrounding code, and results must not.
GEX_INLINE Vec<float> mul_add(Vec<float> a, Vec<float> b, Vec<float> c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
GEX_INLINE Vec<double> mul_add(Vec<double> a, Vec<double> b, Vec<double> c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}

using VecU32 = VecTraits<float, std::uint32_t>::type;
using VecU16Half = VecTraits<float, std::uint16_t>::type;  // one 16-bit value for each f32 lane

// Integer form of f16 -> f32: a multiplication adjusts the exponent, so subnormals are exact.
GEX_INLINE Vec<float> widen_f16(VecU16Half half) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec<float>>(
      _mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(half)));
#elif defined(__F16C__)
  return reinterpret_cast<Vec<float>>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(half)));
#else
  const VecU32 wide = __builtin_convertvector(half, VecU32);
  const VecU32 magnitude = (wide & 0x7fffu) << 13;
  const Vec<float> scaled = reinterpret_cast<Vec<float>>(magnitude) * 0x1p112f;
  const VecU32 special = reinterpret_cast<VecU32>(magnitude >= (0x7c00u << 13));
  const VecU32 finite = reinterpret_cast<VecU32>(scaled);
  const VecU32 bits = (special & (magnitude | 0x7f800000u)) | (~special & finite);
  return reinterpret_cast<Vec<float>>(bits | ((wide & 0x8000u) << 16));
#endif
}

GEX_INLINE Vec<float> widen_bf16(VecU16Half half) {
  return reinterpret_cast<Vec<float>>(__builtin_convertvector(half, VecU32) << 16);
}

template <class T>
GEX_INLINE Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename VecTraits<T>::unaligned*>(p);
}
template <class T>
GEX_INLINE Vec<float> load(const F16* p) {
  return widen_f16(*reinterpret_cast<const VecTraits<float, std::uint16_t>::unaligned*>(p));
}
template <class T>
GEX_INLINE Vec<float> load(const BF16* p) {
  return widen_bf16(*reinterpret_cast<const VecTraits<float, std::uint16_t>::unaligned*>(p));
}

template <class T>
GEX_INLINE void store(T* p, Vec<T> value) {
  *reinterpret_cast<typename VecTraits<T>::unaligned*>(p) = value;
}

// Rounded to nearest even, bit for bit as base/half.hpp does.
GEX_INLINE void store_narrow(BF16* p, Vec<float> value) {
  const VecU32 bits = reinterpret_cast<VecU32>(value);
  const VecU32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const VecU32 nan = (bits >> 16) | 0x40u;
  const VecU32 result = (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
  *reinterpret_cast<VecTraits<float, std::uint16_t>::unaligned*>(p) =
      __builtin_convertvector(result, VecU16Half);
}
GEX_INLINE void store_narrow(F16* p, Vec<float> value) {
#if defined(__AVX512F__)
  const auto half =
      _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(value), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
#elif defined(__F16C__)
  const auto half = _mm256_cvtps_ph(reinterpret_cast<__m256>(value), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half);
#else
  for (int i = 0; i < kLanes<float>; ++i) p[i].bits = f32_to_f16(value[i]);
#endif
}
template <class T>
GEX_INLINE void store_narrow(T* p, Vec<T> value) {
  store(p, value);
}

// The first `count` lanes; the others are zero and their memory is not accessed.
template <class T, class S>
GEX_INLINE Vec<T> load_part(const S* p, i64 count) {
  alignas(kVectorBytes) S lanes[kLanes<T>] = {};
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  if constexpr (sizeof(S) == 8)
    _mm512_store_pd(lanes, _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p));
  else if constexpr (sizeof(S) == 4)
    _mm512_store_ps(lanes, _mm512_maskz_loadu_ps(mask, p));
  else
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_maskz_loadu_epi16(mask, p));
#elif defined(__AVX2__)
  typedef std::int32_t Numbers __attribute__((vector_size(32)));
  typedef long long LongNumbers __attribute__((vector_size(32)));
  if constexpr (sizeof(S) == 8) {
    const LongNumbers mask = LongNumbers{0, 1, 2, 3} < count;
    _mm256_store_pd(lanes, _mm256_maskload_pd(p, reinterpret_cast<__m256i>(mask)));
  } else if constexpr (sizeof(S) == 4) {
    const Numbers mask = Numbers{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<std::int32_t>(count);
    _mm256_store_ps(lanes, _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask)));
  } else {
    for (i64 i = 0; i < count; ++i) lanes[i] = p[i];
  }
#else
  for (i64 i = 0; i < count; ++i) lanes[i] = p[i];
#endif
  return load<T>(lanes);
}
template <class T>
GEX_INLINE void store_part(T* p, Vec<T> value, i64 count) {
  for (i64 i = 0; i < count; ++i) p[i] = value[i];
}

template <class T>
GEX_INLINE T widen(T value) {
  return value;
}
GEX_INLINE float widen(F16 value) { return f16_to_f32(value.bits); }
GEX_INLINE float widen(BF16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

template <class T>
GEX_INLINE void narrow(T value, T* out) {
  *out = value;
}
GEX_INLINE void narrow(float value, F16* out) { out->bits = f32_to_f16(value); }
GEX_INLINE void narrow(float value, BF16* out) { out->bits = f32_to_bf16(value); }
GEX_INLINE void narrow(double value, float* out) { *out = static_cast<float>(value); }

// A vector of lane numbers, the base of shuffle masks.
template <class I>
struct LaneNumbers {
  typedef I type __attribute__((vector_size(kVectorBytes)));
  static constexpr int lanes = kVectorBytes / static_cast<int>(sizeof(I));
  static GEX_INLINE constexpr type make() {
    type v{};
    for (int i = 0; i < lanes; ++i) v[i] = i;
    return v;
  }
};
template <class T>
struct ShuffleIndex;
template <>
struct ShuffleIndex<float> {
  using Int = std::int32_t;
};
template <>
struct ShuffleIndex<double> {
  using Int = std::int64_t;
};
template <class T>
using VecIndex = typename LaneNumbers<typename ShuffleIndex<T>::Int>::type;

template <class T>
GEX_INLINE VecIndex<T> lane_numbers() {
  return LaneNumbers<typename ShuffleIndex<T>::Int>::make();
}

// Lane numbers into the pair (a, b) that pick, from every block of 2*d lanes, the lower halves of a
// and b side by side, or the upper halves.
template <class T>
GEX_INLINE VecIndex<T> lower_halves(int d) {
  const VecIndex<T> lane = lane_numbers<T>(), from_b = (lane & d) != 0;
  return (~from_b & lane) | (from_b & (lane - d + kLanes<T>));
}
template <class T>
GEX_INLINE VecIndex<T> upper_halves(int d) {
  const VecIndex<T> lane = lane_numbers<T>(), from_b = (lane & d) != 0;
  return (~from_b & (lane + d)) | (from_b & (lane + kLanes<T>));
}

template <class T>
GEX_INLINE T sum_of_lanes(Vec<T> v) {
#pragma GCC unroll 8
  for (int width = kLanes<T> / 2; width > 0; width /= 2)
    v += __builtin_shuffle(v, lane_numbers<T>() ^ width);
  return v[0];
}

// out[i] = sum_of_lanes(v[i]), with the same order of additions: halves of two vectors are added at
// once until one vector holds all sums. Overwrites v.
template <class T, int N>
GEX_INLINE void sum_lanes_of_each(Vec<T>* v, T* out) {
  constexpr int lanes = kLanes<T>;
  constexpr int count = N >= lanes ? lanes : N >= 8 ? 8 : N >= 4 ? 4 : N >= 2 ? 2 : 1;
  int width = lanes / 2;
#pragma GCC unroll 8
  for (int half = count / 2; half > 0; half /= 2, width /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i)
      v[i] = __builtin_shuffle(v[i], v[i + half], lower_halves<T>(width)) +
             __builtin_shuffle(v[i], v[i + half], upper_halves<T>(width));
  }
#pragma GCC unroll 8
  for (; width > 0; width /= 2) v[0] += __builtin_shuffle(v[0], lane_numbers<T>() ^ width);
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) out[i] = v[0][i * (lanes / count)];
  if constexpr (N > count) sum_lanes_of_each<T, N - count>(v + count, out + count);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
