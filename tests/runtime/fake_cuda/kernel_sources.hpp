#pragma once
// What the simulated driver compiles: the text of kernels with what CUDA provides to them.

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>

#include "../../codegen/cuda_emulation_text.hpp"
#include "rules.hpp"

namespace fake_cuda {

// What CUDA gives a kernel. One thread is a whole block: every loop over threads steps by one.
inline const char* const kEmulation = R"(
#define GEX_EMULATED
#include <math.h>
struct GexDim3 { unsigned x; };
static thread_local GexDim3 threadIdx = {0}, blockIdx, blockDim = {1}, gridDim;
static thread_local unsigned char gex_locals[1 << 16] __attribute__((aligned(64)));
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static thread_local
#define __syncthreads()
#define GEX_DECLARE_LOCALS
template <class T> void atomicAdd(T* p, T v) { *p += v; }
static inline void cudaGraphSetConditional(unsigned long long condition, unsigned value) {
  *(unsigned*)condition = value;
}
namespace gex { float f16_to_f32(unsigned short); unsigned short f32_to_f16(float); }
static inline float of_f16(unsigned short h) { return gex::f16_to_f32(h); }
static inline unsigned short to_f16(float f) { return gex::f32_to_f16(f); }
extern "C" void gex_set_grid(unsigned block, unsigned grid) { blockIdx.x = block; gridDim.x = grid; }
)";

inline constexpr const char* kPersistentName = "gex_super_kernel";

// The kernels with what CUDA provides to them, and a description of each.
inline std::string host_text(const std::string& source) {
  // Generated kernels begin with the prelude, and need threads that meet at barriers.
  const bool generated = source.find("GEX_FN") != std::string::npos;
  std::ostringstream text;
  if (source.find(kPersistentName) != std::string::npos)
    text << "#define GEX_BLOCKS_RUN_TOGETHER\n";
  text << gex::codegen::kCheckFunctions << (generated ? gex::codegen::kEmulation : kEmulation)
       << "#line 1\n"
       << source;
  static const std::regex kernels(R"(__global__ void((?: __\w+__\([^)]*\))*) (\w+)\(([^)]*)\))");
  static const std::regex clusters(R"(__cluster_dims__\((\d+))");
  static const std::regex bounds(R"(__launch_bounds__\((\d+))");
  std::sregex_iterator found(source.begin(), source.end(), kernels), end;
  for (; found != end; ++found) {
    const std::string attributes = (*found)[1], name = (*found)[2], parameters = (*found)[3];
    std::smatch cluster, bound;
    const bool bounded = std::regex_search(attributes, bound, bounds);
    const bool clustered = std::regex_search(attributes, cluster, clusters);
    const auto count = 1 + std::count(parameters.begin(), parameters.end(), ',');
    text << "\nextern \"C\" { int " << name << "_parameters = " << count << "; int " << name
         << "_cluster = "
         << (clustered                 ? cluster[1].str()
             : name == kPersistentName ? "0"
                                       : "1")
         << "; int " << name
         << "_threads = " << (bounded ? bound[1].str() : std::to_string(fake_cuda::kMostThreads))
         << "; }\n";
  }
  if (generated) text << gex::codegen::kEmulatedRun;
  return text.str();
}

}  // namespace fake_cuda
