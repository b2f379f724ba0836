#include "backend/cuda/mma_text.hpp"

namespace gex::backend::cuda {

std::string_view mma_fragments_text() {
  return R"cuda(
typedef unsigned short Half;
GEX_FN Half to_half(float v) { return kBf16 ? to_bf16(v) : to_f16(v); }

// Tiles in shared memory are rows of 64 elements (128 bytes). The 8 16-byte chunks of a row are
// swizzled by the row number, so that 8 neighbouring rows use all banks. Operands contiguous along
// the depth: a row holds 64 depth elements of one line (a row of A or a column of B). Otherwise:
// panels of 64 rows, one per depth element, each with 64 lines.
GEX_FN u32 piece(u32 tile, int row, int at) { return tile + row * 128 + ((at ^ (row & 7)) << 4); }

// Fragments of 16 steps of the depth, from step 16 * k of the tile on, for the lines from `first` on.
// `rows`: a row of the tile holds one line.
template <int count, bool rows>
GEX_FN void load_left(u32 (&f)[count][4], u32 tile, int first, int k) {
  const int quarter = (int)threadIdx.x % 32 / 8, in_quarter = (int)threadIdx.x % 8;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int line = first + i * 16 + quarter % 2 * 8;
    if (rows)
      load_matrices(f[i], piece(tile, line + in_quarter, k * 2 + quarter / 2));
    else
      load_matrices_transposed(f[i], piece(tile, line / 64 * 64 + k * 16 + quarter / 2 * 8 + in_quarter, line % 64 / 8));
  }
}
template <int count, bool rows>
GEX_FN void load_right(u32 (&f)[count][4], u32 tile, int first, int k) {
  const int quarter = (int)threadIdx.x % 32 / 8, in_quarter = (int)threadIdx.x % 8;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const int line = first + j * 16 + quarter / 2 * 8;
    if (rows)
      load_matrices(f[j], piece(tile, line + in_quarter, k * 2 + quarter % 2));
    else
      load_matrices_transposed(f[j], piece(tile, line / 64 * 64 + k * 16 + quarter % 2 * 8 + in_quarter, line % 64 / 8));
  }
}
// Adds the products of 16 steps of the depth: the lines from wm and wn on of the tiles `a` and `b`.
template <int TM, int TN, bool left_rows, bool right_rows>
GEX_FN void multiply_fragments(float (&sum)[TM][2 * TN][4], u32 a, u32 b, int wm, int wn, int k) {
  u32 fa[TM][4], fb[TN][4];
  load_left<TM, left_rows>(fa, a, wm, k);
  load_right<TN, right_rows>(fb, b, wn, k);
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      mma_16816<kBf16>(sum[i][2 * j], fa[i], fb[j][0], fb[j][1]);
      mma_16816<kBf16>(sum[i][2 * j + 1], fa[i], fb[j][2], fb[j][3]);
    }
}
)cuda";
}

std::string_view mma_tile_text() {
  return R"cuda(
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
  for (int step = 0; step < steps; ++step) {
    wait_copies<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) load(step + stages - 1);
    commit_copies();
    const u32 a = shared + step % stages * stage_bytes;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_fragments<TM, TN, left_rows, right_rows>(sum, a, a + left_bytes, wm, wn, k);
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
enum { kStreamHalves = kStreamColumns / 8,              // 8 columns each
       kStreamAhead = kStreamHalves == 1 ? 3 : 2 };  // chunks of B that a thread has requested, at most

// Elements of one row of A in shared memory: rows are half a line of banks apart.
GEX_FN i64 stream_pitch(i64 depth) { return (depth + 63) / 64 * 64 + 32; }

// How the tiles of a product of few rows are spread over a block: 8 warps, `split` of them share the
// depth of one tile, in `rounds` of 128 steps each.
struct StreamPlan {
  int units;  // of a batch: `at_once` tiles each
  int split, at_once, rounds;
  GEX_METHOD StreamPlan(const Sizes& s) {
    const int tiles = (int)((s.cols + kStreamColumns - 1) / kStreamColumns);
    split = 8;
    while (split > 1 && tiles * split > 32 * (int)kMultiprocessors) split /= 2;
    at_once = 8 / split;
    units = (tiles + at_once - 1) / at_once;
    rounds = (int)((s.depth + 128 * split - 1) / (128 * split));
  }
  // A chunk is one round of one of the block's units; how many the block has.
  GEX_METHOD int chunks(const Sizes& s, Blocks block) const {
    const int all = (int)(s.batch0 * s.batch1) * units, index = (int)block.index, count = (int)block.count;
    return index < all ? (all - index + count - 1) / count * rounds : 0;
  }
};

// Loads a thread's elements of B for one chunk; nothing for numbers past the last chunk.
GEX_FN void stream_request(const Product& task, const StreamPlan& plan, Blocks block, int chunk,
                           uint4 (&w)[4][kStreamHalves]) {
  const Sizes& s = task.size;
  const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  const int unit = (int)block.index + chunk / plan.rounds * (int)block.count, round = chunk % plan.rounds;
  const int batches = (int)(s.batch0 * s.batch1);
  const bool valid = unit < batches * plan.units;
  const i64 b_first = valid && batches != 1 ? task.right_first(unit / plan.units) : 0;
  const int in_batch = batches == 1 ? unit : unit % plan.units;
  const int column = (in_batch * plan.at_once + warp / plan.split) * kStreamColumns + g;
  const uint4 zero = {0, 0, 0, 0};
#pragma unroll
  for (int h = 0; h < kStreamHalves; ++h) {
    const int n = column + h * 8;
    const bool inside = valid && n < (int)s.cols;
    const Half* const from = task.b.memory() + b_first + (i64)(inside ? n : 0) * s.b[3];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int k = (round * plan.split + warp % plan.split) * 128 + u * 32 + t * 8;
      w[u][h] = inside && k < (int)s.depth ? load_once(from + k) : zero;
    }
  }
}

// The first chunks of B that a block reads, before it waits for A.
GEX_FN void stream_prepare(Product& task, Blocks block, Requested& requested) {
  const StreamPlan plan(task.size);
#pragma unroll
  for (int a = 0; a < kStreamAhead; ++a) {
    uint4 w[4][kStreamHalves];
    stream_request(task, plan, block, a, w);
#pragma unroll
    for (int u = 0; u < 4; ++u)
#pragma unroll
      for (int h = 0; h < kStreamHalves; ++h) requested.pieces[(a * 4 + u) * kStreamHalves + h] = w[u][h];
  }
}
)cuda";
}

std::string_view stream_product_text() {
  return R"cuda(
// Copies the rows of A of the task's batch to shared memory.
GEX_FN void stream_stage(const Product& task, Half* x, int pitch) {
  const Sizes& s = task.size;
  const int thread = (int)threadIdx.x;
  __syncthreads();
  if (kLeftComputed || s.a[3] != 1) {
    // Many elements at once: each of them waits for memory.
    const int depth = (int)s.depth, last = depth - 1;
    for (int r = 0; r < (int)s.rows; ++r)
      for (int first = thread; first < depth; first += 256 * 8) {
        float v[8];
#pragma unroll
        for (int u = 0; u < 8; ++u) v[u] = task.left(r, first + u * 256 < last ? first + u * 256 : last);
#pragma unroll
        for (int u = 0; u < 8; ++u)
          if (first + u * 256 < depth) x[r * pitch + first + u * 256] = to_half(v[u]);
      }
  } else {
    const int pieces = (int)(s.depth / 8);
    const Half* from = task.a.memory() + task.a_first;
    for (int r = 0; r < (int)s.rows; ++r, from += s.a[2])
      for (int e = thread; e < pieces; e += 256)
        stage_piece(x + r * pitch + e * 8, from + e * 8);
    wait_all_copies();
  }
  __syncthreads();
}

// Adds one chunk to the sums. The columns of B are the lines of the left fragments, so that a
// thread's 16 bytes of one column are 8 steps of the depth; the order of steps is the same for both
// operands.
template <int G>
GEX_FN void stream_multiply(const Product& task, const StreamPlan& plan, const uint4 (&w)[4][kStreamHalves],
                            int round, const Half* x, int pitch, float (&sum)[G][4]) {
  const Sizes& s = task.size;
  const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, part = (int)threadIdx.x / 32 % plan.split;
  const uint4 zero = {0, 0, 0, 0};
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int k = (round * plan.split + part) * 128 + u * 32 + t * 8;
    const uint4 low = w[u][0], high = kStreamHalves == 2 ? w[u][kStreamHalves - 1] : zero;
    const u32 first[4] = {low.x, high.x, low.y, high.y};
    const u32 second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int i = 0; i < G; ++i) {
      uint4 b = zero;
      if (i * 8 + g < (int)s.rows && k < (int)s.depth) b = *(const uint4*)(x + (i * 8 + g) * pitch + k);
      mma_16816<kBf16>(sum[i], first, b.x, b.y);
      mma_16816<kBf16>(sum[i], second, b.z, b.w);
    }
  }
}

// Joins the sums of the warps that share a tile and finishes the elements of a unit.
template <int G>
GEX_FN void stream_finish(const Product& task, const StreamPlan& plan, int unit, const float (&sum)[G][4],
                          float* joined) {
  const Sizes& s = task.size;
  const int thread = (int)threadIdx.x, warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  const int C = kStreamColumns, split = plan.split;
  const int first_tile = (s.batch0 * s.batch1 == 1 ? unit : unit % plan.units) * plan.at_once;
  if (split == 1) {
    const int n = (first_tile + warp) * C + g;
#pragma unroll
    for (int i = 0; i < G; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = i * 8 + t * 2 + e % 2, col = n + e / 2 * 8;
        if (row < (int)s.rows && col < (int)s.cols && e / 2 < kStreamHalves) task.finish(row, col, sum[i][e]);
      }
    return;
  }
#pragma unroll
  for (int i = 0; i < G; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = i * 8 + t * 2 + e % 2;
      if (e / 2 < kStreamHalves && row < s.rows) joined[warp * 256 + row * C + g + e / 2 * 8] = sum[i][e];
    }
  __syncthreads();
  const int rows = (int)s.rows;
  for (int e = thread; e < plan.at_once * rows * C; e += 256) {
    const int which = e / (rows * C), inside = e % (rows * C);
    float total = joined[which * split * 256 + inside];
    for (int p = 1; p < split; ++p) total += joined[(which * split + p) * 256 + inside];
    const int col = (first_tile + which) * C + inside % C;
    if (col < (int)s.cols) task.finish(inside / C, col, total);
  }
}

// A block takes units of tiles of 8 or 16 columns, and walks over their chunks, the next of which are
// in registers or on their way there.
template <int G>
GEX_FN void stream_product(Product& task, Blocks block, char* shared, const Requested& requested) {
  const Sizes& s = task.size;
  const int pitch = (int)stream_pitch(s.depth);
  const StreamPlan plan(s);
  const bool batched = s.batch0 * s.batch1 != 1;
  Half* const x = (Half*)(shared + 2 * 8 * 256 * 4);
  uint4 w[kStreamAhead][4][kStreamHalves];
#pragma unroll
  for (int a = 0; a < kStreamAhead; ++a) {
    if (!kWaitsForLeft) {
      stream_request(task, plan, block, a, w[a]);
      continue;
    }
#pragma unroll
    for (int u = 0; u < 4; ++u)
#pragma unroll
      for (int h = 0; h < kStreamHalves; ++h) w[a][u][h] = requested.pieces[(a * 4 + u) * kStreamHalves + h];
  }
  if (kWaitsForLeft) wait_for_inputs();  // also in blocks without work: the next kernel waits for them
  const int chunks = plan.chunks(s, block);
  if (chunks == 0) return;
  int unit = (int)block.index, staged = unit / plan.units;
  task.set_batch(batched ? staged : 0);
  stream_stage(task, x, pitch);
  int round = 0, buffer = 0;
  float sum[G][4] = {};
  for (int first = 0; first < chunks; first += kStreamAhead) {
#pragma unroll
    for (int a = 0; a < kStreamAhead; ++a) {
      if (first + a >= chunks) break;
      if (batched && unit / plan.units != staged) {
        staged = unit / plan.units;
        task.set_batch(staged);
        stream_stage(task, x, pitch);
      }
      stream_multiply<G>(task, plan, w[a], round, x, pitch, sum);
      stream_request(task, plan, block, first + a + kStreamAhead, w[a]);
      if (++round < plan.rounds) continue;
      // Two places in turn, so that one barrier for each unit is enough.
      stream_finish<G>(task, plan, unit, sum, (float*)shared + buffer * 8 * 256);
      buffer ^= 1;
      round = 0;
      unit += (int)block.count;
#pragma unroll
      for (int i = 0; i < G; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][e] = 0.0f;
    }
  }
}
)cuda";
}

}  // namespace gex::backend::cuda
