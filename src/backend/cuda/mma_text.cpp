#include "backend/cuda/mma_text.hpp"

namespace gex::backend::cuda {

std::string_view mma_tile_text() {
  return R"cuda(
typedef unsigned short Half;
GEX_FN Half to_half(float v) { return kBf16 ? to_bf16(v) : to_f16(v); }

// Tiles in shared memory are rows of 64 elements (128 bytes). The 8 16-byte chunks of a row are
// swizzled by the row number, so that 8 neighbouring rows use all banks. Operands contiguous along
// the depth: a row holds 64 depth elements of one line (a row of A or a column of B). Otherwise:
// panels of 64 rows, one per depth element, each with 64 lines.
GEX_FN u32 piece(u32 tile, int row, int at) { return tile + row * 128 + ((at ^ (row & 7)) << 4); }

template <int lines, bool by_depth, bool computed, class Operand>
GEX_FN void load_tile(u32 tile, const Operand& operand, i64 first_line, i64 end_line, i64 first, i64 depth) {
  const int thread = (int)threadIdx.x;
  if (computed) {
    for (int e = thread; e < lines * 64; e += 256) {
      const int line = e / 64, k = e % 64;
      const bool valid = first_line + line < end_line && first + k < depth;
      store_shared(piece(tile, line, k / 8) + k % 8 * 2,
                   valid ? to_half(operand.value(first_line + line, first + k)) : (Half)0);
    }
  } else if (by_depth) {
    // 32 lines at a time: the chunks that a thread copies are a constant number of lines apart.
    const int at = thread % 8;
    const i64 line = first_line + thread / 8, stride = operand.line_stride();
    const Half* from = operand.address(line, first + at * 8);
    const u32 to = piece(tile, thread / 8, at);
    const bool inside = first + at * 8 < depth;
#pragma unroll
    for (int i = 0; i < lines / 32; ++i) {
      const bool valid = inside && line + i * 32 < end_line;
      copy_async(to + i * 32 * 128, valid ? from + i * 32 * stride : operand.start(), valid);
    }
  } else {
    const int per_step = lines / 8, at = thread % per_step, steps_apart = 256 / per_step;
    const i64 k = first + thread / per_step, stride = operand.depth_stride();
    const Half* from = operand.address(first_line + at * 8, k);
    const u32 to = piece(tile, at / 8 * 64 + thread / per_step, at % 8);
    const bool inside = first_line + at * 8 < end_line;
#pragma unroll
    for (int i = 0; i < 64 / steps_apart; ++i) {
      const bool valid = inside && k + i * steps_apart < depth;
      const u32 place = steps_apart % 8 == 0 ? to + i * steps_apart * 128
                                             : piece(tile, at / 8 * 64 + thread / per_step + i * steps_apart, at % 8);
      copy_async(place, valid ? from + i * steps_apart * stride : operand.start(), valid);
    }
  }
}

// The operands indexed by (line, depth).
struct LeftLines {
  const Product& p;
  GEX_METHOD Acc value(i64 line, i64 k) const { return p.left(line, k); }
  GEX_METHOD const Half* start() const { return p.a.memory(); }
  GEX_METHOD const Half* address(i64 line, i64 k) const {
    return p.a.memory() + p.a_first + line * p.size.a[2] + k * p.size.a[3];
  }
  GEX_METHOD i64 line_stride() const { return p.size.a[2]; }
  GEX_METHOD i64 depth_stride() const { return p.size.a[3]; }
};
struct RightLines {
  const Product& p;
  GEX_METHOD Acc value(i64 line, i64 k) const { return p.right(k, line); }
  GEX_METHOD const Half* start() const { return p.b.memory(); }
  GEX_METHOD const Half* address(i64 line, i64 k) const {
    return p.b.memory() + p.b_first + line * p.size.b[3] + k * p.size.b[2];
  }
  GEX_METHOD i64 line_stride() const { return p.size.b[3]; }
  GEX_METHOD i64 depth_stride() const { return p.size.b[2]; }
};

// `split` blocks of a cluster divide the depth of a tile; their sums are added in order.
template <int BM, int BN, int WM, int WN, int stages, int split>
GEX_FN void mma_tile(const Product& task, i64 row0, i64 col0, char* shared_memory) {
  const u32 shared = shared_address(shared_memory);
  const bool left_rows = kLeftByDepth || kLeftComputed, right_rows = kRightByDepth || kRightComputed;
  const int left_bytes = (BM < 64 ? 64 : BM) * 128, stage_bytes = left_bytes + (BN < 64 ? 64 : BN) * 128;
  const int TM = BM / WM / 16, TN = BN / WN / 16;  // 16-line fragments of a warp
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int wm = warp / WN * (BM / WM), wn = warp % WN * (BN / WN);
  const LeftLines left = {task};
  const RightLines right = {task};
  const i64 depth = task.size.depth;
  const int all_steps = (int)((depth + 63) / 64), share = (all_steps + split - 1) / split;
  const int from = split == 1 ? 0 : (int)cluster_rank() * share;
  const int steps = split == 1 ? all_steps : all_steps - from < share ? (all_steps > from ? all_steps - from : 0) : share;
  const auto load = [&](int step) {
    const u32 at = shared + step % stages * stage_bytes;
    const i64 first = (i64)(from + step) * 64;
    load_tile<BM, kLeftByDepth, kLeftComputed>(at, left, row0, task.size.rows, first, depth);
    load_tile<BN, kRightByDepth, kRightComputed>(at + left_bytes, right, col0, task.size.cols, first, depth);
  };
  float sum[TM][2 * TN][4];
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < 2 * TN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;
#pragma unroll 1
  for (int s = 0; s < stages - 1; ++s) {
    if (s < steps) load(s);
    commit_copies();
  }
  const int quarter = lane / 8, in_quarter = lane % 8;
  for (int step = 0; step < steps; ++step) {
    wait_copies<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) load(step + stages - 1);
    commit_copies();
    const u32 a = shared + step % stages * stage_bytes;
    const u32 b = a + left_bytes;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      u32 fa[TM][4], fb[TN][4];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        const int line = wm + i * 16 + quarter % 2 * 8;
        if (left_rows)
          load_matrices(fa[i], piece(a, line + in_quarter, k * 2 + quarter / 2));
        else
          load_matrices_transposed(fa[i], piece(a, line / 64 * 64 + k * 16 + quarter / 2 * 8 + in_quarter, line % 64 / 8));
      }
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        const int line = wn + j * 16 + quarter / 2 * 8;
        if (right_rows)
          load_matrices(fb[j], piece(b, line + in_quarter, k * 2 + quarter % 2));
        else
          load_matrices_transposed(fb[j], piece(b, line / 64 * 64 + k * 16 + quarter % 2 * 8 + in_quarter, line % 64 / 8));
      }
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          mma_16816<kBf16>(sum[i][2 * j], fa[i], fb[j][0], fb[j][1]);
          mma_16816<kBf16>(sum[i][2 * j + 1], fa[i], fb[j][2], fb[j][3]);
        }
    }
  }
  wait_copies<0>();
  __syncthreads();
  if constexpr (split > 1) {
    float* const part = (float*)shared_memory;  // [BM][BN]
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < 2 * TN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          part[(wm + i * 16 + e / 2 * 8 + lane / 4) * BN + wn + j * 8 + lane % 4 * 2 + e % 2] = sum[i][j][e];
    cluster_sync();
    for (int e = (int)cluster_rank() * 256 + (int)threadIdx.x; e < BM * BN; e += 256 * split) {
      float total = cluster_float(part + e, 0);
#pragma unroll
      for (int c = 1; c < split; ++c) total += cluster_float(part + e, c);
      const i64 row = row0 + e / BN, col = col0 + e % BN;
      if (row < task.size.rows && col < task.size.cols) task.finish(row, col, total);
    }
    cluster_sync();
  } else {
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < 2 * TN; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = row0 + wm + i * 16 + h * 8 + lane / 4, col = col0 + wn + j * 8 + lane % 4 * 2;
        if (row < task.size.rows) {
          if (col < task.size.cols) task.finish(row, col, sum[i][j][2 * h]);
          if (col + 1 < task.size.cols) task.finish(row, col + 1, sum[i][j][2 * h + 1]);
        }
      }
  }
}

template <int BM, int BN, int WM, int WN, int stages, int split>
GEX_FN void mma_product(Product& task, Blocks block, char* shared) {
  const Sizes& s = task.size;
  const i64 tile_rows = (s.rows + BM - 1) / BM, tiles = tile_rows * ((s.cols + BN - 1) / BN);
  for (i64 at = block.index / split; at < s.batch0 * s.batch1 * tiles; at += block.count / split) {
    const i64 batch = at / tiles, tile = at % tiles;
    task.set_batch(batch);
    mma_tile<BM, BN, WM, WN, stages, split>(task, tile % tile_rows * BM, tile / tile_rows * BN, shared);
  }
}
)cuda";
}

std::string_view stream_plan_text() {
  return R"cuda(
// Elements of one row of A in shared memory: rows are half a line of banks apart.
GEX_FN i64 stream_pitch(i64 depth) { return (depth + 63) / 64 * 64 + 32; }

// How the tiles of a product of few rows are spread over a block: 8 warps, `split` of them share the
// depth of one tile.
struct StreamPlan {
  i64 units;  // of a batch: `at_once` tiles each
  int split, at_once;
  GEX_METHOD StreamPlan(const Sizes& s) {
    const i64 tiles = (s.cols + kStreamColumns - 1) / kStreamColumns;
    split = 8;
    while (split > 1 && tiles * split > 32 * kMultiprocessors) split /= 2;
    at_once = 8 / split;
    units = (tiles + at_once - 1) / at_once;
  }
};

// Loads a thread's pieces of B for one round of a unit; the task is at the unit's batch.
GEX_FN void stream_request(const Product& task, const StreamPlan& plan, i64 unit, int round, uint4 (&w)[4][2]) {
  const Sizes& s = task.size;
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const i64 n0 = (unit % plan.units * plan.at_once + warp / plan.split) * kStreamColumns + g, n1 = n0 + 8;
  const bool first = n0 < s.cols, second = kStreamColumns == 16 && n1 < s.cols;
  const Half* const w0 = task.b.memory() + task.b_first + (first ? n0 : 0) * s.b[3];
  const Half* const w1 = task.b.memory() + task.b_first + (second ? n1 : 0) * s.b[3];
  const uint4 zero = {0, 0, 0, 0};
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const i64 k = ((i64)round * plan.split + warp % plan.split) * 128 + u * 32 + t * 8;
    w[u][0] = first && k < s.depth ? load_once(w0 + k) : zero;
    w[u][1] = second && k < s.depth ? load_once(w1 + k) : zero;
  }
}

// The first chunks of B that a block reads, before it waits for A.
GEX_FN void stream_prepare(Product& task, Blocks block, Requested& requested) {
  const StreamPlan plan(task.size);
  if (block.index >= task.size.batch0 * task.size.batch1 * plan.units) return;
  task.set_batch(block.index / plan.units);
  stream_request(task, plan, block.index, 0, requested.pieces);
}
)cuda";
}

std::string_view stream_product_text() {
  return R"cuda(
// A block takes tiles of 8 or 16 columns. `split` of its warps share the depth of one tile, 128 steps at
// a time. The columns of B are the lines of the left fragments, so that a thread's 16 bytes of one
// column are 8 steps of the depth; the order of steps is the same for both operands.
template <int G>
GEX_FN void stream_product(Product& task, Blocks block, char* shared, const Requested& requested) {
  const Sizes& s = task.size;
  const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const int C = kStreamColumns, H = C / 8;
  const i64 pitch = stream_pitch(s.depth);
  const StreamPlan plan(s);
  const int split = plan.split, at_once = plan.at_once, part = warp % split;
  const i64 units = plan.units;
  const int rounds = (int)((s.depth + 128 * split - 1) / (128 * split));
  float* const joined = (float*)shared;
  Half* const x = (Half*)(shared + 8 * 256 * 4);
  i64 staged = -1;
  for (i64 unit = block.index; unit < s.batch0 * s.batch1 * units; unit += block.count) {
    const i64 batch = unit / units, tile = unit % units * at_once + warp / split;
    task.set_batch(batch);
    const i64 n0 = tile * C + g, n1 = n0 + 8;
    uint4 w[4][2];
    if (kWaitsForLeft && staged < 0) {
#pragma unroll
      for (int u = 0; u < 4; ++u) w[u][0] = requested.pieces[u][0], w[u][1] = requested.pieces[u][1];
    } else {
      stream_request(task, plan, unit, 0, w);
    }
    if (batch != staged) {
      if (kWaitsForLeft) wait_for_inputs();
      __syncthreads();
      if (kLeftComputed || s.a[3] != 1) {
        const int depth = (int)s.depth;
        for (int r = 0; r < (int)s.rows; ++r)
#pragma unroll 8
          for (int k = thread; k < depth; k += 256) x[r * pitch + k] = to_half(task.left(r, k));
      } else {
        const int pieces = (int)(s.depth / 8);
        const Half* from = task.a.memory() + task.a_first;
        for (int r = 0; r < (int)s.rows; ++r, from += s.a[2])
          for (int e = thread; e < pieces; e += 256)
            copy_async(shared_address(x + r * pitch + e * 8), from + e * 8, true);
        wait_all_copies();
      }
      __syncthreads();
      staged = batch;
    }
    float sum[G][4];
#pragma unroll
    for (int i = 0; i < G; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][e] = 0.0f;
    for (int round = 0; round < rounds; ++round) {
      uint4 now[4][2];
#pragma unroll
      for (int u = 0; u < 4; ++u) now[u][0] = w[u][0], now[u][1] = w[u][1];
      if (round + 1 < rounds) stream_request(task, plan, unit, round + 1, w);
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const i64 k = ((i64)round * split + part) * 128 + u * 32 + t * 8;
        const u32 first[4] = {now[u][0].x, now[u][1].x, now[u][0].y, now[u][1].y};
        const u32 second[4] = {now[u][0].z, now[u][1].z, now[u][0].w, now[u][1].w};
#pragma unroll
        for (int i = 0; i < G; ++i) {
          uint4 b = {0, 0, 0, 0};
          if (i * 8 + g < s.rows && k < s.depth) b = *(const uint4*)(x + (i * 8 + g) * pitch + k);
          mma_16816<kBf16>(sum[i], first, b.x, b.y);
          mma_16816<kBf16>(sum[i], second, b.z, b.w);
        }
      }
    }
    if (split == 1) {
#pragma unroll
      for (int i = 0; i < G; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const i64 row = i * 8 + t * 2 + e % 2, col = e < 2 ? n0 : n1;
          if (row < s.rows && col < s.cols && e / 2 < H) task.finish(row, col, sum[i][e]);
        }
      continue;
    }
#pragma unroll
    for (int i = 0; i < G; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (e / 2 < H) joined[warp * 256 + (i * 8 + t * 2 + e % 2) * C + g + e / 2 * 8] = sum[i][e];
    __syncthreads();
    const int rows = (int)s.rows;
    for (int e = thread; e < at_once * rows * C; e += 256) {
      const int which = e / (rows * C), inside = e % (rows * C);
      float total = joined[which * split * 256 + inside];
      for (int p = 1; p < split; ++p) total += joined[(which * split + p) * 256 + inside];
      const i64 col = (unit % units * at_once + which) * C + inside % C;
      if (col < s.cols) task.finish(inside / C, col, total);
    }
    __syncthreads();
  }
  // The next kernel must not begin before those before this one have ended.
  if (kWaitsForLeft && staged < 0) wait_for_inputs();
}
)cuda";
}

}  // namespace gex::backend::cuda
