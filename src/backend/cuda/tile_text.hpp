#pragma once
// CUDA C text of the product of tiles in shared memory, for operands of any layout.

#include <string_view>

namespace gex::backend::cuda {

inline constexpr int kTileThreads = 256, kTileRows = 64, kTileCols = 64;

// void tile_product<4 or 8>(task, row, col, rows, cols, depth): the block computes a tile of 64 x
// 64 or 128 x 128 elements from (row, col) on, as far as they are below rows and cols. A Task has
// left(row, k), right(k, col), finish(row, col, sum), and says along which axis the operands are
// contiguous: left_by_depth, right_by_depth. void tiled_product(task, batches, rows, cols, depth):
// all tiles of all batches, for tasks with set_batch(batch). Needs the type Acc and
// kMultiprocessors.
std::string_view tile_product_text();

}  // namespace gex::backend::cuda
