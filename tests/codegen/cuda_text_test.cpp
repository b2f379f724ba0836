// CUDA text of loop kernels without a GPU: run on the host, and compiled by whatever CUDA compiler
// this machine has.

#include <fstream>

#include "base/error.hpp"
#include "cuda_cases.hpp"
#include "cuda_emulation.hpp"

namespace gex::codegen {
namespace {

// Few multiprocessors: blocks take several points.
backend::cuda::DeviceLimits small_device() {
  backend::cuda::DeviceLimits limits;
  limits.multiprocessors = 1;
  return limits;
}

TEST(CudaText, emulated_blocks_compute_what_the_reference_computes) {
  const std::vector<CudaCase> cases = cuda_cases();
  std::vector<cuda::KernelText> texts;
  EmulatedKernels unit;
  std::vector<int> numbers;
  for (const CudaCase& c : cases) {
    texts.push_back(cuda::emit(c.data.kernel, small_device()));
    numbers.push_back(unit.add(texts.back()));
  }
  unit.compile();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const CudaCase& c = cases[i];
    const cuda::KernelText& kernel = texts[i];
    SCOPED_TRACE(kernel.source.substr(cuda::prelude().size()));
    std::vector<GuardedMemory> memory;
    std::vector<void*> pointers;
    for (const HostTensor& tensor : c.data.buffers) {
      memory.emplace_back(tensor);
      pointers.push_back(memory.back().data());
    }
    std::vector<std::byte> workspace(static_cast<std::size_t>(evaluate(c, kernel.workspace_bytes)));
    if (!(kernel.workspace_bytes == Dim(0))) pointers.push_back(workspace.data());
    unit.run(numbers[i], launch_words(c, pointers), evaluate(c, kernel.grid), kernel.block,
             evaluate(c, kernel.shared_bytes));
    const std::vector<HostTensor> expected = reference(c.data);
    for (std::size_t b = 0; b < expected.size(); ++b) {
      HostTensor got = c.data.buffers[b];
      memory[b].copy_to(got);
      EXPECT_LE(distance(got, expected[b]), allowed(c, got.dtype()))
          << "buffer " << c.data.kernel.buffers[b].name;
    }
  }
}

TEST(CudaText, a_cuda_compiler_accepts_every_kernel) {
  if (run_command("command -v nvcc > /dev/null") != 0)
    GTEST_SKIP() << "NO CUDA COMPILER: nvcc is not on the PATH, the generated CUDA text was NOT "
                    "compiled here";
  EmulatedKernels unit;
  for (const CudaCase& c : cuda_cases()) unit.add(cuda::emit(c.data.kernel));
  const std::string folder = temporary_folder();
  std::ofstream(folder + "/kernels.cu") << unit.device_source();
  EXPECT_EQ(run_command("nvcc -arch=sm_90 -std=c++17 -diag-suppress 177 --fmad=false -cubin -o " +
                        folder + "/kernels.cubin " + folder + "/kernels.cu"),
            0);
  EXPECT_EQ(run_command("rm -r " + folder), 0);
}

TEST(CudaText, elementwise_kernels_use_a_thread_per_point_and_row_kernels_a_block_per_row) {
  const cuda::KernelText cat = cuda::emit(hand_written("cat"));
  EXPECT_EQ(cat.block, 256);
  EXPECT_EQ(cat.shared_bytes, Dim(0));
  EXPECT_EQ(cat.source.find("__syncthreads()"), std::string::npos);
  const cuda::KernelText softmax = cuda::emit(hand_written("softmax"));

  EXPECT_NE(softmax.source.find("__syncthreads()"), std::string::npos);
}

TEST(CudaText, ordered_scattered_stores_use_one_block) {
  const cuda::KernelText kernel = cuda::emit(loop::parse_kernel(R"(
kernel running(ids: in i64[n], v: in f32[n], y: inout f32[10]) grid(i < n) {
  stage {
    id = load ids[i] in [0, 9]
    x = load v[i]
    store y[id] = x mode add shared ordered
  }
})"));
  EXPECT_EQ(kernel.block, 256);
  EXPECT_EQ(kernel.grid, Dim(1));
}

}  // namespace
}  // namespace gex::codegen
