#pragma once
// A few rows times quantised weights, which are widened in registers: the cost of one or two rows
// is reading the weights once. The scale of a group multiplies the group's sums.

#include "backend/cpu/kernels/simd/quantised_steps.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr int kRowColumns = kVectorBytes == 64 ? 4 : 2;  // columns at once
static_assert(kRowColumns <= kQuantisedWidened);
// Three and more rows of floats: at most so many at once, and columns. One variant of processors
// with dot products of bf16 has other functions for bf16 and leaves f32 to the others.
constexpr int kRowTile = 4, kRowTileColumns = kRowColumns / 2;
#if defined(__AVX512BF16__)
constexpr bool kSeveralFloats = false;
#else
constexpr bool kSeveralFloats = kVectorBytes >= 32;
#endif

#if defined(__AVX512BF16__)

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

// The sums of C adjacent columns, but for those that are done, with rows [row, row + R).
template <int R, int C, class Steps>
void few_rows_block(const QuantisedOperands& o, const Steps& steps, i64 row, i64 n, float* sums,
                    i64 done) {
  const auto* a = reinterpret_cast<const typename Steps::Element*>(o.space.left) + row * o.padded;
  const i64 scales_stride = round_up(o.groups, kQuantisedBlock);
  const i64 q_stride = o.dims[quantised_dims::q_strides];
  Bytes q[C];
  for (int c = 0; c < C; ++c) {
    o.read_scales(o.space.scales + c * scales_stride, n + c);
    q[c] = o.column(n + c);
    keep_in_register(q[c]);
  }
  const i64 group_steps = larger(o.group / Steps::step, i64{1});
  const i64 ahead = C * q_stride * ceil_div(kFetchBytes, larger(C * q_stride, i64{1}));
  const i64 starts = ceil_div(o.groups, i64{Steps::groups});
  const float* start = reinterpret_cast<const float*>(o.space.weights);
  Vec<float> totals[C][R] = {};
  i64 steps_left = o.depth / Steps::step, byte = 0;
  for (i64 g = 0; g < o.groups; g += Steps::groups) {
    constexpr int chains = Steps::chains(R);
    Vec<float> parts[C][R * chains] = {};
    if constexpr (kHasStarts<Steps>) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) parts[c][r] = load<float>(start + (row + r) * starts * 16);
      start += 16;
    }
    // The last group may be shorter.
    const i64 count = smaller(group_steps, steps_left);
    steps_left -= count;
    for (i64 i = 0; i < count; ++i, byte += Steps::step_bytes, a += Steps::step) {
      keep_in_register(byte);
      i64 later = byte + ahead;
      keep_in_register(later);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) fetch(q[c] + later);
      steps.template add<R, C>(parts, q, byte, a, o.padded);
    }
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Vec<float> scale = Steps::scale_of(o.space.scales + c * scales_stride + g);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        Vec<float> part = parts[c][r];
        if constexpr (chains == 2) part += parts[c][R + r];
        totals[c][r] = mul_add(part, scale, totals[c][r]);
      }
    }
  }
  float each[C * R];
  sum_lanes_of_each<float, C * R>(&totals[0][0], each);
  for (i64 c = done; c < C; ++c)
    for (int r = 0; r < R; ++r) sums[r * kQuantisedColumns + c] = each[c * R + r];
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

// Tiles of rows times all columns of a unit, `at_once` at a time. The last ones may be computed
// twice: their sums are the same.
template <class Steps, class Block>
void few_rows_tiles(const QuantisedOperands& o, const Steps& steps, i64 height, i64 column,
                    i64 width, Block block, i64 rows, i64 at_once) {
  const i64 last = o.dims[quantised_dims::n] - at_once - column;
  for (i64 c = 0; c < width; c += at_once) {
    const i64 first = smaller(c, last);
    for (i64 i = 0; i < height; i += rows) {
      const i64 row = smaller(i, height - rows);
      block(o, steps, row, column + first, o.space.sums + row * kQuantisedColumns + first,
            c - first);
    }
  }
}

template <class Steps>
void few_rows_by(const QuantisedOperands& o, const Steps& steps, i64 height, i64 column,
                 i64 width) {
  few_rows_tiles(
      o, steps, height, column, width,
      height == 1 ? &few_rows_block<1, kRowColumns, Steps> : &few_rows_block<2, kRowColumns, Steps>,
      height, kRowColumns);
}

// Three and more rows.
template <class Steps>
void several_floats_by(const QuantisedOperands& o, const Steps& steps, i64 height, i64 column,
                       i64 width) {
  const i64 rows = ceil_div(height, ceil_div(height, i64{kRowTile}));
  few_rows_tiles(o, steps, height, column, width,
                 rows == 4 ? &few_rows_block<4, kRowTileColumns, Steps>
                           : &few_rows_block<3, kRowTileColumns, Steps>,
                 rows, kRowTileColumns);
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
    const i64 rows = o.dims[quantised_dims::m];
    if (rows > kQuantisedSeveralRows || c.any_rows || o.depth == 0) return false;
    if (o.dims[quantised_dims::n] < kRowColumns) return false;
    const bool done = rows > kQuantisedFewRows ? several_floats()
                      : c.bits == 4            ? half_bytes()
                      : c.is_signed            ? bytes<std::int8_t>()
                                               : bytes<std::uint8_t>();
    if (done && c.has_offset) add_offsets(o, height, column, width);
    return done;
  }

 private:
  // Groups and rows consist of whole steps.
  bool fits(i64 step) const { return o.group % step == 0 && o.depth % step == 0; }

  bool several_floats() {
    if constexpr (kSeveralFloats) {
      if (o.context.bits == 4) return several_floats_of(HalfByteSteps<1>{o.halves});
      return o.along_depth() &&
             several_floats_of(AnyByteSteps(o.context.is_signed, o.context.zero));
    }
    return false;
  }
  template <class Steps>
  bool several_floats_of(const Steps& steps) {
    if (!fits(Steps::step)) return false;
    prepare<float>();
    several_floats_by(o, steps, height, column, width);
    return true;
  }

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
  GEX_NOINLINE void prepare() {
    if (!first) return;
    o.prepare<E>(reinterpret_cast<E*>(o.space.left), row, height);
    sum_groups();
  }
  GEX_NOINLINE void sum_groups() const {
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
