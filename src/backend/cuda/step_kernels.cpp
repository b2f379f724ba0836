#include "backend/cuda/step_kernels.hpp"

#include <cstdlib>
#include <string_view>

#include "backend/cuda/nvrtc.hpp"

namespace gex::backend::cuda {

namespace {

// Copies and fills read their addresses and sizes from the parameter block like any kernel.
constexpr std::string_view kStepKernels = R"cuda(
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

// Passes a byte to a conditional node of the graph that the kernel is part of, or its opposite.
constexpr std::string_view kSetCondition = R"cuda(
#ifndef GEX_EMULATED
extern "C" __device__ void cudaGraphSetConditional(u64 condition, unsigned int value);
#endif
extern "C" __global__ void gex_set_condition(const i64* words, u64 condition, int inverted) {
  cudaGraphSetConditional(condition, (*(const unsigned char*)words[0] != 0) != (inverted != 0) ? 1u : 0u);
}
)cuda";

// The first NVRTC whose kernels can set conditions: 12.4.
bool sets_conditions(const std::string& version) {
  const std::size_t dot = version.find('.');
  if (dot == std::string::npos) return false;
  const int major = std::atoi(version.c_str()), minor = std::atoi(version.c_str() + dot + 1);
  return major > 12 || (major == 12 && minor >= 4);
}

}  // namespace

std::string step_kernels(bool with_conditions) {
  std::string text(kStepKernels);
  if (with_conditions && sets_conditions(nvrtc_version())) text += kSetCondition;
  return text;
}

}  // namespace gex::backend::cuda
