#include "backend/cuda/tile_text.hpp"

namespace gex::backend::cuda {

std::string_view tile_product_text() {
  return R"cuda(
template <bool few_registers = false, class Task>
GEX_FN void tile_product(const Task& task, i64 row, i64 col, i64 rows, i64 cols, i64 depth) {
  __shared__ Acc left[16][64 + 4], right[16][64 + 4];
  const int thread = (int)threadIdx.x, r0 = thread / 16 * 4, c0 = thread % 16 * 4;
  Acc sum[4][4];
#pragma unroll
  for (int i = 0; i < 16; ++i) sum[i / 4][i % 4] = (Acc)0;
  for (i64 first = 0; first < depth; first += 16) {
#pragma unroll (few_registers ? 1 : 4)
    for (int i = 0; i < 4; ++i) {
      const int e = thread + i * 256;
      const int lk = task.left_by_depth ? e % 16 : e / 64, lr = task.left_by_depth ? e / 16 : e % 64;
      const int rk = task.right_by_depth ? e % 16 : e / 64;
      const int rc = task.right_by_depth ? e / 16 : e % 64;
      left[lk][lr] = row + lr < rows && first + lk < depth ? task.left(row + lr, first + lk) : (Acc)0;
      right[rk][rc] = col + rc < cols && first + rk < depth ? task.right(first + rk, col + rc) : (Acc)0;
    }
    __syncthreads();
#pragma unroll (few_registers ? 2 : 16)
    for (int k = 0; k < 16; ++k) {
      Acc l[4], r[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) l[i] = left[k][r0 + i], r[i] = right[k][c0 + i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = mul_add(l[i], r[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (row + r0 + i < rows && col + c0 + j < cols) task.finish(row + r0 + i, col + c0 + j, sum[i][j]);
}
)cuda";
}

}  // namespace gex::backend::cuda
