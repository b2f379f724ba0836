#pragma once
// Runs CUDA text on the host: the threads of a block are fibers that change at barriers, warp
// operations are functions, blocks run one after the other.

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/kernel_text.hpp"

namespace gex::codegen {

class EmulatedKernels {
 public:
  EmulatedKernels() = default;
  EmulatedKernels(const EmulatedKernels&) = delete;
  EmulatedKernels& operator=(const EmulatedKernels&) = delete;
  ~EmulatedKernels();

  // The number of the kernel, whose function gets a unique name; equal sources share one.
  int add(const backend::cuda::KernelText& kernel);
  // Every `parts`-th kernel from the first on, for nvcc.
  std::string device_source(int first = 0, int parts = 1) const;
  void compile();  // fails the test on errors
  const std::string& name(int kernel) const { return names_[static_cast<std::size_t>(kernel)]; }

  void run(int kernel, std::span<const std::int64_t> words, std::int64_t blocks, int threads,
           std::int64_t shared_bytes) const;

 private:
  std::vector<std::string> names_;
  std::vector<int> clusters_;                     // blocks in a cluster
  std::unordered_map<std::string, int> numbers_;  // by source
  std::vector<std::string> bodies_;
  void* library_ = nullptr;
};

std::string temporary_folder();
int run_command(const std::string& command);

}  // namespace gex::codegen
