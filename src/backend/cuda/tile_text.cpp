#include "backend/cuda/tile_text.hpp"

namespace gex::backend::cuda {

std::string_view tile_product_text() {
  return R"cuda(
// A thread computes T x T elements, in 4 x 4 subtiles that are 64 apart.
template <int T, bool few_registers = false, class Task>
GEX_FN void tile_product(const Task& task, i64 row, i64 col, i64 rows, i64 cols, i64 depth) {
  const int size = 16 * T, loads = T;  // lines of a tile, elements of an operand for each thread
  GEX_DECLARE_LOCALS
  typedef Acc Line[size + 4];
  Line* const left = (Line*)gex_locals;  // [16]
  Line* const right = left + 16;         // [16]
  const int thread = (int)threadIdx.x, r0 = thread / 16 * 4, c0 = thread % 16 * 4;
  Acc sum[T][T];
#pragma unroll
  for (int i = 0; i < T * T; ++i) sum[i / T][i % T] = (Acc)0;
  Acc next_left[loads], next_right[loads];
  const auto request = [&](i64 first) {
#pragma unroll (few_registers ? 1 : loads)
    for (int i = 0; i < loads; ++i) {
      const int e = thread + i * 256;
      const int lk = task.left_by_depth ? e % 16 : e / size, lr = task.left_by_depth ? e / 16 : e % size;
      const int rk = task.right_by_depth ? e % 16 : e / size, rc = task.right_by_depth ? e / 16 : e % size;
      const Acc l = row + lr < rows && first + lk < depth ? task.left(row + lr, first + lk) : (Acc)0;
      const Acc r = col + rc < cols && first + rk < depth ? task.right(first + rk, col + rc) : (Acc)0;
      if (few_registers)
        left[lk][lr] = l, right[rk][rc] = r;
      else
        next_left[i] = l, next_right[i] = r;
    }
  };
  if (!few_registers) request(0);
  for (i64 first = 0; first < depth; first += 16) {
    if (few_registers) {
      request(first);
    } else {
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        const int e = thread + i * 256;
        left[task.left_by_depth ? e % 16 : e / size][task.left_by_depth ? e / 16 : e % size] = next_left[i];
        right[task.right_by_depth ? e % 16 : e / size][task.right_by_depth ? e / 16 : e % size] = next_right[i];
      }
    }
    __syncthreads();
    if (!few_registers && first + 16 < depth) request(first + 16);
#pragma unroll (few_registers ? 2 : 16)
    for (int k = 0; k < 16; ++k) {
      Acc l[T], r[T];
#pragma unroll
      for (int i = 0; i < T; ++i) l[i] = left[k][i / 4 * 64 + r0 + i % 4], r[i] = right[k][i / 4 * 64 + c0 + i % 4];
#pragma unroll
      for (int i = 0; i < T; ++i)
#pragma unroll
        for (int j = 0; j < T; ++j) sum[i][j] = mul_add(l[i], r[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < T; ++i)
#pragma unroll
    for (int j = 0; j < T; ++j) {
      const i64 y = row + i / 4 * 64 + r0 + i % 4, x = col + j / 4 * 64 + c0 + j % 4;
      if (y < rows && x < cols) task.finish(y, x, sum[i][j]);
    }
}

template <int T, bool few_registers = false, class Task>
GEX_FN void all_tiles(Task& task, Blocks block, i64 batches, i64 rows, i64 cols, i64 depth) {
  const i64 size = 16 * T, tile_cols = (cols + size - 1) / size, tiles = (rows + size - 1) / size * tile_cols;
  for (i64 at = block.index; at < batches * tiles; at += block.count) {
    task.set_batch(at / tiles);
    const i64 tile = at % tiles;
    tile_product<T, few_registers>(task, tile / tile_cols * size, tile % tile_cols * size, rows, cols, depth);
  }
}
// Large tiles where there are enough of them.
template <class Task>
GEX_FN void tiled_product(Task& task, Blocks block, i64 batches, i64 rows, i64 cols, i64 depth) {
  if (sizeof(Acc) == 4 && batches * ((rows + 127) / 128) * ((cols + 127) / 128) >= kMultiprocessors)
    all_tiles<sizeof(Acc) == 4 ? 8 : 4>(task, block, batches, rows, cols, depth);
  else
    all_tiles<4>(task, block, batches, rows, cols, depth);
}
)cuda";
}

}  // namespace gex::backend::cuda
