#pragma once
// Quantised weights as vectors of numbers: bytes, or two elements in a byte. Where a byte has two,
// vectors take the first elements of adjacent bytes, then the second ones; rows of the left operand
// are stored in the same order (`PairOrder`).

#include "backend/cpu/kernels/simd/tile_io.hpp"
#include "problems/quantised_matmul.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

namespace quantised_dims = problems::quantised_dims;
using Bytes = const std::uint8_t*;

// Elements of the left operand that one step of a dot product takes.
template <class E>
constexpr i64 kDotStep = kVectorBytes / static_cast<i64>(sizeof(E));

// Two vectors side by side, rounded if the elements are narrower.
GEX_INLINE void store_two(float* to, Vec<float> first, Vec<float> second) {
  store(to, first);
  store(to + kLanes<float>, second);
}
GEX_INLINE void store_two(BF16* to, Vec<float> first, Vec<float> second) {
#if defined(__AVX512BF16__)
  _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
#else
  store_narrow(to, first);
  store_narrow(to + kLanes<float>, second);
#endif
}

// One vector, rounded likewise.
GEX_INLINE void store_one(float* to, Vec<float> value) { store(to, value); }
GEX_INLINE void store_one(BF16* to, Vec<float> value) {
#if defined(__AVX512BF16__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
#else
  store_narrow(to, value);
#endif
}

using VecI32 = VecTraits<float, std::int32_t>::type;

// By intrinsics where there are any: compilers convert bytes in several steps, or one by one.
GEX_INLINE VecI32 load_bytes(const std::int8_t* q) {
#if defined(__AVX512F__)
  return reinterpret_cast<VecI32>(
      _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(q))));
#elif defined(__AVX2__)
  return reinterpret_cast<VecI32>(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(q))));
#else
  return __builtin_convertvector(
      *reinterpret_cast<const VecTraits<float, std::int8_t>::unaligned*>(q), VecI32);
#endif
}
GEX_INLINE VecI32 load_bytes(const std::uint8_t* q) {
#if defined(__AVX512F__)
  return reinterpret_cast<VecI32>(
      _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(q))));
#elif defined(__AVX2__)
  return reinterpret_cast<VecI32>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(q))));
#else
  return __builtin_convertvector(
      *reinterpret_cast<const VecTraits<float, std::uint8_t>::unaligned*>(q), VecI32);
#endif
}
GEX_INLINE Vec<float> to_float(VecI32 v) { return __builtin_convertvector(v, Vec<float>); }

// The numbers of all halves of a byte, minus the zero point.
struct HalfBytes {
  Vec<float> table;  // with AVX-512: the number of each half; else the zero point

  explicit HalfBytes(i64 zero) {
#if defined(__AVX512F__)
    for (int i = 0; i < 16; ++i) table[i] = static_cast<float>(i - zero);
#else
    table = splat(static_cast<float>(zero));
#endif
  }
  // First and second elements of a vector of bytes.
  GEX_INLINE void numbers(Bytes q, Vec<float>& first, Vec<float>& second) const {
    const VecI32 bytes = load_bytes(q);
#if defined(__AVX512F__)
    const auto index = reinterpret_cast<__m512i>(bytes);
    const auto next = reinterpret_cast<__m512i>(bytes >> 4);
    first = _mm512_maskz_permutexvar_ps(0xffff, index, table);
    second = _mm512_maskz_permutexvar_ps(0xffff, next, table);
#else
    first = to_float(bytes & 15) - table;
    second = to_float(bytes >> 4) - table;
#endif
  }
};

// Places of the elements of a row whose weights are halves of bytes: in each block of two vectors
// those with even numbers, then the others.
template <class E>
struct PairOrder {
  static constexpr i64 block = 2 * kDotStep<E>;
  static GEX_INLINE i64 place(i64 k) {
    const i64 j = k % block;
    return k - j + j % 2 * kDotStep<E> + j / 2;
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
