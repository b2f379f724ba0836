#pragma once
// Which kernels of tensor cores a matmul uses, and their launch.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "backend/cuda/mma_text.hpp"
#include "base/error.hpp"
#include "problems/matmul.hpp"

namespace gex::backend::cuda {

namespace matmul_dim = problems::matmul_dims;

// The tensor-core tile of a block: its size, warps, pipeline stages, and the number of blocks that
// split its depth.
struct MmaTile {
  int rows, cols, warp_rows, warp_cols, stages, split;

  std::int64_t bytes() const {
    const std::int64_t part = split > 1 ? std::int64_t{rows} * cols * 4 : 0;
    return std::max(mma_tile_bytes(rows, cols, stages), part);
  }
  std::string call() const {
    return str("mma_product<", rows, ", ", cols, ", ", warp_rows, ", ", warp_cols, ", ", stages,
               ", ", split, ">(task, block, shared);");
  }
  Dim count(std::span<const Dim> dims) const {
    return dims[matmul_dim::batch0] * dims[matmul_dim::batch1] *
           ceildiv(dims[matmul_dim::m], rows) * ceildiv(dims[matmul_dim::n], cols);
  }
};

inline constexpr MmaTile kTinyTile{32, 128, 1, 8, 4, 1}, kSmallTile{64, 128, 2, 4, 4, 1},
    kMiddleTile{128, 128, 2, 4, 3, 1}, kLargeTile{128, 256, 2, 4, 3, 1};

// Which tensor-core kernels a matmul can use for all possible sizes.
struct MmaPlan {
  bool stream = false;
  std::vector<MmaTile> tiles;  // the smallest first
  bool left_by_depth = false, right_by_depth = false, computed = false;
  bool waits = false;  // waits only before it reads A, after the first columns of B were requested
  int multiprocessors = 0;
  int stream_columns = 16;        // of a tile
  std::int64_t stream_bytes = 0;  // of shared memory, at most
  bool left_shared = false;       // A is in shared memory (AttachedKernels::exchanged)

  static constexpr std::int64_t kStreamRows = 16, kMostStreamBytes = 110 * 1024, kJoinBytes = 16384;

  bool any() const { return stream || !tiles.empty(); }
  int split() const { return tiles.size() == 1 ? tiles.front().split : 1; }
  // Blocks that a multiprocessor must be able to hold at once. With few rows there is room for a
  // block of the next kernel, which can already request its weights. Other matmuls have registers
  // for two blocks, unless elements are computed or sizes are not constants.
  int blocks_each() const {
    if (tiles.empty()) return 2;
    return tiles.size() == 1 && tiles.back().cols <= 128 && !computed ? 2 : 1;
  }

  Dim shared_bytes(std::span<const Dim> dims) const {
    Dim bytes = 0;
    for (const MmaTile& tile : tiles) bytes = max(bytes, Dim(tile.bytes()));
    const Dim pitch = ceildiv(dims[matmul_dim::k], 64) * 64 + 32;
    if (stream)
      bytes = max(bytes, min(min(dims[matmul_dim::m], Dim(kStreamRows)) * pitch * 2 + kJoinBytes,
                             Dim(stream_bytes)));
    return bytes;
  }

  // The grid is a multiple of the cluster size; blocks without work exit at once.
  Dim grid(std::span<const Dim> dims) const {
    Dim most = stream ? dims[matmul_dim::batch0] * dims[matmul_dim::batch1] *
                            ceildiv(dims[matmul_dim::n], stream_columns)
                      : Dim(0);
    if (!tiles.empty()) most = max(most, tiles.front().count(dims));
    const int most_blocks = tiles.empty() ? multiprocessors : multiprocessors * 2 / split();
    return min(most, Dim(most_blocks)) * Dim(split());
  }

  // Whether the current task can use stream_product.
  std::string streams() const {
    return str("aligned_right(task) && task.size.rows <= ", kStreamRows,
               " && (task.size.a[3] != 1 || kLeftComputed || aligned_rows(task)) &&\n"
               "      task.size.rows * stream_pitch(task.size.depth) * 2 + ",
               kJoinBytes, " <= ", stream_bytes);
  }

  // The part that may run before the preceding kernels have finished.
  std::string prepare() const {
    if (!waits) return {};
    return str("  Product task;\n  task.bind(words, dims);\n  if (", streams(),
               ") stream_prepare(task, block, requested);\n");
  }

  std::string body() const {
    std::string text = "  GEX_DECLARE_LOCALS\n  char* const shared = (char*)gex_locals;\n";
    if (stream) {
      if (!waits) text += "  const Requested requested = {};\n";
      text +=
          str("  if (", streams(), ") {\n",
              "    if (task.size.rows <= 8) stream_product<1>(task, block, shared, requested);\n"
              "    else stream_product<2>(task, block, shared, requested);\n    return;\n  }\n");
    }
    if (waits) text += "  wait_for_inputs();\n";
    if (tiles.empty()) return text;
    text += "  if (aligned_left(task) && aligned_right(task)) {\n";
    if (tiles.size() == 2)
      text += str("    const i64 large = task.size.batch0 * task.size.batch1 * ((task.size.rows + ",
                  tiles[1].rows - 1, ") / ", tiles[1].rows, ") * ((task.size.cols + ",
                  tiles[1].cols - 1, ") / ", tiles[1].cols,
                  ");\n    if (2 * large < kMultiprocessors) ", tiles[0].call(), "\n    else ",
                  tiles[1].call(), "\n");
    else
      text += "    " + tiles[0].call() + "\n";
    return text + "    return;\n  }\n";
  }
};

MmaPlan mma_plan(const problems::MatmulProblem& p, std::span<const Dim> dims,
                 const DeviceLimits& limits);

}  // namespace gex::backend::cuda
