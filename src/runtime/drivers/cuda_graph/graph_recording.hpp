#pragma once
// The graph driver: steps are captured once for a gear and replayed by one graph launch. Kernels
// read sizes and addresses from the parameter block, so calls with other sizes up to the gear's and
// other addresses need no new capture. Library calls take sizes and addresses from the host: they
// are captured with the gear's sizes if all their operands are in the arena or constant, and issued
// between two graphs otherwise.

#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

class GraphRecorder final : public CudaRecorder {
 public:
  using CudaRecorder::CudaRecorder;
  std::unique_ptr<Recording> finish() override;
};

}  // namespace gex::runtime::cuda
