#pragma once
// If and while steps as conditional nodes of a CUDA graph. What decides is a byte in device memory,
// which a kernel of the graph passes to the node; the steps inside become the graph of its body.

#include <span>

#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

// Adds an if or while step to the graph that `main` is being captured into.
class ControlNodes {
 public:
  ControlNodes(const CudaDevice& device, const std::int64_t* words, CudaQueue& queue,
               CudaDevice::Mode mode);
  void add(const CudaOp& op, Stream main);

 private:
  void add_branch(const CudaOp& op, Stream main);
  void add_loop(const CudaOp& op, Stream main);
  ConditionHandle make_condition(Stream main) const;
  // A kernel that sets the condition to the byte, or to its opposite.
  void set(ConditionHandle condition, bool inverted, const CudaOp& op, Stream stream) const;
  Graph add_node(int kind, ConditionHandle condition, Stream main) const;
  // The steps of a body; in that of a loop, then those of its condition.
  void fill(Graph body, std::span<const CudaOp> steps, const CudaOp* loop,
            ConditionHandle condition) const;

  const CudaDevice& device_;
  const ConditionalApi& api_;
  const std::int64_t* const words_;
  CudaQueue& queue_;
  const CudaDevice::Mode mode_;
};

}  // namespace gex::runtime::cuda
