#pragma once
// bf16 matrices as pairs: elements k and k + 1 of a line in one 32-bit word, element k in the lower
// half. The instruction that multiplies bf16 numbers takes two of them at once, and widening a pair
// takes one operation for each half. A packed right operand of bf16 always has this layout: panels
// [pair][column], so that one copy serves every machine and every form.

#include <cstdint>

#include "backend/cpu/kernels/simd/pack.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class S>
constexpr bool kPackedAsPairs = false;
template <>
constexpr bool kPackedAsPairs<BF16> = true;

// Lines of `depth` elements: rows of a left operand, columns of a right one.
struct PairSource {
  const BF16* data;
  i64 line_stride, k_stride;
  i64 lines, depth;

  GEX_INLINE std::uint32_t pair(i64 line, i64 p) const {
    const BF16* at = data + line * line_stride + 2 * p * k_stride;
    const std::uint32_t low = at->bits;
    return 2 * p + 1 < depth ? low | static_cast<std::uint32_t>(at[k_stride].bits) << 16 : low;
  }
  i64 pairs() const { return ceil_div(depth, 2); }
  i64 whole_pairs() const { return depth / 2; }
};

GEX_INLINE Vec<float> low_halves(VecU32 pairs) { return reinterpret_cast<Vec<float>>(pairs << 16); }
GEX_INLINE Vec<float> high_halves(VecU32 pairs) {
  return reinterpret_cast<Vec<float>>(pairs & 0xffff0000u);
}
GEX_INLINE VecU32 load_pairs(const void* p) {
  typedef std::uint32_t Unaligned __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));
  return *static_cast<const Unaligned*>(p);
}
GEX_INLINE void store_pairs(std::uint32_t* p, VecU32 pairs) {
  typedef std::uint32_t Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
  *reinterpret_cast<Unaligned*>(p) = pairs;
}

// The pairs of two separate rows of k: one vector of lines.
GEX_INLINE VecU32 interleaved(const BF16* low, const BF16* high) {
  using Half = VecTraits<float, std::uint16_t>::unaligned;
  const VecU32 first = __builtin_convertvector(*reinterpret_cast<const Half*>(low), VecU32);
  const VecU32 second = __builtin_convertvector(*reinterpret_cast<const Half*>(high), VecU32);
  return first | (second << 16);
}

GEX_INLINE void transpose_pairs(Vec<float> (&rows)[kLanes<float>]) {
  transpose_step<float, 1>(rows);
  transpose_step<float, 2>(rows);
  if constexpr (kLanes<float> > 4) transpose_step<float, 4>(rows);
  if constexpr (kLanes<float> > 8) transpose_step<float, 8>(rows);
}

// dst[line * line_step + pair * pair_step] for a rectangle, one by one.
inline void pack_single_pairs(std::uint32_t* dst, i64 line_step, i64 pair_step, const PairSource& s,
                              i64 line0, i64 line1, i64 pair0, i64 pair1) {
  for (i64 line = line0; line < line1; ++line)
    for (i64 p = pair0; p < pair1; ++p) dst[line * line_step + p * pair_step] = s.pair(line, p);
}

// dst[line * dst_stride + pair], from lines whose elements are adjacent.
inline void pack_pairs_along_depth(std::uint32_t* dst, i64 dst_stride, const PairSource& s) {
  constexpr int lanes = kLanes<float>;
  for (i64 line = 0; line < s.lines; ++line) {
    const BF16* from = s.data + line * s.line_stride;
    i64 p = 0;
    for (; p + lanes <= s.whole_pairs(); p += lanes)
      store_pairs(dst + line * dst_stride + p, load_pairs(from + 2 * p));
    pack_single_pairs(dst, dst_stride, 1, s, line, line + 1, p, s.pairs());
  }
}

// dst[pair * dst_stride + line], from elements of one k that are adjacent.
inline void pack_pairs_along_lines(std::uint32_t* dst, i64 dst_stride, const PairSource& s) {
  constexpr int lanes = kLanes<float>;
  const i64 whole = s.lines / lanes * lanes;
  for (i64 p = 0; p < s.whole_pairs(); ++p) {
    const BF16 *low = s.data + 2 * p * s.k_stride, *high = low + s.k_stride;
    for (i64 line = 0; line < whole; line += lanes)
      store_pairs(dst + p * dst_stride + line, interleaved(low + line, high + line));
  }
  pack_single_pairs(dst, 1, dst_stride, s, 0, whole, s.whole_pairs(), s.pairs());
  pack_single_pairs(dst, 1, dst_stride, s, whole, s.lines, 0, s.pairs());
}

// dst[line * line_step + pair * pair_step] where the step along which the source is adjacent is not
// 1 in `dst`, and the other one is: squares are transposed.
template <bool kAlongDepth>
void pack_pairs_transposed(std::uint32_t* dst, i64 dst_stride, const PairSource& s) {
  constexpr int lanes = kLanes<float>;
  const i64 line_step = kAlongDepth ? 1 : dst_stride, pair_step = kAlongDepth ? dst_stride : 1;
  const i64 lines = s.lines / lanes * lanes, pairs = s.whole_pairs() / lanes * lanes;
  for (i64 line = 0; line < lines; line += lanes)
    for (i64 p = 0; p < pairs; p += lanes) {
      Vec<float> rows[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const BF16* from = kAlongDepth ? s.data + (line + i) * s.line_stride + 2 * p
                                       : s.data + 2 * (p + i) * s.k_stride + line;
        rows[i] = reinterpret_cast<Vec<float>>(kAlongDepth ? load_pairs(from)
                                                           : interleaved(from, from + s.k_stride));
      }
      transpose_pairs(rows);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        store_pairs(dst + line * line_step + p * pair_step + i * dst_stride,
                    reinterpret_cast<VecU32>(rows[i]));
    }
  pack_single_pairs(dst, line_step, pair_step, s, 0, lines, pairs, s.pairs());
  pack_single_pairs(dst, line_step, pair_step, s, lines, s.lines, 0, s.pairs());
}

// dst[pair * dst_stride + line]
inline void pack_pair_columns(std::uint32_t* dst, i64 dst_stride, const PairSource& s) {
  if (s.k_stride == 1) return pack_pairs_transposed<true>(dst, dst_stride, s);
  if (s.line_stride == 1) return pack_pairs_along_lines(dst, dst_stride, s);
  pack_single_pairs(dst, 1, dst_stride, s, 0, s.lines, 0, s.pairs());
}

// Size of a packed right operand in elements; `of` says how it is stored.
template <class T, class S>
GEX_INLINE i64 packed_panel_elements(const S*, i64 depth) {
  return kPanel<T> * (kPackedAsPairs<S> ? round_up(depth, 2) : depth);
}

// to[depth][panel], from a panel of pairs.
inline void widen_pairs(float* to, const BF16* panel, i64 depth) {
  constexpr i64 lanes = kLanes<float>, width = kPanel<float>;
  for (i64 k = 0; k < depth; k += 2)
    for (i64 c = 0; c < width; c += lanes) {
      const VecU32 pairs = load_pairs(panel + k * width + 2 * c);
      store(to + k * width + c, low_halves(pairs));
      if (k + 1 < depth) store(to + (k + 1) * width + c, high_halves(pairs));
    }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
