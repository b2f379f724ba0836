// Products of matrices: batched, and of rows in groups.

#include "backend/cuda/problem_text.hpp"
#include "backend/cuda/tile_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace at_dim = problems::matmul_dims;

namespace {

constexpr int kBlocksEach = 8;  // on one multiprocessor

Dim tiles(std::span<const Dim> dims) {
  return ceildiv(dims[at_dim::m], kTileRows) * ceildiv(dims[at_dim::n], kTileCols);
}

// The sizes and strides of a launch of a product.
constexpr std::string_view kSizes = R"cuda(
struct Sizes {
  i64 batch0, batch1, rows, cols, depth;
  i64 a[4], b[4], c[4];  // strides
  GEX_METHOD void bind(const i64* dims) {
    batch0 = dims[0]; batch1 = dims[1]; rows = dims[2]; cols = dims[3]; depth = dims[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = dims[5 + i], b[i] = dims[9 + i], c[i] = dims[13 + i];
  }
};
struct Product {
  Left a;
  Right b;
  Finish done;
  Sizes size;
  i64 a_first, b_first, c_first, point_first;
  bool left_by_depth, right_by_depth;
  GEX_METHOD void bind(const i64* words, const i64* dims) {
    a.bind(words); b.bind(words); done.bind(words);
    size.bind(dims);
    a_first = b_first = c_first = point_first = 0;
    left_by_depth = size.a[2] != 1;
    right_by_depth = size.b[3] != 1;
  }
  GEX_METHOD Acc left(i64 row, i64 k) const { return a(a_first + row * size.a[2] + k * size.a[3]); }
  GEX_METHOD Acc right(i64 k, i64 col) const { return b(b_first + k * size.b[2] + col * size.b[3]); }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const {
    done(point_first + row * size.cols + col, c_first + row * size.c[2] + col * size.c[3], sum);
  }
};
)cuda";

constexpr std::string_view kMatmulBody = R"cuda(
  Product task;
  task.bind(words, dims);
  const Sizes& s = task.size;
  const i64 tile_cols = (s.cols + 63) / 64, tiles = (s.rows + 63) / 64 * tile_cols;
  for (i64 at = blockIdx.x; at < s.batch0 * s.batch1 * tiles; at += gridDim.x) {
    const i64 batch = at / tiles, tile = at % tiles;
    const i64 outer = batch / s.batch1, inner = batch % s.batch1;
    task.a_first = outer * s.a[0] + inner * s.a[1];
    task.b_first = outer * s.b[0] + inner * s.b[1];
    task.c_first = outer * s.c[0] + inner * s.c[1];
    task.point_first = batch * s.rows * s.cols;
    tile_product(task, tile / tile_cols * 64, tile % tile_cols * 64, s.rows, s.cols, s.depth);
  }
)cuda";

// Rows of a tile belong to one group after another; those after the last group are zeros.
constexpr std::string_view kGroupedBody = R"cuda(
  Product task;
  task.bind(words, dims);
  const Sizes& s = task.size;
  const Ends* const ends = (const Ends*)words[2];
  const i64 groups = dims[17];
  const i64 tile_cols = (s.cols + 63) / 64, tiles = (s.rows + 63) / 64 * tile_cols;
  for (i64 at = blockIdx.x; at < tiles; at += gridDim.x) {
    const i64 row = at / tile_cols * 64, col = at % tile_cols * 64;
    const i64 row_end = int_min(row + 64, s.rows);
    i64 start = 0;
    for (i64 g = 0; g < groups && start < row_end; ++g) {
      const i64 stop = int_min(int_max((i64)ends[g], start), s.rows);
      const i64 from = int_max(start, row), to = int_min(stop, row_end);
      start = stop;
      if (from >= to) continue;
      task.b_first = g * s.b[0];
      tile_product(task, from, col, to, s.cols, s.depth);
    }
    if (start < row_end) tile_product(task, int_max(start, row), col, row_end, s.cols, (i64)0);
  }
)cuda";

constexpr std::string_view kGroupedGradBody = R"cuda(
  Product task;
  task.bind(words, dims);
  const Sizes& s = task.size;
  const Ends* const ends = (const Ends*)words[2];
  const i64 groups = dims[17];
  const i64 tile_cols = (s.cols + 63) / 64, tiles = (s.rows + 63) / 64 * tile_cols;
  for (i64 at = blockIdx.x; at < groups * tiles; at += gridDim.x) {
    const i64 group = at / tiles, tile = at % tiles;
    i64 start = 0, stop = 0;
    for (i64 g = 0; g <= group; ++g) {
      start = stop;
      stop = int_min(int_max((i64)ends[g], start), s.depth);
    }
    task.a_first = start * s.a[3];
    task.b_first = start * s.b[2];
    task.c_first = group * s.c[0];
    tile_product(task, tile / tile_cols * 64, tile % tile_cols * 64, s.rows, s.cols, stop - start);
  }
)cuda";

void declare_operands(ProblemText& out, const problems::MatmulProblem& p) {
  out.accumulator(p.a);
  out.operand("Left", 0, p.a);
  out.operand("Right", 1, p.b);
  out.finish(p.c);
  out.text += kSizes;
  out.text += tile_product_text();
}

}  // namespace

KernelText matmul_text(const problems::MatmulProblem& problem, const AttachedKernels& attached,
                       std::span<const Dim> dims, const DeviceLimits& limits) {
  GEX_CHECK(!problem.b_packed, "CUDA products read B as it lies in memory");
  ProblemText out("gex_matmul", attached, 2, 1, false, limits);
  declare_operands(out, problem);
  const Dim work = dims[at_dim::batch0] * dims[at_dim::batch1] * tiles(dims);
  return out.done(std::string(kMatmulBody), kTileThreads, capped_grid(work, limits, kBlocksEach), 0,
                  0);
}

KernelText grouped_text(const problems::GroupedMatmulProblem& problem, std::span<const Dim> dims,
                        const DeviceLimits& limits) {
  const AttachedKernels none;
  ProblemText out("gex_grouped_matmul", none, 3, 1, false, limits);
  declare_operands(out, problem.product);
  out.text += str("typedef ", problem.ends == DType::i64 ? "i64" : "int", " Ends;\n");
  return out.done(std::string(kGroupedBody), kTileThreads,
                  capped_grid(tiles(dims), limits, kBlocksEach), 0, 0);
}

KernelText grouped_grad_text(const problems::GroupedMatmulProblem& problem,
                             std::span<const Dim> dims, const DeviceLimits& limits) {
  const AttachedKernels none;
  ProblemText out("gex_grouped_weight_grad", none, 3, 1, false, limits);
  declare_operands(out, problem.product);
  out.text += str("typedef ", problem.ends == DType::i64 ? "i64" : "int", " Ends;\n");
  const Dim work = dims[at_dim::count] * tiles(dims);
  return out.done(std::string(kGroupedGradBody), kTileThreads,
                  capped_grid(work, limits, kBlocksEach), 0, 0);
}

}  // namespace gex::backend::cuda
