#include "runtime/drivers/cuda_stream/stream_recording.hpp"

#include "runtime/session/image.hpp"

namespace gex::runtime::cuda {

namespace {

class StreamRecording final : public Recording {
 public:
  StreamRecording(const CudaDevice& device, std::vector<CudaOp> ops, int words)
      : device_(device), ops_(std::move(ops)), words_(words) {}

  void replay(Queue& queue, const Replay& replay) override {
    if (ops_.empty()) return;
    auto& cuda = static_cast<CudaQueue&>(queue);
    cuda.return_to_context();
    cuda.reserve_block(words_);
    cuda.upload(replay.block, ops_.front().word, ops_.back().end_word);
    if (replay.trace != nullptr && !cuda.is_recorded())
      device_.issue_traced(ops_, replay, cuda);
    else
      device_.issue_all(ops_, replay, cuda);
    count(ops_, replay.block, *replay.tally);
  }

 private:
  const CudaDevice& device_;
  const std::vector<CudaOp> ops_;
  const int words_;
};

}  // namespace

std::unique_ptr<Recording> StreamRecorder::finish() {
  return std::make_unique<StreamRecording>(device_, take_steps(), image_.num_device_words);
}

}  // namespace gex::runtime::cuda
