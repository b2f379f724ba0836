#pragma once
// The inner steps of products of a few rows with quantised weights (quantised_rows.hpp).

#include "backend/cpu/kernels/simd/quantised_operands.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// For a value that several instructions read: compilers read or compute it again in each of them,
// and the number of loads and of instructions limits the loops of this file.
GEX_INLINE void keep_in_register(Bytes& p) { asm("" : "+r"(p)); }
GEX_INLINE void keep_in_register(i64& i) { asm("" : "+r"(i)); }
GEX_INLINE void keep_in_register(Vec<float>& v) {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#elif defined(__x86_64__)
  asm("" : "+x"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
}

// Each of the following adds the products of `step` weights of C columns with R rows to sums[C][R].
// With chains(R) > 1 they alternate between that many sums, since each addition waits for the one
// before.

template <class Q, int kVectors, bool kCentred>
struct ByteSteps {
  using Element = float;
  static constexpr i64 step = kVectors * kLanes<float>;
  static constexpr i64 step_bytes = step;
  static constexpr int groups = 1;  // in a step
  static constexpr int chains(int rows) { return rows == 1 && kVectors > 1 ? 2 : 1; }
  std::int32_t zero;

  template <int R, int C>
  GEX_INLINE void add(Vec<float> (&sums)[C][R * chains(R)], const Bytes (&q)[C], i64 byte,
                      const float* a, i64 stride) const {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const i64 k = v * kLanes<float>;
      Vec<float> left[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        left[r] = load<float>(a + r * stride + k);
        keep_in_register(left[r]);
      }
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        VecI32 numbers = load_bytes(reinterpret_cast<const Q*>(q[c] + byte) + k);
        if constexpr (kCentred) numbers -= zero;
        const Vec<float> w = to_float(numbers);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          Vec<float>& sum = sums[c][v % chains(R) * R + r];
          sum = mul_add(left[r], w, sum);
        }
      }
    }
  }
  GEX_INLINE static Vec<float> scale_of(const float* scales) { return splat(*scales); }
};

// Bytes with and without signs for several rows, which hide what flipping them costs.
struct AnyByteSteps {
  using Element = float;
  static constexpr i64 step = kLanes<float>;
  static constexpr i64 step_bytes = step;
  static constexpr int groups = 1;
  static constexpr int chains(int) { return 1; }
  std::int32_t flip, zero;

  AnyByteSteps(bool is_signed, i64 zero_point)
      : flip(is_signed ? 128 : 0), zero(static_cast<std::int32_t>(zero_point) + flip) {}

  template <int R, int C>
  GEX_INLINE void add(Vec<float> (&sums)[C][R], const Bytes (&q)[C], i64 byte, const float* a,
                      i64 stride) const {
    Vec<float> left[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      left[r] = load<float>(a + r * stride);
      keep_in_register(left[r]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Vec<float> w = to_float((load_bytes(q[c] + byte) ^ flip) - zero);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[c][r] = mul_add(left[r], w, sums[c][r]);
    }
  }
  GEX_INLINE static Vec<float> scale_of(const float* scales) { return splat(*scales); }
};

template <int kVectors>
struct HalfByteSteps {
  using Element = float;
  static constexpr i64 step = 2 * kVectors * kLanes<float>;
  static constexpr i64 step_bytes = step / 2;
  static constexpr int groups = 1;
  static constexpr int chains(int rows) { return rows == 1 ? 2 : 1; }
  HalfBytes halves;

  template <int R, int C>
  GEX_INLINE void add(Vec<float> (&sums)[C][R * chains(R)], const Bytes (&q)[C], i64 byte,
                      const float* a, i64 stride) const {
    constexpr i64 lanes = kLanes<float>;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vec<float> left[R][2];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
          left[r][i] = load<float>(a + r * stride + (2 * v + i) * lanes);
          keep_in_register(left[r][i]);
        }
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        Vec<float> first, second;
        halves.numbers(q[c] + byte + v * lanes, first, second);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          Vec<float>&even = sums[c][r], &odd = sums[c][(chains(R) - 1) * R + r];
          even = mul_add(left[r][0], first, even);
          odd = mul_add(left[r][1], second, odd);
        }
      }
    }
  }
  GEX_INLINE static Vec<float> scale_of(const float* scales) { return splat(*scales); }
};

#if defined(__AVX512BF16__)

// Dot products of bf16. Half a byte h becomes 128 + h by setting the other bits of the number, and
// 16 * (128 + h) for the upper half of a byte: `starts` subtracts the surplus. Words of the
// weights have two bytes, so each of their parts is multiplied by every second (bytes) or fourth
// (halves of bytes) element of a row. kGroups: those of a step, if it consists of several.
template <int kBits, int kGroups>
struct PairSteps {
  using Element = BF16;
  static constexpr i64 step_bytes = 64;
  static constexpr i64 step = step_bytes * 8 / kBits;
  static constexpr i64 parts = kBits == 4 ? 4 : 2;  // of the elements of a step
  static constexpr int groups = kGroups;
  static constexpr int chains(int) { return 1; }
  float excess;    // of a number
  int upper_bits;  // set in the upper half of a byte

  PairSteps(i64 zero, bool is_signed)
      : excess(static_cast<float>(zero + (kBits == 4  ? 128
                                          : is_signed ? 2304
                                                      : 2176))),
        upper_bits(kBits == 4  ? 0x4300
                   : is_signed ? 0x4508
                               : 0x4500) {}

  static GEX_INLINE i64 place(i64 k) {
    const i64 j = k % step;
    return k - j + j % parts * (step / parts) + j / parts;
  }
  template <int kShift>
  static GEX_INLINE __m512bh half(__m512i words, int bits) {
    typedef std::uint16_t Words __attribute__((vector_size(64)));
    const auto moved = reinterpret_cast<__m512i>(reinterpret_cast<Words>(words) >> kShift);
    return reinterpret_cast<__m512bh>(_mm512_ternarylogic_epi32(
        moved, _mm512_set1_epi16(15), _mm512_set1_epi16(static_cast<short>(bits)), 0x6a));
  }
  template <int R, int C>
  GEX_INLINE void add(Vec<float> (&sums)[C][R], const Bytes (&q)[C], i64 byte, const BF16* a,
                      i64 stride) const {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) add_column<R>(sums[c], q[c] + byte, a, stride);
  }
  template <int R>
  GEX_INLINE void add_column(Vec<float> (&sums)[R], Bytes q, const BF16* a, i64 stride) const {
    const __m512i words = _mm512_loadu_si512(q);
    const __m512bh weights[4] = {half<0>(words, 0x4300), half<4>(words, upper_bits),
                                 half<8>(words, 0x4300), half<12>(words, upper_bits)};
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      __m512bh left[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        left[i] = reinterpret_cast<__m512bh>(
            _mm512_loadu_si512(a + r * stride + i * parts / 4 * (step / parts)));
      // Two chains: the instruction takes long.
      const __m512 other =
          _mm512_dpbf16_ps(_mm512_dpbf16_ps(__m512{}, left[0], weights[0]), left[2], weights[2]);
      sums[r] =
          _mm512_dpbf16_ps(_mm512_dpbf16_ps(sums[r], left[1], weights[1]), left[3], weights[3]);
      sums[r] += other;
    }
  }
  GEX_INLINE static Vec<float> scale_of(const float* scales) {
    if constexpr (kGroups == 1) return splat(*scales);
    const VecIndex<float> lane_groups = lane_numbers<float>() / (16 / kGroups);
    return _mm512_maskz_permutexvar_ps(
        0xffff, reinterpret_cast<__m512i>(lane_groups),
        _mm512_maskz_loadu_ps(static_cast<__mmask16>((1 << kGroups) - 1), scales));
  }
};

#endif

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
