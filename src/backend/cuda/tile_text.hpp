#pragma once
// CUDA C text of the product of tiles in shared memory, for operands of any layout.

#include <string_view>

namespace gex::backend::cuda {

inline constexpr int kTileThreads = 256, kTileRows = 64, kTileCols = 64;

// template <class Task> void tile_product(const Task&, row, col, rows, cols, depth): the block
// computes elements [row, row + 64) x [col, col + 64), as far as they are below rows and cols. A
// Task has left(row, k), right(k, col), finish(row, col, sum), and says along which axis the
// operands are contiguous: left_by_depth, right_by_depth. Needs the type Acc.
std::string_view tile_product_text();

}  // namespace gex::backend::cuda
