#pragma once
#include <span>
#include <string>

#include "backend/backend.hpp"
#include "backend/cuda/emit.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {
struct DeviceLimits {
  int multiprocessors = 132;
  std::int64_t shared_bytes = 227 * 1024;
  std::string architecture = "sm_90";
};
struct KernelText {
  std::string name, source;
  int block = 0;
  Dim grid, shared_bytes, workspace_bytes;
};
inline KernelText emit(const loop::Kernel& kernel, const DeviceLimits& = {}) {
  codegen::cuda::CudaKernel k = codegen::cuda::emit(kernel);
  return {k.name, k.source, k.block, k.grid, k.shared_bytes, 0};
}
inline KernelText emit(const problems::Problem& problem, const AttachedKernels&,
                       std::span<const Dim>, const DeviceLimits& = {}) {
  fail(ErrorCode::unsupported, "no CUDA kernel for ", problems::print(problem));
}
}  // namespace gex::backend::cuda
