#pragma once
// One or two rows times quantised weights, which are widened in registers: the cost is reading them
// once. The scale of a group multiplies the group's sums.

#include "backend/cpu/kernels/simd/quantised_operands.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr int kRowColumns = kVectorBytes == 64 ? 4 : 2;  // columns at once
static_assert(kRowColumns <= kQuantisedWidened);

// Each of the following adds the products of `step` weights at q with R rows to sums[R].

template <class Q, int kVectors, bool kCentred>
struct ByteSteps {
  using Element = float;
  static constexpr i64 step = kVectors * kLanes<float>;
  static constexpr i64 step_bytes = step;
  static constexpr int groups = 1;  // in a step
  std::int32_t zero;

  template <int R>
  GEX_INLINE void add(Vec<float> (&sums)[R], Bytes q, const float* a, i64 stride) const {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const i64 k = v * kLanes<float>;
      VecI32 numbers = load_bytes(reinterpret_cast<const Q*>(q) + k);
      if constexpr (kCentred) numbers -= zero;
      const Vec<float> w = to_float(numbers);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) sums[r] = mul_add(load<float>(a + r * stride + k), w, sums[r]);
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
  HalfBytes halves;

  template <int R>
  GEX_INLINE void add(Vec<float> (&sums)[R], Bytes q, const float* a, i64 stride) const {
    constexpr i64 lanes = kLanes<float>;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vec<float> first, second;
      halves.numbers(q + v * lanes, first, second);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        const float* left = a + r * stride + 2 * v * lanes;
        sums[r] = mul_add(load<float>(left), first, sums[r]);
        sums[r] = mul_add(load<float>(left + lanes), second, sums[r]);
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
  template <int R>
  GEX_INLINE void add(Vec<float> (&sums)[R], Bytes q, const BF16* a, i64 stride) const {
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

// Rows in the order of the steps, and the sums that groups begin with: [row][group][lanes].
template <class Steps>
void prepare_pairs(const QuantisedOperands& o, const Steps& steps, i64 row, i64 height) {
  const i64* strides = o.dims + quantised_dims::a_strides;
  auto* to = reinterpret_cast<BF16*>(o.space.left);
  auto* starts = reinterpret_cast<float*>(o.space.weights);
  const i64 group = larger(o.group, Steps::step), groups = ceil_div(o.depth, group);
  constexpr i64 lane_elements = Steps::step / 16;
  for (i64 r = 0; r < height; ++r) {
    const BF16* from = static_cast<const BF16*>(o.buffers[0]) + (row + r) * strides[0];
    float* of_row = starts + r * groups * 16;
    for (i64 i = 0; i < groups * 16; ++i) of_row[i] = 0;
    for (i64 k = 0; k < o.depth; ++k) {
      const BF16 value = from[k * strides[1]];
      to[r * o.padded + Steps::place(k)] = value;
      of_row[k / group * 16 + k % Steps::step / lane_elements] -= steps.excess * widen(value);
    }
  }
}

template <class Steps>
constexpr bool kHasStarts = false;
template <int kBits, int kGroups>
constexpr bool kHasStarts<PairSteps<kBits, kGroups>> = true;

#else

template <class Steps>
constexpr bool kHasStarts = false;

#endif

// The sums of C adjacent columns with R rows.
template <int R, int C, class Steps>
void few_rows_block(const QuantisedOperands& o, const Steps& steps, i64 n, i64 row_sums,
                    float* sums) {
  const auto* a = reinterpret_cast<const typename Steps::Element*>(o.space.left);
  const i64 scales_stride = round_up(o.groups, kQuantisedBlock);
  const i64 q_stride = o.dims[quantised_dims::q_strides];
  Bytes q = o.column(n);
  for (int c = 0; c < C; ++c) o.read_scales(o.space.scales + c * scales_stride, n + c);
  const i64 group_steps = larger(o.group / Steps::step, i64{1});
  const i64 ahead = C * q_stride * ceil_div(kFetchBytes, larger(C * q_stride, i64{1}));
  const i64 starts = ceil_div(o.groups, i64{Steps::groups});
  const float* start = reinterpret_cast<const float*>(o.space.weights);
  Vec<float> totals[C][R] = {};
  i64 k = 0;
  for (i64 g = 0; g < o.groups; g += Steps::groups) {
    Vec<float> parts[C][R] = {};
    if constexpr (kHasStarts<Steps>) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) parts[c][r] = load<float>(start + r * starts * 16);
      start += 16;
    }
    // The last group may be shorter.
    const i64 end = smaller(k + group_steps * Steps::step, o.depth);
    for (; k < end; k += Steps::step) {
      const i64 byte = k / Steps::step * Steps::step_bytes;
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        steps.template add<R>(parts[c], q + c * q_stride + byte, a + k, o.padded);
        fetch(q + ahead + c * q_stride + byte);
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Vec<float> scale = Steps::scale_of(o.space.scales + c * scales_stride + g);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) totals[c][r] = mul_add(parts[c][r], scale, totals[c][r]);
    }
  }
  float each[C * R];
  sum_lanes_of_each<float, C * R>(&totals[0][0], each);
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r) sums[r * row_sums + c] = each[c * R + r];
}

// Adds what the offsets of columns contribute: times the sums of the groups of a row.
inline void add_offsets(const QuantisedOperands& o, i64 rows, i64 column, i64 width) {
  for (i64 c = 0; c < width; ++c)
    for (i64 g = 0; g < o.groups; ++g) {
      const float offset = o.offset_at(column + c, g);
      for (i64 r = 0; r < rows; ++r)
        o.space.sums[r * kQuantisedColumns + c] += offset * o.space.group_sums[r * o.groups + g];
    }
}

template <class Steps>
void few_rows_by(QuantisedOperands& o, const Steps& steps, i64 height, i64 column, i64 width) {
  i64 c = 0;
  const auto blocks = [&](auto one_row, auto two_rows, i64 at_once) __attribute__((always_inline)) {
    for (; c + at_once <= width; c += at_once)
      (height == 1 ? one_row : two_rows)(o, steps, column + c, kQuantisedColumns, o.space.sums + c);
  };
  blocks(&few_rows_block<1, kRowColumns, Steps>, &few_rows_block<2, kRowColumns, Steps>,
         kRowColumns);
  blocks(&few_rows_block<1, 1, Steps>, &few_rows_block<2, 1, Steps>, 1);
}

// Weights of one k are adjacent: all columns of the unit at once.
template <class Q, int R>
void few_rows_along_columns(const QuantisedOperands& o, i64 column, i64 width) {
  constexpr i64 lanes = kLanes<float>, vectors = kQuantisedColumns / lanes;
  const auto* a = reinterpret_cast<const float*>(o.space.left);
  const i64 k_stride = o.dims[quantised_dims::q_strides + 1];
  const Q* q = reinterpret_cast<const Q*>(o.column(column));
  const auto zero = static_cast<std::int32_t>(o.context.zero);
  const i64 ahead = 16 * k_stride;
  for (i64 g = 0; g < o.groups; ++g) {
    Vec<float> parts[R][vectors] = {};
    for (i64 k = g * o.group; k < smaller((g + 1) * o.group, o.depth); ++k) {
      const Q* line = q + k * k_stride;
      Q staged[kQuantisedColumns] = {};
      fetch(line + ahead);
      if (width < kQuantisedColumns) {
        for (i64 c = 0; c < width; ++c) staged[c] = line[c];
        line = staged;
      }
#pragma GCC unroll 16
      for (i64 v = 0; v < vectors; ++v) {
        const Vec<float> w = to_float(load_bytes(line + v * lanes) - zero);
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r)
          parts[r][v] = mul_add(splat(a[r * o.padded + k]), w, parts[r][v]);
      }
    }
    for (i64 c = 0; c < width; ++c) {
      const float scale = o.scale_at(column + c, g);
      for (int r = 0; r < R; ++r) {
        float& sum = o.space.sums[r * kQuantisedColumns + c];
        sum = (g == 0 ? 0 : sum) + parts[r][c / lanes][c % lanes] * scale;
      }
    }
  }
}

// The sums of a unit by one of the functions above; false if none of them fits the sizes.
struct FewRows {
  QuantisedOperands& o;
  i64 row, height, column, width;
  bool first;  // the rows of A have to be prepared

  bool run() {
    const QuantisedContext& c = o.context;
    if (o.dims[quantised_dims::m] > kQuantisedFewRows || c.any_rows || o.depth == 0) return false;
    const bool done = c.bits == 4   ? half_bytes()
                      : c.is_signed ? bytes<std::int8_t>()
                                    : bytes<std::uint8_t>();
    if (done && c.has_offset) add_offsets(o, height, column, width);
    return done;
  }

 private:
  // Groups and rows consist of whole steps.
  bool fits(i64 step) const { return o.group % step == 0 && o.depth % step == 0; }

  template <class Q>
  bool bytes() {
    const auto zero = static_cast<std::int32_t>(o.context.zero);
    if (!o.along_depth()) {
      prepare<float>();
      (height == 1 ? few_rows_along_columns<Q, 1> : few_rows_along_columns<Q, 2>)(o, column, width);
      return true;
    }
#if defined(__AVX512BF16__)
    if (by_pairs<8>()) return true;
#endif
    if (zero == 0) return by(ByteSteps<Q, 4, false>{0}) || by(ByteSteps<Q, 1, false>{0});
    return by(ByteSteps<Q, 4, true>{zero}) || by(ByteSteps<Q, 1, true>{zero});
  }
  bool half_bytes() {
#if defined(__AVX512BF16__)
    if (by_pairs<4>()) return true;
#endif
    return by(HalfByteSteps<2>{o.halves}) || by(HalfByteSteps<1>{o.halves});
  }
#if defined(__AVX512BF16__)
  template <int kBits>
  bool by_pairs() {
    constexpr i64 step = PairSteps<kBits, 1>::step;
    if (o.context.a != DType::bf16 || o.depth % step != 0) return false;
    if (o.group % step == 0) return by_pairs_of<PairSteps<kBits, 1>>();
    if (o.group * 2 == step) return by_pairs_of<PairSteps<kBits, 2>>();
    if (o.group * 4 == step) return by_pairs_of<PairSteps<kBits, 4>>();
    return false;
  }
  template <class Steps>
  bool by_pairs_of() {
    const Steps steps(o.context.zero, o.context.is_signed);
    if (first) {
      prepare_pairs(o, steps, row, height);
      sum_groups();
    }
    few_rows_by(o, steps, height, column, width);
    return true;
  }
#endif
  template <class Steps>
  bool by(const Steps& steps) {
    if (!fits(Steps::step)) return false;
    prepare<typename Steps::Element>();
    few_rows_by(o, steps, height, column, width);
    return true;
  }

  template <class E>
  void prepare() {
    if (!first) return;
    o.prepare<E>(reinterpret_cast<E*>(o.space.left), row, height);
    sum_groups();
  }
  void sum_groups() const {
    if (!o.context.has_offset) return;
    const i64* strides = o.dims + quantised_dims::a_strides;
    with_storage<float>(o.context.a, o.buffers[0], [&](auto* data) {
      for (i64 r = 0; r < height; ++r)
        for (i64 g = 0; g < o.groups; ++g) {
          float sum = 0;
          for (i64 k = g * o.group; k < smaller((g + 1) * o.group, o.depth); ++k)
            sum += widen(data[(row + r) * strides[0] + k * strides[1]]);
          o.space.group_sums[r * o.groups + g] = sum;
        }
    });
  }
};

inline bool few_rows(QuantisedOperands& operands, i64 row, i64 height, i64 column, i64 width,
                     bool first) {
  return FewRows{operands, row, height, column, width, first}.run();
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
