#pragma once
// HostTensor: dense, row-major values in host memory. Constants of a graph and everything the
// interpreter computes are HostTensors; the runtime never sees them except as constant buffers.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/hash.hpp"

namespace gex {

class HostTensor {
 public:
  HostTensor() = default;  // f32, 0-d, one zero
  HostTensor(DType dtype,
             std::vector<std::int64_t> shape);  // zero-filled; UserError on negative/overflow
  static HostTensor from_bytes(DType dtype, std::vector<std::int64_t> shape, const void* data);
  static HostTensor scalar(DType dtype, double value);
  static HostTensor of(std::vector<std::int64_t> shape, std::span<const float> values);
  static HostTensor of_i64(std::vector<std::int64_t> shape, std::span<const std::int64_t> values);

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t numel() const;
  std::size_t bytes() const { return data_.size(); }
  std::byte* data() { return data_.data(); }
  const std::byte* data() const { return data_.data(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.data());
  }

  // Element access by linear index with conversion; floats go through double, integers through i64.
  double get(std::int64_t linear) const;
  std::int64_t get_int(std::int64_t linear) const;
  void set(std::int64_t linear, double value);
  void set_int(std::int64_t linear, std::int64_t value);

  bool operator==(const HostTensor&) const = default;  // bitwise
  Hash hash() const;

 private:
  DType dtype_ = DType::f32;
  std::vector<std::int64_t> shape_;
  std::vector<std::byte> data_ = std::vector<std::byte>(4);
};

using TensorPtr = std::shared_ptr<const HostTensor>;

}  // namespace gex
