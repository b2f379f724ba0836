#pragma once
// The immediate driver: each call sends its parameter block and issues every step to the stream,
// with real sizes. Nothing is captured; a Recording is the list of steps.

#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

class StreamRecorder final : public CudaRecorder {
 public:
  using CudaRecorder::CudaRecorder;
  std::unique_ptr<Recording> finish() override;
};

}  // namespace gex::runtime::cuda
