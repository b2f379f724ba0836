// CUDA text without a GPU: run on the host with real threads for the threads of a block, and
// compiled by whatever CUDA compiler this machine has.

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdio>
#include <fstream>

#include "base/error.hpp"
#include "cuda_cases.hpp"

namespace gex::codegen {
namespace {

// What CUDA gives a kernel, for the host. Blocks run one after the other, the threads of a block
// at once.
const char* const kEmulation = R"(
#define GEX_EMULATED
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>
using namespace std;
struct Dim3 { unsigned x; };
static thread_local Dim3 threadIdx;
static Dim3 blockIdx, blockDim, gridDim;
static barrier<>* block_barrier;
static unsigned char* gex_locals;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
#define __syncthreads() block_barrier->arrive_and_wait()
#define GEX_DECLARE_LOCALS
template <class T> void atomicAdd(T* p, T v) { atomic_ref<T>(*p).fetch_add(v); }
namespace gex { float f16_to_f32(std::uint16_t); std::uint16_t f32_to_f16(float); }
static float of_f16(unsigned short h) { return gex::f16_to_f32(h); }
static unsigned short to_f16(float f) { return gex::f32_to_f16(f); }
)";

const char* const kEmulatedRun = R"(
extern "C" void run_kernel(void (*kernel)(const i64*), const i64* words, unsigned blocks,
                           unsigned threads, long long shared) {
  vector<unsigned char> memory(static_cast<size_t>(shared) + 64);
  gex_locals = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  gridDim.x = blocks;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    barrier<> all(threads);
    block_barrier = &all;
    vector<thread> running;
    for (unsigned t = 0; t < threads; ++t)
      running.emplace_back([=] { threadIdx.x = t; kernel(words); });
    for (thread& t : running) t.join();
  }
}
)";

std::string temporary_folder() {
  char name[] = "/tmp/gex_cuda_text_XXXXXX";
  EXPECT_NE(mkdtemp(name), nullptr);
  return name;
}

// All kernels in one translation unit: the helpers once, then each function under a name of its
// own.
struct Unit {
  std::vector<CudaCase> cases = cuda_cases();
  std::vector<cuda::CudaKernel> kernels;
  std::string text{cuda::prelude()};

  Unit() {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      loop::Kernel kernel = cases[i].data.kernel;
      kernel.name += str("_", i);
      kernels.push_back(cuda::emit(kernel));
      text += kernels.back().source.substr(cuda::prelude().size());
    }
  }
};

int run_command(const std::string& command) { return std::system(command.c_str()); }

TEST(CudaText, emulated_blocks_compute_what_the_reference_computes) {
  Unit unit;
  const std::string folder = temporary_folder();
  std::ofstream(folder + "/kernels.cpp") << kEmulation << unit.text << kEmulatedRun;
  ASSERT_EQ(run_command("c++ -std=c++20 -O1 -ffp-contract=off -w -shared -fPIC -pthread -o " +
                        folder + "/kernels.so " + folder + "/kernels.cpp"),
            0);
  void* library = dlopen((folder + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using Kernel = void (*)(const std::int64_t*);
  const auto run_kernel =
      reinterpret_cast<void (*)(Kernel, const std::int64_t*, unsigned, unsigned, long long)>(
          dlsym(library, "run_kernel"));
  ASSERT_NE(run_kernel, nullptr);
  for (std::size_t i = 0; i < unit.cases.size(); ++i) {
    const CudaCase& c = unit.cases[i];
    const cuda::CudaKernel& kernel = unit.kernels[i];
    SCOPED_TRACE(kernel.source.substr(cuda::prelude().size()));
    const auto function = reinterpret_cast<Kernel>(dlsym(library, kernel.name.c_str()));
    ASSERT_NE(function, nullptr);
    std::vector<GuardedMemory> memory;
    std::vector<void*> pointers;
    for (const HostTensor& tensor : c.data.buffers) {
      memory.emplace_back(tensor);
      pointers.push_back(memory.back().data());
    }
    const std::vector<std::int64_t> words = launch_words(c, pointers);
    // Fewer blocks than points and more threads than some rows have elements.
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(2, evaluate(c, kernel.grid)));
    run_kernel(function, words.data(), blocks, kernel.block == 1 ? 1 : 4,
               evaluate(c, kernel.shared_bytes));
    const std::vector<HostTensor> expected = reference(c.data);
    for (std::size_t b = 0; b < expected.size(); ++b) {
      HostTensor got = c.data.buffers[b];
      memory[b].copy_to(got);
      EXPECT_LE(distance(got, expected[b]), allowed(c, got.dtype()))
          << "buffer " << c.data.kernel.buffers[b].name;
    }
  }
  EXPECT_EQ(run_command("rm -r " + folder), 0);
}

TEST(CudaText, a_cuda_compiler_accepts_every_kernel) {
  if (run_command("command -v nvcc > /dev/null") != 0)
    GTEST_SKIP() << "NO CUDA COMPILER: nvcc is not on the PATH, the generated CUDA text was NOT "
                    "compiled here";
  const std::string folder = temporary_folder();
  std::ofstream(folder + "/kernels.cu") << Unit().text;
  EXPECT_EQ(run_command("nvcc -arch=sm_90 --fmad=false -ptx -o " + folder + "/kernels.ptx " +
                        folder + "/kernels.cu"),
            0);
  EXPECT_EQ(run_command("rm -r " + folder), 0);
}

TEST(CudaText, elementwise_kernels_take_a_thread_for_a_point_and_rows_a_block) {
  const cuda::CudaKernel cat = cuda::emit(hand_written("cat"));
  EXPECT_EQ(cat.block, 256);
  EXPECT_EQ(cat.shared_bytes, Dim(0));
  EXPECT_EQ(cat.source.find("__syncthreads()"), std::string::npos);
  const cuda::CudaKernel softmax = cuda::emit(hand_written("softmax"));
  EXPECT_EQ(softmax.grid, hand_written("softmax").grid_size());
  EXPECT_NE(softmax.source.find("__syncthreads()"), std::string::npos);
}

TEST(CudaText, what_must_run_in_order_runs_on_one_thread) {
  const cuda::CudaKernel kernel = cuda::emit(loop::parse_kernel(R"(
kernel running(ids: in i64[n], v: in f32[n], y: inout f32[10]) grid(i < n) {
  stage {
    id = load ids[i] in [0, 9]
    x = load v[i]
    store y[id] = x mode add shared ordered
  }
})"));
  EXPECT_EQ(kernel.block, 1);
  EXPECT_EQ(kernel.grid, Dim(1));
}

}  // namespace
}  // namespace gex::codegen
