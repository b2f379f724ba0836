#pragma once
// CUDA C text of matmuls of 16-bit floats on tensor cores. Needs Product (matmul_text.cpp) and the
// constants kBf16, kLeftByDepth, kRightByDepth (which axis is contiguous), kLeftComputed,
// kRightComputed, kWaitsForLeft (the first columns of B are read before the wait for the preceding
// kernels).

#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

inline constexpr int kMmaThreads = 256;

// Half, to_half, piece(), load_left(), load_right() and multiply_fragments(): tiles of 16-bit
// floats in shared memory. Needs kBf16 alone.
std::string_view mma_fragments_text();

// template <int BM, int BN, int WM, int WN> void mma_tile(const Product&, row, col): elements
// [row, row + BM) x [col, col + BN), by WM x WN warps. The order of summation does not depend on
// the tile. Shared memory: mma_tile_bytes. After mma_fragments_text().
std::string_view mma_tile_text();
constexpr std::int64_t mma_tile_bytes(int rows, int cols, int stages) {
  const int a = rows < 64 ? 64 : rows, b = cols < 64 ? 64 : cols;
  return static_cast<std::int64_t>(a + b) * 128 * stages;
}

// template <int G> void stream_product(Product&): up to 8 * G rows; the right operand, contiguous
// along the depth, is read once, with 16-byte loads, directly into fragments.
std::string_view stream_product_text();
// Text that stream_product needs: the assignment of tiles to warps, and the loads of the right
// operand.
std::string_view stream_plan_text();

}  // namespace gex::backend::cuda
