// Compiled with the machine flags that its name says; see kernels.cmake and bf16_outer.hpp.
#define GEX_VARIANT avx512_bf16
#include "backend/cpu/kernels/bf16_outer.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"
#include "problems/matmul.hpp"

namespace gex::kernels {
namespace GEX_VARIANT {
namespace {

constexpr i64 kRows = 12, kCols = 32;              // of a micro-kernel
constexpr i64 kPairs = 128;                        // of the depth, packed at once
constexpr i64 kBlockRows = 192, kBlockCols = 256;  // of a tile
static_assert(kBlockRows % kRows == 0 && kBlockCols % kCols == 0);
// Packed pairs of both operands and the tile, in the scratch of a matmul of f32.
static_assert(kBlockRows * kPairs + kBlockCols * kPairs + kBlockRows * kBlockCols <=
              kTileElements + kLeftRows * kDepthStride + kTileCols * kDepth);

// Elements of two rows side by side: the even halves of the result are `low`'s.
GEX_INLINE __m512i pairs_of(const BF16* low, const BF16* high, __mmask16 mask) {
  const auto widened = [&](const BF16* p) {
    return __builtin_convertvector(reinterpret_cast<VecU16Half>(_mm256_maskz_loadu_epi16(mask, p)),
                                   VecU32);
  };
  const VecU32 even = widened(low);
  return reinterpret_cast<__m512i>(high ? even | (widened(high) << 16) : even);
}

GEX_INLINE __mmask16 first_lanes(i64 count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

// Rows [k, k + depth) of a matrix, `cols` columns of it, as pairs [group][pair][width]: groups are
// kPairs apart, and columns behind the last are zero.
template <i64 kWidth>
void pack(std::uint32_t* to, const BF16* from, i64 stride, i64 depth, i64 cols) {
  for (i64 c = 0; c < cols; c += kWidth, to += kWidth * kPairs)
    for (i64 k = 0; k < depth; k += 2) {
      const BF16* low = from + k * stride + c;
      const BF16* high = k + 1 < depth ? low + stride : nullptr;
      std::uint32_t* row = to + k / 2 * kWidth;
      for (i64 i = 0; i < kWidth; i += 16) {
        const __mmask16 there = first_lanes(smaller(cols - c, kWidth) - i);
        _mm512_mask_storeu_epi32(row + i, first_lanes(kWidth - i),
                                 pairs_of(low + i, high ? high + i : nullptr, there));
      }
    }
}

// tile[kRows][kCols] (+)= a * b over `pairs` pairs, both packed.
void multiply_pairs(i64 pairs, const std::uint32_t* a, const std::uint32_t* b, float* tile,
                    bool accumulate) {
  __m512 sum[kRows][2] = {};
  for (i64 k = 0; k < pairs; ++k, a += kRows, b += kCols) {
    const auto left = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    const auto right = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16));
#pragma GCC unroll 16
    for (i64 r = 0; r < kRows; ++r) {
      const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[r])));
      sum[r][0] = _mm512_dpbf16_ps(sum[r][0], both, left);
      sum[r][1] = _mm512_dpbf16_ps(sum[r][1], both, right);
    }
  }
#pragma GCC unroll 16
  for (i64 r = 0; r < kRows; ++r) {
    float* out = tile + r * kBlockCols;
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
      store(out + v * 16,
            accumulate ? load<float>(out + v * 16) + sum[r][v] : Vec<float>(sum[r][v]));
  }
}

struct Outer {
  const MatmulContext& context;
  void* const* buffers;
  const i64* dims;
  std::uint32_t *left, *right;
  float* tile;

  Outer(const MatmulContext& c, void* const* b, const i64* d, std::byte* scratch)
      : context(c),
        buffers(b),
        dims(d),
        left(reinterpret_cast<std::uint32_t*>(scratch)),
        right(left + kBlockRows * kPairs),
        tile(reinterpret_cast<float*>(right + kBlockCols * kPairs)) {}

  void run_tile(i64 row, i64 height, i64 col, i64 width) const {
    namespace at = matmul_dims;
    const i64 depth = dims[at::k], a_stride = dims[at::a_strides + 3];
    const i64 b_stride = dims[at::b_strides + 2];
    const auto* a = static_cast<const BF16*>(buffers[0]) + row;
    const auto* b = static_cast<const BF16*>(buffers[1]) + col;
    if (depth == 0)
      for (i64 i = 0; i < height * kBlockCols; ++i) tile[i] = 0;
    for (i64 k = 0; k < depth; k += 2 * kPairs) {
      const i64 slice = smaller(2 * kPairs, depth - k), pairs = ceil_div(slice, 2);
      pack<kRows>(left, a + k * a_stride, a_stride, slice, height);
      pack<kCols>(right, b + k * b_stride, b_stride, slice, width);
      for (i64 c = 0; c < width; c += kCols)
        for (i64 r = 0; r < height; r += kRows)
          multiply_pairs(pairs, left + r * kPairs, right + c * kPairs, tile + r * kBlockCols + c,
                         k > 0);
    }
    const i64* c_strides = dims + at::c_strides;
    for (i64 r = 0; r < height; ++r)
      store_row(tile + r * kBlockCols, width, context.c, buffers[2],
                (row + r) * c_strides[2] + col * c_strides[3], c_strides[3]);
  }

  void run(i64 begin, i64 end) const {
    const i64 rows = dims[matmul_dims::m], cols = dims[matmul_dims::n];
    for_each_rectangle(begin, end, ceil_div(rows, kUnitRows), ceil_div(cols, kUnitCols),
                       [&](i64, i64 r0, i64 r1, i64 c0, i64 c1) {
                         const i64 last_row = smaller(r1 * kUnitRows, rows),
                                   last_col = smaller(c1 * kUnitCols, cols);
                         for (i64 col = c0 * kUnitCols; col < last_col; col += kBlockCols)
                           for (i64 row = r0 * kUnitRows; row < last_row; row += kBlockRows)
                             run_tile(row, smaller(kBlockRows, last_row - row), col,
                                      smaller(kBlockCols, last_col - col));
                       });
  }
};

bool has_tiny(const void* matrix, i64 rows, i64 row_stride, i64 cols) {
  constexpr short kMagnitude = 0x7fff, kLeast = (127 - 55) << 7;
  const __m512i magnitude = _mm512_set1_epi16(kMagnitude), least = _mm512_set1_epi16(kLeast);
  __mmask32 found = 0;
  for (i64 r = 0; r < rows && found == 0; ++r) {
    const auto* row = static_cast<const BF16*>(matrix) + r * row_stride;
    for (i64 c = 0; c < cols; c += 32) {
      const i64 left = cols - c;
      const auto there = static_cast<__mmask32>(left >= 32 ? ~0u : (1u << left) - 1);
      const __m512i bits = _mm512_maskz_loadu_epi16(there, row + c) & magnitude;
      found |= _mm512_mask_cmplt_epu16_mask(_mm512_test_epi16_mask(bits, bits), bits, least);
    }
  }
  return found != 0;
}

void run(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
         std::byte* scratch) {
  Outer(*static_cast<const MatmulContext*>(context), buffers, dims, scratch).run(begin, end);
}

}  // namespace
}  // namespace GEX_VARIANT

const RangeFn bf16_outer = &GEX_VARIANT::run;
const HasTinyFn bf16_has_tiny = &GEX_VARIANT::has_tiny;

}  // namespace gex::kernels
