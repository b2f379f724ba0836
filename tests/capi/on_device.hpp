#pragma once
// For tests of programs on a GPU: tensors in its memory, and whether there is one.

#include <gex/gex.h>
#include <gtest/gtest.h>
#include <gex/es.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace gex::test {

inline bool gpu_is_there() {
  const std::vector<std::string> drivers = runtime::available_drivers();
  return std::ranges::find(drivers, "cuda_graph") != drivers.end();
}

inline es::CompileOptions on_gpu() {
  es::CompileOptions options;
  options.target = "cuda:0";
  return options;
}

inline es::Tensor numbers(std::vector<std::int64_t> shape, float step) {
  std::vector<float> values(es::detail::CountOf(shape));
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<float>((k * 7) % 11) * step;
  return es::Tensor::Of<float>(std::move(shape), values);
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k)
    EXPECT_LE(std::abs(got[k] - expected[k]), 1e-5F) << k;
}

// Memory of the device; the test itself must not touch it.
class DeviceMemory {
 public:
  explicit DeviceMemory(const std::vector<float>& values) : values_(values.size()) {
    memory_ = context_->device->allocate(4 * values.size());
    context_->device->write(memory_, values.data(), 4 * values.size());
  }
  ~DeviceMemory() { context_->device->deallocate(memory_, 4 * values_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  gex_tensor tensor(const std::vector<std::int64_t>& shape) const {
    gex_tensor tensor = GEX_TENSOR_INIT;
    tensor.data = memory_;
    tensor.rank = shape.size();
    tensor.shape = shape.data();
    return tensor;
  }
  std::vector<float> read() const {
    std::vector<float> values(values_);
    std::unique_ptr<runtime::Queue> queue = context_->queues->acquire(0);
    queue->begin(std::nullopt);
    queue->read(values.data(), memory_, 4 * values_);
    queue->finish();
    context_->queues->give_back(std::move(queue));
    return values;
  }

 private:
  const std::shared_ptr<runtime::DeviceContext> context_ = runtime::open_device("cuda_graph:0");
  std::size_t values_;
  void* memory_;
};

}  // namespace gex::test
