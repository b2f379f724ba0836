#include "backend/cpu/kernels/integer_tile.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gex::kernels {

namespace {

using i64 = std::int64_t;

// Where the columns of a panel begin, and those of a group from there.
template <bool kLeftUnsigned>
const std::uint8_t* panel_of(const IntegerTile& t, i64 panel) {
  return t.right + panel * (kLeftUnsigned ? t.panel_stride : kPanelGroupBytes);
}
template <bool kLeftUnsigned>
[[gnu::always_inline]] inline i64 group_offset(const IntegerTile& t, i64 group) {
  return kLeftUnsigned ? group * kPanelGroupBytes : t.offsets[group];
}

template <bool kLeftUnsigned>
void portable(const IntegerTile& t) {
  for (i64 r = 0; r < t.rows; ++r) {
    for (i64 p = 0; p < t.panels; ++p) {
      std::uint32_t sums[kPanelColumns] = {};
      for (i64 g = 0; g < t.groups; ++g) {
        const std::uint8_t* a = t.left + r * t.left_stride + g * kGroupBytes;
        const std::uint8_t* b = panel_of<kLeftUnsigned>(t, p) + group_offset<kLeftUnsigned>(t, g);
        for (i64 c = 0; c < kPanelColumns; ++c) {
          for (i64 k = 0; k < kGroupBytes; ++k) {
            const std::uint8_t x = a[k], y = b[c * kGroupBytes + k];
            const int left = kLeftUnsigned ? x : static_cast<std::int8_t>(x);
            const int right = kLeftUnsigned ? static_cast<std::int8_t>(y) : y;
            sums[c] += static_cast<std::uint32_t>(left * right);
          }
        }
      }
      std::memcpy(t.sums + r * t.sums_stride + p * kPanelColumns, sums, sizeof sums);
    }
  }
}

#if defined(__x86_64__)

// Calls block<rows of a block, panels of a block> until the tile is done.
#define GEX_INTEGER_BLOCKS(block, tall, low)                                                   \
  for (i64 p = 0; p < t.panels;) {                                                             \
    const bool two = t.panels - p >= 2;                                                        \
    for (i64 r = 0; r < t.rows;) {                                                             \
      const i64 left = t.rows - r;                                                             \
      if (left >= (tall)) {                                                                    \
        two ? block<tall, 2, kLeftUnsigned>(t, r, p) : block<tall, 1, kLeftUnsigned>(t, r, p); \
        r += (tall);                                                                           \
      } else if (left >= (low)) {                                                              \
        two ? block<low, 2, kLeftUnsigned>(t, r, p) : block<low, 1, kLeftUnsigned>(t, r, p);   \
        r += (low);                                                                            \
      } else {                                                                                 \
        two ? block<1, 2, kLeftUnsigned>(t, r, p) : block<1, 1, kLeftUnsigned>(t, r, p);       \
        r += 1;                                                                                \
      }                                                                                        \
    }                                                                                          \
    p += two ? 2 : 1;                                                                          \
  }

std::int32_t four_bytes(const std::uint8_t* at) {
  std::int32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

#define GEX_TARGET_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]

template <int kRows, int kPanels, bool kLeftUnsigned>
GEX_TARGET_VNNI void vnni_block(const IntegerTile& t, i64 row, i64 panel) {
  __m512i sums[kRows][kPanels];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) sums[r][p] = _mm512_setzero_si512();
  const std::uint8_t* a = t.left + row * t.left_stride;
  const std::uint8_t* panels = panel_of<kLeftUnsigned>(t, panel);
  const i64 stride = kLeftUnsigned ? t.panel_stride : kPanelGroupBytes;
  for (i64 g = 0; g < t.groups; ++g, a += kGroupBytes) {
    const std::uint8_t* b = panels + group_offset<kLeftUnsigned>(t, g);
    __m512i right[kPanels];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) right[p] = _mm512_loadu_si512(b + p * stride);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i left = _mm512_set1_epi32(four_bytes(a + r * t.left_stride));
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p)
        sums[r][p] = kLeftUnsigned ? _mm512_dpbusd_epi32(sums[r][p], left, right[p])
                                   : _mm512_dpbusd_epi32(sums[r][p], right[p], left);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p)
      _mm512_storeu_si512(t.sums + (row + r) * t.sums_stride + (panel + p) * kPanelColumns,
                          sums[r][p]);
}

template <bool kLeftUnsigned>
void vnni(const IntegerTile& t) {
  GEX_INTEGER_BLOCKS(vnni_block, kIntegerTileRows, 4)
}

#define GEX_TARGET_AVX2 [[gnu::target("avx2")]]

// Four columns of a group in 16 bits: two products each, added. Bytes are never added in 16 bits,
// where they could overflow.
template <int kRows, int kPanels, bool kLeftUnsigned>
GEX_TARGET_AVX2 void avx2_block(const IntegerTile& t, i64 row, i64 panel) {
  for (int p = 0; p < kPanels; ++p) {
    __m256i sums[kRows][4];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) sums[r][q] = _mm256_setzero_si256();
    const std::uint8_t* a = t.left + row * t.left_stride;
    const std::uint8_t* columns = panel_of<kLeftUnsigned>(t, panel + p);
    for (i64 g = 0; g < t.groups; ++g, a += kGroupBytes) {
      const std::uint8_t* b = columns + group_offset<kLeftUnsigned>(t, g);
      __m256i right[4];
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + q * 16));
        right[q] = kLeftUnsigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
      }
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        const __m128i bytes = _mm_set1_epi32(four_bytes(a + r * t.left_stride));
        const __m256i left =
            kLeftUnsigned ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
          sums[r][q] = _mm256_add_epi32(sums[r][q], _mm256_madd_epi16(left, right[q]));
      }
    }
    for (int r = 0; r < kRows; ++r) {
      std::int32_t* out = t.sums + (row + r) * t.sums_stride + (panel + p) * kPanelColumns;
      for (int q = 0; q < 4; ++q) {
        alignas(32) std::int32_t halves[8];
        _mm256_store_si256(reinterpret_cast<__m256i*>(halves), sums[r][q]);
        for (int c = 0; c < 4; ++c)
          out[q * 4 + c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(halves[2 * c]) +
                                                     static_cast<std::uint32_t>(halves[2 * c + 1]));
      }
    }
  }
}

template <bool kLeftUnsigned>
void avx2(const IntegerTile& t) {
  GEX_INTEGER_BLOCKS(avx2_block, 2, 1)
}

#endif

struct Functions {
  NamedIntegerTile usable[3];
  int count = 0;

  Functions() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
      usable[count++] = {"avx512_vnni", vnni<true>, vnni<false>};
    if (__builtin_cpu_supports("avx2")) usable[count++] = {"avx2", avx2<true>, avx2<false>};
#endif
    usable[count++] = {"portable", portable<true>, portable<false>};
  }
};

const Functions& functions() {
  static const Functions found;
  return found;
}

}  // namespace

IntegerTileFn integer_tile(bool left_is_unsigned) {
  const NamedIntegerTile& best = functions().usable[0];
  return left_is_unsigned ? best.left_unsigned : best.left_signed;
}

const NamedIntegerTile* integer_tiles(int* count) {
  *count = functions().count;
  return functions().usable;
}

}  // namespace gex::kernels
