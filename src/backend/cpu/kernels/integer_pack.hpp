#pragma once
// Packing of 8-bit operands into the layouts of integer_tile.hpp. `flip` is 0x80 for an operand
// whose sign differs from that of its side, else 0; sums are of the packed numbers.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/integer_tile.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gex::kernels {

using Bytes = const std::uint8_t*;

inline std::int64_t padded_depth(std::int64_t depth) {
  return (depth + kGroupBytes - 1) / kGroupBytes * kGroupBytes;
}

// The sum of bytes that are unsigned, or signed.
inline std::int32_t sum_of(Bytes bytes, std::int64_t count, bool is_unsigned) {
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < count; ++k)
    sum += is_unsigned ? bytes[k] : static_cast<std::int8_t>(bytes[k]);
  return sum;
}

// One row of the left side, zeros behind it.
inline void pack_row(std::uint8_t* row, Bytes from, std::int64_t stride, std::int64_t depth,
                     std::uint8_t flip) {
  if (stride == 1 && flip == 0) {
    std::memcpy(row, from, static_cast<std::size_t>(depth));
  } else {
    for (std::int64_t k = 0; k < depth; ++k)
      row[k] = static_cast<std::uint8_t>(from[k * stride] ^ flip);
  }
  std::memset(row + depth, 0, static_cast<std::size_t>(padded_depth(depth) - depth));
}

// Bytes k of 16 columns for four k become groups: [16][4].
inline void interleave(std::uint8_t* group, const Bytes (&rows)[kGroupBytes], std::uint8_t flip) {
#if defined(__x86_64__)
  const auto load = [](Bytes p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  const __m128i r0 = load(rows[0]), r1 = load(rows[1]), r2 = load(rows[2]), r3 = load(rows[3]);
  const __m128i low01 = _mm_unpacklo_epi8(r0, r1), high01 = _mm_unpackhi_epi8(r0, r1);
  const __m128i low23 = _mm_unpacklo_epi8(r2, r3), high23 = _mm_unpackhi_epi8(r2, r3);
  const auto store = [&](int at, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(group + at), _mm_xor_si128(v, flips));
  };
  store(0, _mm_unpacklo_epi16(low01, low23));
  store(16, _mm_unpackhi_epi16(low01, low23));
  store(32, _mm_unpacklo_epi16(high01, high23));
  store(48, _mm_unpackhi_epi16(high01, high23));
#else
  for (std::int64_t c = 0; c < kPanelColumns; ++c)
    for (std::int64_t k = 0; k < kGroupBytes; ++k)
      group[c * kGroupBytes + k] = static_cast<std::uint8_t>(rows[k][c] ^ flip);
#endif
}

// One panel of the right side. row_of(k) is the address of column 0 at k; columns are at offsets
// `at` from there, which are 0, 1, 2... if `adjacent`. Columns from `columns` on are zero.
template <class RowOf>
void pack_panel(std::uint8_t* panel, std::int64_t depth, std::int64_t columns,
                const std::int64_t (&at)[kPanelColumns], bool adjacent, std::uint8_t flip,
                const RowOf& row_of) {
  std::uint8_t staged[kGroupBytes][kPanelColumns];
  const bool whole = columns == kPanelColumns;
  for (std::int64_t k = 0; k < depth; k += kGroupBytes, panel += kGroupBytes * kPanelColumns) {
    Bytes rows[kGroupBytes];
    for (std::int64_t j = 0; j < kGroupBytes; ++j) {
      if (k + j < depth && adjacent && whole) {
        rows[j] = row_of(k + j);
        continue;
      }
      rows[j] = staged[j];
      Bytes from = k + j < depth ? row_of(k + j) : nullptr;
      // What flips to zero.
      std::memset(staged[j], flip, sizeof staged[j]);
      if (from != nullptr)
        for (std::int64_t c = 0; c < columns; ++c) staged[j][c] = from[at[c]];
    }
    interleave(panel, rows, flip);
  }
}

// The sums of a packed panel's columns.
inline void sum_columns(Bytes panel, std::int64_t groups, bool is_unsigned, std::int32_t* sums) {
  std::fill_n(sums, kPanelColumns, 0);
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t c = 0; c < kPanelColumns; ++c, panel += kGroupBytes)
      sums[c] += sum_of(panel, kGroupBytes, is_unsigned);
}

}  // namespace gex::kernels
