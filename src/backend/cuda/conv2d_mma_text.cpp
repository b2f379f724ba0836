#include "backend/cuda/conv2d_mma_text.hpp"

#include <string>

namespace gex::backend::cuda {

namespace {

// Elements of f32 are sums of kTerms 16-bit floats, exact with 3 terms but for bits below 2^-133;
// products of terms that together are smaller than the rounding of f32 are left out. An infinite
// element has no such sum (inf * 0 is not 0): tiles that met one are computed again without tensor
// cores.
constexpr std::string_view kElements = R"cuda(
GEX_FN Gathered image_element(const Task& task, int at) {
  if (kGathersHalves) return (Gathered)task.image.memory()[at];
  return (Gathered)task.image(at);
}
GEX_FN Gathered left_element(const Task& task, i64 at) {
  if (kGathersHalves) return (Gathered)task.weights.memory()[at];
  return (Gathered)task.weights(at);
}

GEX_FN Gathered gather(const Task& task, const Position& line, const Position& step) {
  const int y = line.y + step.y, x = line.x + step.x, divide_y = Task::kDivideY, divide_x = Task::kDivideX;
  bool valid = (u32)y < (u32)(task.image_height() * divide_y) && (u32)x < (u32)(task.image_width() * divide_x);
  if (divide_y > 1 || divide_x > 1) valid = valid && y % divide_y == 0 && x % divide_x == 0;
  // Meaningless outside of the image, where it may wrap around.
  const u32 at = (u32)line.at + (u32)step.at + (u32)(y / divide_y) * (u32)task.row_stride() +
                 (u32)(x / divide_x) * (u32)task.column_stride();
  return valid ? image_element(task, (int)at) : (Gathered)0;
}

// Terms are `apart` bytes from each other.
GEX_FN void store_element(u32 to, int apart, Gathered value, bool& infinite) {
  if (kGathersHalves) {
    store_shared(to, (Half)value);
  } else if (kTerms == 1) {
    store_shared(to, to_half((float)value));
  } else {
    float rest = (float)value;
    infinite = infinite || (bits_of_f32(rest) & 0x7f800000u) == 0x7f800000u;
#pragma unroll
    for (int t = 0; t < (int)kTerms; ++t) {
      const u32 high = bits_of_f32(rest) & 0xffff0000u;
      store_shared(to + t * apart, (Half)(high >> 16));
      rest -= f32_of_bits(high);
    }
  }
}

// multiply_fragments() for elements that are sums of several terms. Tensor cores truncate sums
// instead of rounding them, and over many steps these errors would all have the same sign. So each
// sum starts at zero, covers 16 steps and adds the smallest products first.
template <int TM, int TN, bool right_rows>
GEX_FN void multiply_terms(float (&sum)[TM][2 * TN][4], u32 a, int a_apart, u32 b, int b_apart, int wm, int wn, int k) {
  const int terms = (int)kTerms;
  u32 fa[terms][TM][4], fb[terms][TN][4];
#pragma unroll
  for (int t = 0; t < terms; ++t) {
    load_left<TM, true>(fa[t], a + t * a_apart, wm, k);
    load_right<TN, right_rows>(fb[t], b + t * b_apart, wn, k);
  }
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < 2 * TN; ++j) {
      float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int both = terms * terms - 1; both >= 0; --both)
        if (both / terms + both % terms < terms)
          mma_16816<true>(part, fa[both / terms][i], fb[both % terms][j / 2][j % 2 * 2], fb[both % terms][j / 2][j % 2 * 2 + 1]);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] += part[e];
    }
}
)cuda";

constexpr std::string_view kTile = R"cuda(
// One tile, from (row0, col0) on; `split` blocks of a cluster divide the depth, and their sums are
// added in order. Steps of 64 of the depth: while one is multiplied, the next one's elements are
// requested, 16 for each thread at a time, and stored into the other stage.
//
// A thread gathers neighbouring columns' elements together with its warp. Where neighbouring steps
// of the depth are closer in memory (kLinesApart), it keeps its step and goes from line to line.
template <int BM, int BN, int WM, int WN, int split>
GEX_FN void conv_tile(const Task& task, int row0, int col0, char* memory) {
  const int TM = BM / WM / 16, TN = BN / WN / 16, terms = (int)kTerms;
  const int left_bytes = (BM < 64 ? 64 : BM) * 128, right_bytes = BN * 128, stage_bytes = terms * (left_bytes + right_bytes);
  const int left_each = BM < 64 ? BM / 4 : 16, left_parts = kLeftInRows ? 0 : (BM + 63) / 64, parts = left_parts + BN / 64;
  static_assert(parts <= 4, "one part for each fragment of a step, at most");
  const u32 shared = shared_address(memory);
  Position* const steps_at = (Position*)(memory + 2 * stage_bytes);  // [2][64]
  Position* const lines_at = steps_at + 128;                         // [BN]
  const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int wm = warp / WN * (BM / WM), wn = warp % WN * (BN / WN);
  const int rows = (int)task.rows(), cols = (int)task.cols(), depth = (int)task.depth();
  const int all_steps = (depth + 63) / 64, share = (all_steps + split - 1) / split;
  const int from = split == 1 ? 0 : (int)cluster_rank() * share;
  const int steps = all_steps - from < share ? (all_steps > from ? all_steps - from : 0) : share;

  const auto describe = [&](int step) {
    const int k = (from + step) * 64 + thread;
    if (thread < 64) steps_at[step % 2 * 64 + thread] = k < depth ? task.step(k) : nowhere();
  };
  bool infinite = false;
  Gathered v[16];
  Position own;
  const auto request = [&](int part, int step) {
    const Position* const at = steps_at + step % 2 * 64;
    if (part < left_parts) {
      const int row = row0 + part * 64 + thread / 64 * left_each, left = at[thread % 64].left;
#pragma unroll
      for (int i = 0; i < left_each; ++i)
        v[i] = left != kNoStep && row + i < rows ? left_element(task, task.left_line(row + i) + left) : (Gathered)0;
    } else if (kLinesApart) {
      const Position mine = at[thread % 64];
      const Position* const line = lines_at + (part - left_parts) * 64 + thread / 64 * 16;
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = gather(task, line[i], mine);
    } else {
      const Position* const step_of = at + (part - left_parts) * (4096 / BN) + thread / BN * 16;
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = gather(task, own, step_of[i]);
    }
  };
  const auto keep = [&](int part, int step) {
    const u32 left = shared + step % 2 * stage_bytes, right = left + terms * left_bytes;
    const int k = thread % 64, col = thread % BN;
    if (part < left_parts) {
      const int line = part * 64 + thread / 64 * left_each;
#pragma unroll
      for (int i = 0; i < left_each; ++i)
        store_element(piece(left, line + i, k / 8) + k % 8 * 2, left_bytes, v[i], infinite);
    } else if (kLinesApart) {
      const int line = (part - left_parts) * 64 + thread / 64 * 16;
#pragma unroll
      for (int i = 0; i < 16; ++i)
        store_element(piece(right, line + i, k / 8) + k % 8 * 2, right_bytes, v[i], infinite);
    } else {
      const int first = (part - left_parts) * (4096 / BN) + thread / BN * 16;
      const u32 panel = right + col / 64 * 64 * 128;
#pragma unroll
      for (int i = 0; i < 16; ++i)
        store_element(piece(panel, first + i, col % 64 / 8) + col % 8 * 2, right_bytes, v[i], infinite);
    }
  };
  const auto copy_left = [&](int step) {
    if (!kLeftInRows) return;
    const int at = thread % 8, left = steps_at[step % 2 * 64 + at * 8].left;
    const u32 to = shared + step % 2 * stage_bytes;
    const Half* const memory_of_left = (const Half*)task.weights.memory();
#pragma unroll
    for (int i = 0; i < BM / 32; ++i) {
      const int line = thread / 8 + i * 32;
      const bool valid = left != kNoStep && row0 + line < rows;
      copy_async(piece(to, line, at), valid ? memory_of_left + task.left_line(row0 + line) + left : memory_of_left, valid);
    }
  };

  float sum[TM][2 * TN][4];
#pragma unroll
  for (int i = 0; i < TM * TN * 8; ++i) sum[i / (8 * TN)][i / 4 % (2 * TN)][i % 4] = 0.0f;
  if (thread < BN) lines_at[thread] = col0 + thread < cols ? task.line(col0 + thread) : nowhere();
  describe(0);
  __syncthreads();
  own = lines_at[thread % BN];
  if (steps > 0) copy_left(0);
  commit_copies();
  describe(1);
#pragma unroll
  for (int part = 0; part < parts; ++part)
    if (steps > 0) request(part, 0), keep(part, 0);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wait_copies<0>();
    __syncthreads();
    const bool more = step + 1 < steps;
    if (more) copy_left(step + 1);
    commit_copies();
    describe(step + 2);
    const u32 a = shared + step % 2 * stage_bytes, b = a + terms * left_bytes;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int part = 0; part < parts; ++part)
        if (part * 4 / parts == k && more) request(part, step + 1);
      if (terms > 1)
        multiply_terms<TM, TN, kLinesApart != 0>(sum, a, left_bytes, b, right_bytes, wm, wn, k);
      else
        multiply_fragments<TM, TN, true, kLinesApart != 0>(sum, a, b, wm, wn, k);
#pragma unroll
      for (int part = 0; part < parts; ++part)
        if ((part + 1) * 4 / parts - 1 == k && more) keep(part, step + 1);
    }
  }
  wait_copies<0>();
  const int pitch = BN + 8;
  float* const sums = (float*)memory;  // [BM][pitch]
  float* const met_infinite = sums + BM * pitch;
  int again = 0;
  if (terms > 1) again = __syncthreads_or(infinite);
  else __syncthreads();
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < 2 * TN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[(wm + i * 16 + e / 2 * 8 + lane / 4) * pitch + wn + j * 8 + lane % 4 * 2 + e % 2] = sum[i][j][e];
  if (thread == 0) *met_infinite = again ? 1.0f : 0.0f;
  if (split > 1) cluster_sync();
  else __syncthreads();
  if (terms > 1 && split > 1) {
    again = 0;
#pragma unroll
    for (int c = 0; c < split; ++c) again |= cluster_float(met_infinite, c) != 0.0f;
  }
  const int col = thread % BN, rank = split == 1 ? 0 : (int)cluster_rank();
  if (!again && col0 + col < cols) {
    const Column column = task.column(col0 + col);
#pragma unroll 4
    for (int r = thread / BN + rank * (256 / BN); r < BM; r += 256 / BN * split) {
      const float* const part = sums + r * pitch + col;
      float total = split == 1 ? *part : cluster_float(part, 0);
#pragma unroll
      for (int c = 1; c < split; ++c) total += cluster_float(part, c);
      if (row0 + r < rows) task.finish(column, row0 + r, total);
    }
  }
  if (split > 1) cluster_sync();
  else __syncthreads();
  if (terms > 1 && again && rank == 0) {
    const int end = row0 + BM < rows ? row0 + BM : rows;
    for (int r = row0; r < end; r += 64)
      for (int c = col0; c < col0 + BN && c < cols; c += 64) tile_product<4, true>(task, r, c, end, cols, depth);
  }
}

template <int BM, int BN, int WM, int WN, int split>
GEX_FN void conv_product(Task& task, Blocks block, char* shared) {
  const i64 tile_rows = (task.rows() + BM - 1) / BM, tiles = tile_rows * ((task.cols() + BN - 1) / BN);
  for (i64 at = block.index / split; at < kGroups * tiles; at += block.count / split) {
    const i64 tile = at % tiles;
    task.set_batch(at / tiles);
    conv_tile<BM, BN, WM, WN, split>(task, (int)(tile % tile_rows) * BM, (int)(tile / tile_rows) * BN, shared);
  }
}
)cuda";

// Positions of lines outside of the image and the products of sizes must fit into an int, too.
constexpr std::string_view kFits = R"cuda(
GEX_FN i64 reach(i64 size, i64 stride) { return size * (stride < 0 ? -stride : stride); }
GEX_FN bool conv_fits(const Task& task) {
  const Sizes& s = task.s;
  const i64 most = 1ll << 30;
  const i64 image = reach(s.images - 1, s.x[0]) + reach(s.channels - 1, s.x[1]) + reach(s.height + 2 * kPadY, s.x[2]) + reach(s.width + 2 * kPadX, s.x[3]);
  const i64 result = reach(s.images - 1, s.y[0]) + reach(s.outputs - 1, s.y[1]) + reach(s.out_height + 2 * kPadY, s.y[2]) + reach(s.out_width + 2 * kPadX, s.y[3]);
  const i64 weights = reach(s.outputs - 1, s.w[0]) + reach(s.channels, s.w[1]) + reach(s.taps_y, s.w[2]) + reach(s.taps_x, s.w[3]);
  const i64 taps = s.outputs * s.channels * s.taps_y * s.taps_x;
  const i64 rows = s.height * kUpY + s.out_height * kStepY, columns = s.width * kUpX + s.out_width * kStepX;
  return image < most && result < most && weights < most && taps < most && rows < most && columns < most &&
         s.images * s.height * s.width < most && s.images * s.out_height * s.out_width < most &&
         (!kLeftInRows || (i64)task.weights.memory() % 16 == 0);
}
)cuda";

}  // namespace

std::string_view conv_mma_text() {
  static const std::string text = std::string(kElements) + std::string(kTile) + std::string(kFits);
  return text;
}

}  // namespace gex::backend::cuda
