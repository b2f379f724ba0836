#pragma once
// CUDA C text of convolutions on tensor cores. Needs the constants kBf16, kTerms, kGathersHalves,
// kLeftInRows, kLinesApart, the types of conv2d_forms_text.hpp, mma_fragments_text(), and
// tile_product_text().

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

// The tile of a block: its size, its warps, and the number of blocks that divide its depth.
struct ConvTile {
  int rows, cols, warp_rows, warp_cols;
  int split = 1;

  // Tiles of the next steps, or the sums; the positions of 2 x 64 steps and of the lines.
  std::int64_t bytes(int terms) const {
    const std::int64_t stages = std::int64_t{2} * terms * (std::max(rows, 64) + cols) * 128;
    return std::max(stages + (128 + cols) * 16, std::int64_t{rows} * (cols + 8) * 4 + 16);
  }
};

// template <int BM, int BN, int WM, int WN, int split> void conv_product(Task&, Blocks, char*
// shared): all results, by tiles of BM x BN with WM x WN warps. bool conv_fits(const Task&):
// whether positions fit into 32 bits and the left operand is aligned.
std::string_view conv_mma_text();

}  // namespace gex::backend::cuda
