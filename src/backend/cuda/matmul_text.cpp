// Matmuls: batched, and grouped by rows.

#include <algorithm>
#include <optional>

#include "backend/cuda/mma_plan.hpp"
#include "backend/cuda/mma_text.hpp"
#include "backend/cuda/problem_text.hpp"
#include "backend/cuda/tile_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

constexpr int kBlocksEach = 8;  // on one multiprocessor

Dim tiles(std::span<const Dim> dims) {
  return ceildiv(dims[matmul_dim::m], kTileRows) * ceildiv(dims[matmul_dim::n], kTileCols);
}

// The sizes and strides of a matmul launch.
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
  GEX_METHOD i64 right_first(i64 batch) const {
    return batch / size.batch1 * size.b[0] + batch % size.batch1 * size.b[1];
  }
  GEX_METHOD void set_batch(i64 batch) {
    const i64 outer = batch / size.batch1, inner = batch % size.batch1;
    a_first = outer * size.a[0] + inner * size.a[1];
    b_first = right_first(batch);
    c_first = outer * size.c[0] + inner * size.c[1];
    point_first = batch * size.rows * size.cols;
  }
  GEX_METHOD Acc left(i64 row, i64 k) const { return a(a_first + row * size.a[2] + k * size.a[3]); }
  GEX_METHOD Acc right(i64 k, i64 col) const { return b(b_first + k * size.b[2] + col * size.b[3]); }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const {
    done(point_first + row * size.cols + col, c_first + row * size.c[2] + col * size.c[3], sum);
  }
};
)cuda";

constexpr std::string_view kTilesBody = R"cuda(
  const Sizes& s = task.size;
  tiled_product(task, block, s.batch0 * s.batch1, s.rows, s.cols, s.depth);
)cuda";

constexpr std::string_view kFallbackBody = R"cuda(
  const Sizes& s = task.size;
  all_tiles<4, true>(task, block, s.batch0 * s.batch1, s.rows, s.cols, s.depth);
)cuda";

// Few rows of f32: the columns of B, contiguous along the depth, are read once per 4 rows; each
// warp reads two columns.
constexpr std::string_view kStreamF32 = R"cuda(
GEX_FN void stream_f32(Product& task, Blocks block, float* x) {
  const Sizes& s = task.size;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, depth = (int)s.depth;
  const i64 pairs = (s.cols + 1) / 2, units = (pairs + 7) / 8;
  i64 staged = -1;
  for (i64 unit = block.index; unit < s.batch0 * s.batch1 * units; unit += block.count) {
    const i64 batch = unit / units;
    task.set_batch(batch);
    if (batch != staged) {
      __syncthreads();
      for (int r = 0; r < (int)s.rows; ++r)
        for (int k = (int)threadIdx.x; k < depth; k += 256) x[r * depth + k] = task.left(r, k);
      __syncthreads();
      staged = batch;
    }
    const i64 col = (unit % units * 8 + warp) * 2;
    if (col >= s.cols) continue;
    const bool two = col + 1 < s.cols;
    const float* const w0 = task.b.memory() + task.b_first + col * s.b[3];
    const float* const w1 = two ? w0 + s.b[3] : w0;
    for (int r0 = 0; r0 < (int)s.rows; r0 += 4) {
      float sum[4][2];
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i / 2][i % 2] = 0.0f;
#pragma unroll 4
      for (int k = lane * 4; k < depth; k += 128) {
        const float4 a = *(const float4*)(w0 + k), b = *(const float4*)(w1 + k);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (r0 + i >= (int)s.rows) break;
          const float4 v = *(const float4*)(x + (r0 + i) * depth + k);
          sum[i][0] = mul_add(v.w, a.w, mul_add(v.z, a.z, mul_add(v.y, a.y, mul_add(v.x, a.x, sum[i][0]))));
          sum[i][1] = mul_add(v.w, b.w, mul_add(v.z, b.z, mul_add(v.y, b.y, mul_add(v.x, b.x, sum[i][1]))));
        }
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float all = sum[i / 2][i % 2];
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) all += __shfl_xor_sync(0xffffffffu, all, lanes);
        if (lane == i && r0 + i / 2 < s.rows && (i % 2 == 0 || two)) task.finish(r0 + i / 2, col + i % 2, all);
      }
    }
  }
}
)cuda";

// Whether the operands can be loaded with 16-byte loads, and how those of A are.
constexpr std::string_view kAligned = R"cuda(
GEX_FN bool aligned_left(const Product& p) {
  const Sizes& s = p.size;
  const i64 line = kLeftByDepth ? s.a[2] : s.a[3], along = kLeftByDepth ? s.depth : s.rows;
  const bool contiguous = (kLeftByDepth ? s.a[3] : s.a[2]) == 1;
  return kLeftComputed || (contiguous && ((i64)p.a.memory() | (2 * (line | s.a[0] | s.a[1] | along))) % 16 == 0);
}
// The same for a left operand that is contiguous along the depth.
GEX_FN bool aligned_rows(const Product& p) {
  const Sizes& s = p.size;
  const i64 row = s.rows > 1 ? s.a[2] : 0;
  return ((i64)p.a.memory() | (2 * (row | s.a[0] | s.a[1] | s.depth))) % 16 == 0;
}
GEX_FN bool aligned_right(const Product& p) {
  const Sizes& s = p.size;
  const i64 line = kRightByDepth ? s.b[3] : s.b[2], along = kRightByDepth ? s.depth : s.cols;
  const bool contiguous = (kRightByDepth ? s.b[2] : s.b[3]) == 1;
  return kRightComputed || (contiguous && ((i64)p.b.memory() | (2 * (line | s.b[0] | s.b[1] | along))) % 16 == 0);
}
// 16 bytes of A, which is in global memory or already in shared memory.
GEX_FN void stage_piece(unsigned short* to, const unsigned short* from) {
  if (kLeftShared) *(uint4*)to = *(const uint4*)from;
  else copy_async(shared_address(to), from, true);
}
)cuda";

// A work item is a tile of one group. Each group has at most one partial tile, so there are fewer
// than rows / tile + groups + 1 row tiles; the last group holds the rows after all ends, whose
// results are zero.
constexpr std::string_view kGroupedBody = R"cuda(
  Product task;
  task.bind(words, dims);
  const i64 rows = task.size.rows, cols = task.size.cols, depth = task.size.depth, groups = dims[17];
  const Ends* const ends = (const Ends*)words[2];
  GEX_DECLARE_LOCALS
  const bool wide = kUsesMma && grouped_aligned(task);
  const i64 tile_cols = (cols + kGroupedCols - 1) / kGroupedCols;
  const i64 work = (rows / 64 + groups + 1) * tile_cols;
  for (i64 at = block.index; at < work; at += block.count) {
    const i64 wanted = at / tile_cols, col = at % tile_cols * kGroupedCols;
    i64 start = 0, before = 0, row = -1, stop = 0, group = 0;
    for (; group <= groups; ++group) {
      stop = group == groups ? rows : int_min(int_max((i64)ends[group], start), rows);
      const i64 tiles = (stop - start + 63) / 64;
      if (wanted < before + tiles) {
        row = start + (wanted - before) * 64;
        break;
      }
      before += tiles;
      start = stop;
    }
    if (row < 0) break;
    task.b_first = group == groups ? 0 : group * task.size.b[0];
    task.size.rows = stop;
    task.size.depth = group == groups ? 0 : depth;
    if (wide)
      grouped_tile(task, row, col, (char*)gex_locals);
    else
      for (i64 c = col; c < int_min(col + kGroupedCols, cols); c += 64)
        tile_product<4, true>(task, row, c, stop, cols, task.size.depth);
  }
)cuda";

// The function that kGroupedBody calls, with and without tensor cores.
constexpr std::string_view kGroupedMma = R"cuda(
GEX_FN bool grouped_aligned(const Product& p) { return aligned_left(p) && aligned_right(p); }
GEX_FN void grouped_tile(const Product& p, i64 row, i64 col, char* shared) {
  mma_tile<64, 128, 2, 4, 4, 1>(p, row, col, shared);
}
)cuda";
constexpr std::string_view kGroupedPlain = R"cuda(
GEX_FN bool grouped_aligned(const Product&) { return false; }
GEX_FN void grouped_tile(const Product&, i64, i64, char*) {}
)cuda";

constexpr std::string_view kGroupedGradBody = R"cuda(
  Product task;
  task.bind(words, dims);
  const Sizes& s = task.size;
  const Ends* const ends = (const Ends*)words[2];
  const i64 groups = dims[17];
  const i64 tile_cols = (s.cols + 63) / 64, tiles = (s.rows + 63) / 64 * tile_cols;
  for (i64 at = block.index; at < groups * tiles; at += block.count) {
    const i64 group = at / tiles, tile = at % tiles;
    i64 start = 0, stop = 0;
    for (i64 g = 0; g <= group; ++g) {
      start = stop;
      stop = int_min(int_max((i64)ends[g], start), s.depth);
    }
    task.a_first = start * s.a[3];
    task.b_first = start * s.b[2];
    task.c_first = group * s.c[0];
    tile_product<4>(task, tile / tile_cols * 64, tile % tile_cols * 64, s.rows, s.cols, stop - start);
  }
)cuda";

void declare_operands(ProblemText& out, const problems::MatmulProblem& p) {
  out.accumulator(p.a);
  out.operand("Left", 0, p.a);
  out.operand("Right", 1, p.b);
  out.finish(p.c);
  out.constant("kMultiprocessors", out.limits.multiprocessors);
  out.text += kSizes;
  out.tile_product(p.a);
}

// The sizes of a product that a persistent kernel computes itself: few rows, weights that are
// contiguous along the depth, a dense left operand.
std::optional<KernelText::Product> phase_product(const problems::MatmulProblem& p,
                                                 std::span<const Dim> dims) {
  if (std::any_of(dims.begin(), dims.end(), [](Dim dim) { return !dim.is_const(); }))
    return std::nullopt;
  const auto at = [&](int i) { return dims[static_cast<std::size_t>(i)].constant(); };
  KernelText::Product product{at(matmul_dim::m),  at(matmul_dim::n),
                              at(matmul_dim::k),  at(matmul_dim::b_strides + 3),
                              p.a == DType::bf16, problems::contains(p.computed, 0)};
  const bool dense =
      product.computed || (at(matmul_dim::a_strides + 3) == 1 &&
                           (product.rows == 1 || at(matmul_dim::a_strides + 2) == product.depth));
  constexpr std::int64_t kMostRows = 8, kMostBytes = 64 * 1024;
  if (p.a != p.b || !is_low_float(p.a) || p.any_rows || problems::contains(p.computed, 1) ||
      !dense || at(matmul_dim::batch0) * at(matmul_dim::batch1) != 1 ||
      at(matmul_dim::b_strides + 2) != 1 || product.rows < 1 || product.rows > kMostRows ||
      product.cols < 1 || product.depth < 8 || (product.depth | product.stride) % 8 != 0 ||
      product.rows * product.depth * 2 > kMostBytes)
    return std::nullopt;
  return product;
}

// The parts of a phase that differ between products.
constexpr std::string_view kPhaseProduct = R"cuda(
GEX_FN void finish(const i64* words, int row, int col, float sum) {
  GEX_DIMS
  Finish done;
  done.bind(words);
  done((i64)row * dims[3] + col, row * dims[15] + col * dims[16], sum);
}
)cuda";
constexpr std::string_view kPhaseLeft = R"cuda(
GEX_FN void stage_left(const i64* words, unsigned short* x) {
  GEX_DIMS
  Left left;
  left.bind(words);
#pragma unroll 4
  for (int e = (int)threadIdx.x; e < (int)(dims[2] * dims[4]); e += 256) {
    const float v = left(e / dims[4] * dims[7] + e % dims[4] * dims[8]);
    x[e] = kBf16 ? to_bf16(v) : to_f16(v);
  }
}
)cuda";

constexpr std::int64_t kF32StreamRows = 16, kF32StreamBytes = 64 * 1024;

// Shared memory of stream_f32, or nothing if the matmul cannot use it.
std::optional<Dim> f32_stream_bytes(const problems::MatmulProblem& p, std::span<const Dim> dims) {
  if (p.a != DType::f32 || p.b != DType::f32 || p.any_rows || problems::contains(p.computed, 1) ||
      !(dims[matmul_dim::b_strides + 2] == Dim(1)) ||
      dims[matmul_dim::m].range().lo > kF32StreamRows)
    return std::nullopt;
  return min(min(dims[matmul_dim::m], Dim(kF32StreamRows)) * dims[matmul_dim::k] * Dim(4),
             Dim(kF32StreamBytes));
}

// Products of few rows whose sizes are constants may be phases of a persistent kernel. Their right
// operand is read from global memory.
void set_phase(KernelText& text, const ProblemText& out, const problems::MatmulProblem& p,
               std::span<const Dim> dims) {
  text.phase = is_low_float(p.a)
                   ? phase_product(p, dims).has_value()
                   : std::all_of(dims.begin(), dims.end(), [](Dim dim) { return dim.is_const(); });
  text.exchangeable = out.exchangeable({size_of(p.a) >= 2, false});
}

// The text of a product as a phase of a persistent kernel.
KernelText phase_text(ProblemText& out, const problems::MatmulProblem& p,
                      std::span<const Dim> dims) {
  const auto product = phase_product(p, dims);
  GEX_CHECK(product, "a product that can't be a phase");
  out.accumulator(p.a);
  if (product->computed) out.operand("Left", 0, p.a);
  out.finish(p.c);
  out.constant("kBf16", product->bf16 ? 1 : 0);
  std::string sizes;
  for (Dim dim : dims) sizes += str(sizes.empty() ? "" : ", ", dim.constant(), "ll");
  out.text += str("#undef GEX_DIMS\n#define GEX_DIMS const i64 dims[] = {", sizes, "};\n");
  if (product->computed) out.text += kPhaseLeft;
  out.text += kPhaseProduct;
  KernelText text;
  text.name = out.name;
  text.part = out.text;
  text.block = kMmaThreads;
  text.words = out.buffers + static_cast<int>(dims.size());
  text.shared_bytes = 0;
  text.product = product;
  return text;
}

void declare_mma(ProblemText& out, const problems::MatmulProblem& p, const MmaPlan& plan) {
  out.constant("kBf16", p.a == DType::bf16 ? 1 : 0);
  out.constant("kLeftByDepth", plan.left_by_depth ? 1 : 0);
  out.constant("kRightByDepth", plan.right_by_depth ? 1 : 0);
  out.constant("kLeftComputed", problems::contains(p.computed, 0) ? 1 : 0);
  out.constant("kRightComputed", problems::contains(p.computed, 1) ? 1 : 0);
  out.constant("kStreamColumns", plan.stream_columns);
  out.constant("kWaitsForLeft", plan.waits ? 1 : 0);
  out.constant("kLeftShared", plan.left_shared ? 1 : 0);
  out.text += kAligned;
  out.text += mma_fragments_text();
  out.text += mma_tile_text();
  if (plan.stream) {
    out.text += stream_plan_text();
    out.text += stream_product_text();
  }
}

}  // namespace

KernelText matmul_text(const problems::MatmulProblem& problem, const AttachedKernels& attached,
                       std::span<const Dim> dims, const DeviceLimits& limits) {
  GEX_CHECK(!problem.b_packed, "CUDA matmuls read B in its own layout, not packed");
  ProblemText out("gex_matmul", attached, 2, 1, false, dims, limits);
  if (limits.persistent && is_low_float(problem.a)) return phase_text(out, problem, dims);
  declare_operands(out, problem);
  std::string body = "  Product task;\n  task.bind(words, dims);\n";
  const Dim batches = dims[matmul_dim::batch0] * dims[matmul_dim::batch1];
  const Dim work = batches * tiles(dims);
  MmaPlan plan = mma_plan(problem, dims, limits);
  plan.waits = plan.stream && limits.dependent_launch && attached.constant_right;
  plan.left_shared = !attached.exchanged.empty() && attached.exchanged.front();
  if (const auto bytes = f32_stream_bytes(problem, dims)) {
    out.text += kStreamF32;
    body +=
        str("  GEX_DECLARE_LOCALS\n  if (task.size.b[2] == 1 && task.size.rows <= ", kF32StreamRows,
            " && (task.size.depth | task.size.b[3] | task.size.b[0] | task.size.b[1]) % 4 == 0 &&\n"
            "      (i64)task.b.memory() % 16 == 0 && task.size.rows * task.size.depth * 4 <= ",
            kF32StreamBytes, ")\n    return stream_f32(task, block, (float*)gex_locals);\n");
    KernelText text = out.done(
        body + std::string(kTilesBody), kTileThreads,
        capped_grid(max(work, batches * ceildiv(dims[matmul_dim::n], 16)), limits, 4), *bytes, 0);
    set_phase(text, out, problem, dims);
    return text;
  }
  if (!plan.any())
    return out.done(body + std::string(kTilesBody), kTileThreads,
                    capped_grid(work, limits, kBlocksEach), 0, 0);
  declare_mma(out, problem, plan);
  body += plan.body();
  KernelText text =
      out.done(body + std::string(kFallbackBody), kMmaThreads, plan.grid(dims),
               plan.shared_bytes(dims), 0, plan.blocks_each(), plan.split(), plan.prepare());
  if (plan.tiles.empty()) set_phase(text, out, problem, dims);
  return text;
}

KernelText grouped_text(const problems::GroupedMatmulProblem& problem, std::span<const Dim> dims,
                        const DeviceLimits& limits) {
  const AttachedKernels none;
  ProblemText out("gex_grouped_matmul", none, 3, 1, false, dims, limits);
  declare_operands(out, problem.product);
  out.text += str("typedef ", problem.ends == DType::i64 ? "i64" : "int", " Ends;\n");
  problems::MatmulProblem by_tiles = problem.product;
  by_tiles.any_rows = true;
  const MmaPlan plan = mma_plan(by_tiles, dims, limits);
  // Groups may begin at any row.
  const bool mma = !plan.tiles.empty() && plan.left_by_depth;
  out.constant("kUsesMma", mma ? 1 : 0);
  out.constant("kGroupedCols", mma ? kSmallTile.cols : kTileCols);
  if (mma) declare_mma(out, by_tiles, plan);
  out.text += mma ? kGroupedMma : kGroupedPlain;
  const Dim work = (floordiv(dims[matmul_dim::m], kTileRows) + dims[matmul_dim::count] + 1) *
                   ceildiv(dims[matmul_dim::n], mma ? kSmallTile.cols : kTileCols);
  return out.done(std::string(kGroupedBody), kTileThreads, capped_grid(work, limits, mma ? 2 : 8),
                  mma ? kSmallTile.bytes() : 0, 0);
}

KernelText grouped_grad_text(const problems::GroupedMatmulProblem& problem,
                             std::span<const Dim> dims, const DeviceLimits& limits) {
  const AttachedKernels none;
  ProblemText out("gex_grouped_weight_grad", none, 3, 1, false, dims, limits);
  declare_operands(out, problem.product);
  out.text += str("typedef ", problem.ends == DType::i64 ? "i64" : "int", " Ends;\n");
  const Dim work = dims[matmul_dim::count] * tiles(dims);
  return out.done(std::string(kGroupedGradBody), kTileThreads,
                  capped_grid(work, limits, kBlocksEach), 0, 0);
}

}  // namespace gex::backend::cuda
