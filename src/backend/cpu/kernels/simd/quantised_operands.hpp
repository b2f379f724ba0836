#pragma once
// The operands of one launch of a matmul with quantised weights, and the memory of a worker.

#include "backend/cpu/kernels/quantised_tiles.hpp"
#include "backend/cpu/kernels/simd/quantised_weights.hpp"
#include "problems/quantised_matmul.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Memory of a worker; quantised_scratch_bytes is its size.
struct QuantisedSpace {
  std::byte* left;     // rows of A
  std::byte* weights;  // widened columns, or what sums begin with
  float* sums;         // [rows][kQuantisedColumns]
  float* scales;       // of kQuantisedWidened columns, likewise the offsets
  float* offsets;
  float* group_sums;  // of kQuantisedSeveralRows rows of A
  std::byte* rest;

  QuantisedSpace(std::byte* scratch, i64 rows, i64 padded, i64 groups) {
    const auto take = [&](i64 floats) {
      std::byte* here = scratch;
      scratch += floats * static_cast<i64>(sizeof(float));
      return here;
    };
    left = take(rows * padded);
    weights = take(larger(kQuantisedWidened * padded, kQuantisedStaged));
    sums = reinterpret_cast<float*>(take(kQuantisedRows * kQuantisedColumns));
    scales = reinterpret_cast<float*>(take(kQuantisedWidened * groups));
    offsets = reinterpret_cast<float*>(take(kQuantisedWidened * groups));
    group_sums = reinterpret_cast<float*>(take(kQuantisedSeveralRows * groups));
    rest = scratch;
  }
};

struct QuantisedOperands {
  const QuantisedContext& context;
  void* const* buffers;
  const i64* dims;
  i64 depth, padded, group, groups;
  QuantisedSpace space;
  HalfBytes halves;

  QuantisedOperands(const QuantisedContext& c, void* const* b, const i64* d, std::byte* scratch)
      : context(c),
        buffers(b),
        dims(d),
        depth(d[quantised_dims::k]),
        padded(round_up(depth, kQuantisedBlock)),
        group(c.group == 0 ? larger(depth, i64{1}) : c.group),
        groups(ceil_div(depth, group)),
        space(scratch, smaller(d[quantised_dims::m], kQuantisedRows), padded,
              round_up(groups, kQuantisedBlock)),
        halves(c.zero) {}

  // Whether the weights of a column are adjacent; else those of one k are.
  bool along_depth() const { return dims[quantised_dims::q_strides + 1] == 1; }
  // Whether columns are scaled after their sums: exact in every element type.
  bool scales_last() const { return context.has_scale && !context.has_offset && groups == 1; }
  Bytes column(i64 n) const {
    return static_cast<Bytes>(buffers[1]) + n * dims[quantised_dims::q_strides];
  }

  float scale_at(i64 n, i64 g) const {
    if (!context.has_scale) return 1;
    const i64* strides = dims + quantised_dims::scale_strides;
    float value = 0;
    with_storage<float>(context.scale, buffers[2], [&](auto* data) {
      value = static_cast<float>(widen(data[n * strides[0] + g * strides[1]]));
    });
    return value;
  }
  float offset_at(i64 n, i64 g) const {
    if (!context.has_offset) return 0;
    const i64* strides = dims + quantised_dims::offset_strides;
    return static_cast<const float*>(
        buffers[context.operands - 1])[n * strides[0] + g * strides[1]];
  }
  // All scales of a column.
  void read_scales(float* to, i64 n) const {
    const i64* strides = dims + quantised_dims::scale_strides;
    i64 g = 0;
    if (context.has_scale && strides[1] == 1)
      with_storage<float>(context.scale, buffers[2], [&](auto* data) {
        for (; g < groups; g += kLanes<float>)
          store(to + g, groups - g < kLanes<float>
                            ? load_part<float>(data + n * strides[0] + g, groups - g)
                            : load<float>(data + n * strides[0] + g));
      });
    for (; g < groups; ++g) to[g] = scale_at(n, g);
  }
  void read_offsets(float* to, i64 n) const {
    for (i64 g = 0; g < groups; ++g) to[g] = offset_at(n, g);
  }

  void scale_sums(i64 height, i64 column, i64 width) const {
    for (i64 c = 0; c < width; ++c) {
      const float scale = scale_at(column + c, 0);
      for (i64 r = 0; r < height; ++r) space.sums[r * kQuantisedColumns + c] *= scale;
    }
  }

  // --- rows of A ----------------------------------------------------------------------------

  // Rows [row, row + height) in the order of the weights, with zeros behind them.
  template <class E>
  void prepare(E* to, i64 row, i64 height) const {
    const i64* strides = dims + quantised_dims::a_strides;
    with_storage<float>(context.a, buffers[0], [&](auto* data) {
      for (i64 r = 0; r < height; ++r)
        prepare_row(to + r * padded, data + (row + r) * strides[0], strides[1]);
    });
  }

  template <class E, class S>
  void prepare_row(E* to, const S* from, i64 stride) const {
    i64 k = 0;
    if (context.bits == 4) {
      using Order = PairOrder<E>;
      if (stride == 1)
        for (; k + Order::block <= depth; k += Order::block) split_pairs(to + k, from + k);
      for (; k < depth; ++k) copy(to + Order::place(k), from[k * stride]);
      for (; k < padded; ++k) to[Order::place(k)] = E{};
      return;
    }
    if (stride == 1)
      for (; k + kDotStep<E> <= depth; k += kDotStep<E>) copy_step(to + k, from + k);
    for (; k < depth; ++k) copy(to + k, from[k * stride]);
    for (; k < padded; ++k) to[k] = E{};
  }

  // --- weights ------------------------------------------------------------------------------

  float number(Bytes q, i64 k) const {
    i64 value = 0;
    if (context.bits == 4)
      value = q[k / 2] >> (k % 2 * 4) & 15;
    else if (context.is_signed)
      value = static_cast<std::int8_t>(q[k * dims[quantised_dims::q_strides + 1]]);
    else
      value = q[k * dims[quantised_dims::q_strides + 1]];
    return static_cast<float>(value - context.zero);
  }

  // Elements [begin, end) of column n as those of the dot products: scaled unless that happens
  // last. `begin` and `end` are multiples of kQuantisedBlock, and zeros follow the last weights.
  template <class E>
  void widen_column(E* to, i64 n, i64 begin, i64 end) {
    const bool scaled = !scales_last();
    if (scaled) {
      read_scales(space.scales, n);
      read_offsets(space.offsets, n);
    }
    Bytes q = column(n);
    const auto place = [&](i64 k) {
      return (context.bits == 4 ? PairOrder<E>::place(k) : k) - begin;
    };
    const i64 last = smaller(end, depth);
    i64 k = begin;
    if (context.bits == 4) k = widen_by_tables(to, q, begin, last, scaled);
    for (i64 g = k / group; k < last; ++g) {
      const i64 stop = smaller((g + 1) * group, last);
      const float scale = scaled ? space.scales[g] : 1, offset = scaled ? space.offsets[g] : 0;
      if (context.bits == 4)
        k = widen_halves(to, begin, q, k, stop, scale, offset);
      else if (along_depth())
        k = context.is_signed ? widen_bytes(to - begin, reinterpret_cast<const std::int8_t*>(q), k,
                                            stop, scale, offset)
                              : widen_bytes(to - begin, q, k, stop, scale, offset);
      for (; k < stop; ++k) copy(to + place(k), number(q, k) * scale + offset);
    }
    for (i64 k = larger(begin, depth); k < end; ++k) to[place(k)] = E{};
  }

 private:
  GEX_INLINE static void copy(float* to, float value) { *to = value; }
  GEX_INLINE static void copy(float* to, F16 value) { *to = widen(value); }
  GEX_INLINE static void copy(float* to, BF16 value) { *to = widen(value); }
  GEX_INLINE static void copy(BF16* to, float value) { narrow(value, to); }
  GEX_INLINE static void copy(BF16* to, F16 value) { narrow(widen(value), to); }
  GEX_INLINE static void copy(BF16* to, BF16 value) { *to = value; }

  template <class S>
  GEX_INLINE static void copy_step(float* to, const S* from) {
    store(to, load<float>(from));
  }
  template <class S>
  GEX_INLINE static void copy_step(BF16* to, const S* from) {
    store_two(to, load<float>(from), load<float>(from + kLanes<float>));
  }

  // A block of adjacent elements: those with even numbers, then the others.
  template <class S>
  GEX_INLINE static void split_pairs(float* to, const S* from) {
    constexpr int lanes = kLanes<float>;
    const Vec<float> low = load<float>(from), high = load<float>(from + lanes);
    const VecIndex<float> even = lane_numbers<float>() * 2;
    store(to, __builtin_shuffle(low, high, even));
    store(to + lanes, __builtin_shuffle(low, high, even + 1));
  }
  template <class S>
  GEX_INLINE static void split_pairs(BF16* to, const S* from) {
    constexpr int lanes = kLanes<float>;
    float split[4 * lanes];
    split_pairs(split, from);
    split_pairs(split + 2 * lanes, from + 2 * lanes);
    store_two(to, load<float>(split), load<float>(split + 2 * lanes));
    store_two(to + 2 * lanes, load<float>(split + lanes), load<float>(split + 3 * lanes));
  }

  template <class E, class Q>
  i64 widen_bytes(E* to, const Q* q, i64 begin, i64 end, float scale, float offset) const {
    constexpr int lanes = kLanes<float>;
    const auto numbers = [&](const Q* from) __attribute__((always_inline)) {
      const Vec<float> exact = to_float(load_bytes(from) - static_cast<std::int32_t>(context.zero));
      return mul_add(exact, splat(scale), splat(offset));
    };
    i64 k = begin;
    // Numbers that are scaled last.
    if (scale == 1 && offset == 0 && context.zero == 0)
      for (; k + 2 * lanes <= end; k += 2 * lanes)
        store_two(to + k, to_float(load_bytes(q + k)), to_float(load_bytes(q + k + lanes)));
    for (; k + 2 * lanes <= end; k += 2 * lanes)
      store_two(to + k, numbers(q + k), numbers(q + k + lanes));
    return k;
  }

  // Widens 4-bit numbers from `begin` on as far as whole tables go; returns the first one left.
  i64 widen_by_tables(float*, Bytes, i64 begin, i64, bool) const { return begin; }
  i64 widen_by_tables(BF16* to, Bytes q, i64 begin, i64 end, bool scaled) const {
#if defined(__AVX512BF16__)
    // A table has the 16 numbers of one group, then those of the next one or the same again. The
    // elements of a block: those with even numbers, then the others.
    constexpr i64 block = PairOrder<BF16>::block;
    static_assert(block == 64);
    if (group % block != 0 && group != block / 2) return begin;
    const auto numbers = [&](i64 g) __attribute__((always_inline)) {
      return scaled ? mul_add(halves.table, splat(space.scales[g]), splat(space.offsets[g]))
                    : halves.table;
    };
    const __m512i upper = _mm512_maskz_set1_epi16(0xffff0000, 16);  // of the words
    const i64 next = group < block ? 1 : 0;
    __m512i table = {};
    i64 k = begin, g = begin / group, stop = begin;
    for (; k + block <= end; k += block) {
      if (k >= stop) {
        table = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(numbers(g + next), numbers(g)));
        g += 1 + next;
        stop = g * group;
      }
      const __m512i words = _mm512_maskz_cvtepu8_epi16(
          ~__mmask32{0}, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + k / 2)));
      typedef std::uint16_t Words __attribute__((vector_size(64)));
      const auto number_of = [&](__m512i index) __attribute__((always_inline)) {
        // (index & 15) | upper
        const __m512i place = _mm512_ternarylogic_epi32(index, _mm512_set1_epi16(15), upper, 0xea);
        return _mm512_maskz_permutexvar_epi16(~__mmask32{0}, place, table);
      };
      _mm512_storeu_si512(to + k - begin, number_of(words));
      _mm512_storeu_si512(
          to + k - begin + block / 2,
          number_of(reinterpret_cast<__m512i>(reinterpret_cast<Words>(words) >> 4)));
    }
    return k;
#else
    (void)to, (void)q, (void)end, (void)scaled;
    return begin;
#endif
  }

  template <class E>
  i64 widen_halves(E* to, i64 first_of_to, Bytes q, i64 begin, i64 end, float scale,
                   float offset) const {
    constexpr i64 lanes = kLanes<float>, block = 2 * lanes;
    if (begin % block != 0) return begin;
    i64 k = begin;
    for (; k + block <= end; k += block) {
      Vec<float> first, second;
      halves.numbers(q + k / 2, first, second);
      first = mul_add(first, splat(scale), splat(offset));
      second = mul_add(second, splat(scale), splat(offset));
      // Blocks of narrower elements are longer: this is the first or second half of one.
      E* at_first = to + PairOrder<E>::place(k) - first_of_to;
      store_one(at_first, first);
      store_one(at_first + kDotStep<E>, second);
    }
    return k;
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
