#pragma once
// Three and more rows of bf16 times quantised weights, for processors with dot products of bf16:
// weights are widened in registers, exactly, and multiplied by all rows. The scales of a step
// multiply its sums.

#if defined(__AVX512BF16__)

#include "backend/cpu/kernels/simd/quantised_operands.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr i64 kSeveralAhead = 8;     // columns: how far ahead weights are prefetched
constexpr i64 kSeveralDepth = 1536;  // at most: a slice of the rows stays in the first-level cache

// Each of the following widens a step of weights to `vectors` operands of dot products.

// `flip`: 0x80 for u8 minus 128, else 0.
struct ByteNumbers {
  static constexpr i64 step = 32, step_bytes = 32;
  static constexpr int vectors = 1, most_rows = 12;
  __m128i flip;

  GEX_INLINE void widen(Bytes q, __m512bh (&to)[vectors]) const {
    const auto half = [&](i64 at) __attribute__((always_inline)) {
      const __m128i bytes =
          _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q + at)), flip);
      return to_float(reinterpret_cast<VecI32>(_mm512_maskz_cvtepi8_epi32(0xffff, bytes)));
    };
    to[0] = _mm512_cvtne2ps_pbh(half(16), half(0));
  }
  // Rows in the order of the weights.
  static void prepare(BF16* to, const BF16* from, i64 stride, i64 depth) {
    for (i64 k = 0; k < depth; ++k) to[k] = from[k * stride];
  }
};

// Words of four halves of bytes: each of the four vectors takes one of them, by a table.
struct HalfNumbers {
  static constexpr i64 step = 128, step_bytes = 64;
  static constexpr int vectors = 4, most_rows = 8;
  __m512i table;  // the numbers, twice: bits above the index are not cleared

  explicit HalfNumbers(i64 zero) {
    BF16 numbers[32];
    for (int i = 0; i < 32; ++i) narrow(static_cast<float>(i % 16 - zero), &numbers[i]);
    table = _mm512_loadu_si512(numbers);
  }
  GEX_INLINE void widen(Bytes q, __m512bh (&to)[vectors]) const {
    typedef std::uint16_t Words __attribute__((vector_size(64)));
    const auto words = reinterpret_cast<Words>(_mm512_loadu_si512(q));
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i)
      to[i] = reinterpret_cast<__m512bh>(_mm512_maskz_permutexvar_epi16(
          ~__mmask32{0}, reinterpret_cast<__m512i>(words >> (4 * i)), table));
  }
  // Of each step the elements with a remainder of 0 by four, then 1, 2, 3.
  static void prepare(BF16* to, const BF16* from, i64 stride, i64 depth) {
    for (i64 k = 0; k < depth; k += step)
      for (i64 i = 0; i < vectors; ++i)
        for (i64 j = 0; j < step / vectors; ++j)
          to[k + i * (step / vectors) + j] = from[(k + j * vectors + i) * stride];
  }
};

// The scales of a step: one for all, or one for each of two or four equal parts of its lanes.
struct StepScales {
  i64 group_steps;  // of one group, at least 1
  i64 groups;       // of one step, at least 1
  __m512i lanes;    // number of each lane's group
  __mmask16 mask;

  StepScales(i64 group, i64 step)
      : group_steps(larger(group / step, i64{1})), groups(larger(step / group, i64{1})) {
    std::int32_t numbers[16];
    for (int i = 0; i < 16; ++i) numbers[i] = static_cast<std::int32_t>(i * groups / 16);
    lanes = _mm512_loadu_si512(numbers);
    mask = static_cast<__mmask16>((1 << groups) - 1);
  }
  GEX_INLINE Vec<float> of(const float* scales) const {
    return _mm512_maskz_permutexvar_ps(0xffff, lanes, _mm512_maskz_loadu_ps(mask, scales));
  }
};

// A slice of depth of some rows, and of the weights of adjacent columns.
struct SeveralRowsBlock {
  const BF16* a;
  i64 a_stride;
  Bytes q;
  i64 q_stride;
  i64 depth;            // whole steps
  const float* scales;  // of the slice's first step, or null
  i64 scales_stride;
  i64 steps_before;  // steps of the first group that other slices have
  bool accumulate;
};

template <int R, int C, bool kScaled, class Numbers>
void several_rows_block(const SeveralRowsBlock& b, const Numbers& numbers, const StepScales& scales,
                        float* sums) {
  constexpr i64 lane_count = Numbers::step / Numbers::vectors;
  Vec<float> totals[C][R] = {};
  const float* scale = b.scales;
  i64 in_group = b.steps_before;
  for (i64 k = 0; k < b.depth; k += Numbers::step) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      Bytes q = b.q + c * b.q_stride + k / Numbers::step * Numbers::step_bytes;
      fetch(q + kSeveralAhead * b.q_stride);
      __m512bh weights[Numbers::vectors];
      numbers.widen(q, weights);
      Vec<float> factor = {};
      if constexpr (kScaled) factor = scales.of(scale + c * b.scales_stride);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        Vec<float> part = kScaled ? Vec<float>{} : totals[c][r];
#pragma GCC unroll 4
        for (int i = 0; i < Numbers::vectors; ++i)
          part = _mm512_dpbf16_ps(part,
                                  reinterpret_cast<__m512bh>(_mm512_loadu_si512(
                                      b.a + r * b.a_stride + k + i * lane_count)),
                                  weights[i]);
        totals[c][r] = kScaled ? mul_add(part, factor, totals[c][r]) : part;
      }
    }
    if (kScaled && ++in_group == scales.group_steps) {
      in_group = 0;
      scale += scales.groups;
    }
  }
  float each[C * R];
  sum_lanes_of_each<float, C * R>(&totals[0][0], each);
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r) {
      float* out = sums + r * kQuantisedColumns + c;
      *out = b.accumulate ? *out + each[c * R + r] : each[c * R + r];
    }
}

template <class Numbers>
struct SeveralRows {
  using Block = void (*)(const SeveralRowsBlock&, const Numbers&, const StepScales&, float*);

  const QuantisedOperands& o;
  Numbers numbers;
  StepScales scales;
  bool scaled;

  SeveralRows(const QuantisedOperands& operands, const Numbers& n)
      : o(operands),
        numbers(n),
        scales(operands.group, Numbers::step),
        scaled(operands.context.has_scale && !operands.scales_last()) {}

  // Another line of cache than the rows' own, so that rows fall into different sets.
  i64 stride() const { return o.padded + 32; }
  BF16* rows() const { return reinterpret_cast<BF16*>(o.space.left); }

  void prepare(i64 row, i64 height) const {
    const i64* strides = o.dims + quantised_dims::a_strides;
    for (i64 r = 0; r < height; ++r)
      Numbers::prepare(rows() + r * stride(),
                       static_cast<const BF16*>(o.buffers[0]) + (row + r) * strides[0], strides[1],
                       o.depth);
  }

  template <int C, int... R>
  Block block_of(i64 count) const {
    static constexpr Block plain[] = {&several_rows_block<R, C, false, Numbers>...};
    static constexpr Block with_scales[] = {&several_rows_block<R, C, true, Numbers>...};
    return scaled ? with_scales[count - 1] : plain[count - 1];
  }
  // For this many rows, and the number of columns at once.
  Block block_for(i64 count, i64 width, i64& at_once) const {
    at_once = count <= 4 && width >= 2 ? 2 : 1;
    if (at_once == 2) return block_of<2, 1, 2, 3, 4>(count);
    if constexpr (Numbers::most_rows == 8)
      return block_of<1, 1, 2, 3, 4, 5, 6, 7, 8>(count);
    else
      return block_of<1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>(count);
  }

  void multiply(i64 height, i64 column, i64 width) const {
    const i64 slices = ceil_div(o.depth, kSeveralDepth);
    const i64 slice = round_up(ceil_div(o.depth, slices), Numbers::step);
    for (i64 k = 0; k < o.depth; k += slice)
      multiply_slice(height, k, smaller(slice, o.depth - k), column, width);
  }

  void multiply_slice(i64 height, i64 k, i64 depth, i64 column, i64 width) const {
    const i64 scales_stride = round_up(o.groups, kQuantisedBlock);
    const i64 step = k / Numbers::step;
    i64 at_once = 1;
    for (i64 c = 0; c < width; c += at_once) {
      const Block block = block_for(height, width - c, at_once);
      if (scaled)
        for (i64 i = 0; i < at_once; ++i)
          o.read_scales(o.space.scales + i * scales_stride, column + c + i);
      const float* first_scale = o.space.scales + step / scales.group_steps * scales.groups;
      block({rows() + k, stride(), o.column(column + c) + step * Numbers::step_bytes,
             o.dims[quantised_dims::q_strides], depth, first_scale, scales_stride,
             step % scales.group_steps, k > 0},
            numbers, scales, o.space.sums + c);
    }
  }

  void run(i64 row, i64 height, i64 column, i64 width, bool first) const {
    if (first) prepare(row, height);
    multiply(height, column, width);
    if (o.scales_last()) o.scale_sums(height, column, width);
  }
};

// The sums of a unit; false if other functions have to compute them.
inline bool several_rows(const QuantisedOperands& o, i64 row, i64 height, i64 column, i64 width,
                         bool first) {
  const QuantisedContext& c = o.context;
  const i64 most = c.bits == 4 ? HalfNumbers::most_rows : ByteNumbers::most_rows;
  if (o.dims[quantised_dims::m] > most || c.any_rows) return false;
  if (c.a != DType::bf16 || c.has_offset || o.depth == 0) return false;
  const auto fits = [&](i64 step, i64 most_groups) {
    return o.depth % step == 0 && (o.groups == 1 || o.group % step == 0 ||
                                   (step % o.group == 0 && step / o.group <= most_groups));
  };
  if (c.bits == 4) {
    const bool exact = c.zero >= 15 - 256 && c.zero <= 256;  // in bf16
    if (!exact || !fits(HalfNumbers::step, 4)) return false;
    SeveralRows<HalfNumbers>(o, HalfNumbers(c.zero)).run(row, height, column, width, first);
    return true;
  }
  if (!o.along_depth() || c.zero != (c.is_signed ? 0 : 128) || !fits(ByteNumbers::step, 1))
    return false;
  const ByteNumbers numbers{_mm_set1_epi8(c.is_signed ? 0 : -128)};
  SeveralRows<ByteNumbers>(o, numbers).run(row, height, column, width, first);
  return true;
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT

#endif
