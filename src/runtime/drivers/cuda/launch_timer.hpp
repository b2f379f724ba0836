#pragma once
// Times launches beside the calls of a Program: on a stream and in memory of its own, by events of
// the device.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

class LaunchTimer {
 public:
  // `trials` compute the same, so their buffers have the same sizes.
  LaunchTimer(const CudaLoaded& loaded, std::span<const program::Trial> trials);
  ~LaunchTimer();
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;

  // Microseconds of one launch of each; infinity for those that can't be launched.
  std::vector<double> time();

 private:
  // Buffers of one launch. Launches in turn use several, which together are larger than the L2
  // cache: weights are seldom there when a Program reads them.
  struct Operands {
    std::vector<std::int64_t> words;  // addresses, then dims
    DevicePtr on_device = 0;          // the words
  };
  DevicePtr allocate(std::size_t bytes);
  void make_operands();
  Function function_of(const program::StaticLaunch& launch);
  bool launch(std::size_t number, const Operands& operands);
  GraphExec captured(std::size_t number, int repeats);
  double microseconds_of(GraphExec exec);
  bool multiply(const program::Trial& trial, const Operands& operands);

  const CudaLoaded& loaded_;
  const DriverApi& api_;
  const DuringCaptures allowed_;
  const std::span<const program::Trial> trials_;
  std::vector<Module> modules_;
  std::vector<Function> functions_;  // by trial
  std::vector<DevicePtr> memory_;
  std::vector<Operands> operands_;
  std::size_t next_ = 0;  // of operands_
  void* cublas_ = nullptr;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace gex::runtime::cuda
