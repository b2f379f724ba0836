#include "backend/cuda/step_kernels.hpp"

namespace gex::backend::cuda {

// Copies and fills read their addresses and sizes from the parameter block like any kernel.
const char* const kStepKernels = R"cuda(
typedef long long i64;
typedef unsigned long long u64;
struct alignas(16) Wide { u64 low, high; };

extern "C" __global__ void gex_copy(const i64* words) {
  char* dst = (char*)words[0];
  const char* src = (const char*)words[1];
  const i64 bytes = words[2];
  const i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = gridDim.x * (i64)blockDim.x;
  i64 done = 0;
  if ((((u64)dst | (u64)src) & 15) == 0) {
    done = bytes / 16 * 16;
    for (i64 i = first; i < bytes / 16; i += step) ((Wide*)dst)[i] = ((const Wide*)src)[i];
  }
  for (i64 i = done + first; i < bytes; i += step) dst[i] = src[i];
}

extern "C" __global__ void gex_fill(const i64* words, u64 pattern, int width) {
  unsigned char* dst = (unsigned char*)words[0];
  const i64 bytes = words[1];
  const i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = gridDim.x * (i64)blockDim.x;
  i64 done = 0;
  if (((u64)dst & 7) == 0) {
    u64 wide = pattern;
    if (width == 1) wide = (pattern & 0xff) * 0x0101010101010101ull;
    if (width == 2) wide = (pattern & 0xffff) * 0x0001000100010001ull;
    if (width == 4) wide = (pattern & 0xffffffff) * 0x0000000100000001ull;
    done = bytes / 8 * 8;
    for (i64 i = first; i < bytes / 8; i += step) ((u64*)dst)[i] = wide;
  }
  for (i64 i = done + first; i < bytes; i += step)
    dst[i] = (unsigned char)(pattern >> (8 * (i % width)));
}
)cuda";

}  // namespace gex::backend::cuda
