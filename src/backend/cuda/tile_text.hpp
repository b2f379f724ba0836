#pragma once
// CUDA C text of a matmul of tiles in shared memory, for operands of any layout.

#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

inline constexpr int kTileThreads = 256, kTileRows = 64, kTileCols = 64;

// void tile_product<4 or 8>(task, row, col, rows, cols, depth): the block computes a tile of 64 x
// 64 or 128 x 128 elements from (row, col) on, as far as they are below rows and cols. A Task has
// left(row, k), right(k, col), finish(row, col, sum), and says along which axis the operands are
// contiguous: left_by_depth, right_by_depth. void tiled_product(task, batches, rows, cols, depth):
// all tiles of all batches, for tasks with set_batch(batch). Needs the type Acc and
// kMultiprocessors, and the dynamic shared memory below.
std::string_view tile_product_text();

// Bytes of shared memory for tiles of numbers of `accumulator_bytes`.
inline constexpr std::int64_t tile_shared_bytes(std::int64_t accumulator_bytes) {
  const std::int64_t lines = accumulator_bytes == 4 ? 128 : 64;
  return 2 * 16 * (lines + 4) * accumulator_bytes;
}

}  // namespace gex::backend::cuda
