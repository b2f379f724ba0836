#pragma once
// Reads a PyTorch tensor through the C functions that PyTorch guarantees to compiled models
// (torch/csrc/inductor/aoti_torch/c/shim.h), found at run time. Several times faster than DLPack,
// which creates and drops a reference to the tensor.

#include <nanobind/nanobind.h>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.hpp"
#include "runtime/session/session.hpp"

namespace gex::python {

class TensorReader {
 public:
  // Whether this PyTorch has the functions and the expected object layout.
  TensorReader();

  // False if the tensor has to be read in another way.
  bool read(PyObject* tensor, runtime::TensorRef& out) const {
    if (offset_ < 0) return false;
    void* handle = reinterpret_cast<std::byte*>(tensor) + offset_;
    std::int64_t rank = 0;
    std::int64_t *shape = nullptr, *strides = nullptr;
    std::int32_t type = 0;
    if (data_(handle, &out.data) != 0 || rank_(handle, &rank) != 0 || shape_(handle, &shape) != 0 ||
        strides_(handle, &strides) != 0 || type_(handle, &type) != 0 || type < 0 ||
        type >= kTypes || dtypes_[type] < 0)
      return false;
    out.dtype = static_cast<DType>(dtypes_[type]);
    out.shape = {shape, static_cast<std::size_t>(rank)};
    out.strides = {strides, static_cast<std::size_t>(rank)};
    return true;
  }
  // Whether the tensor is on CUDA device `cuda_index`, or on the CPU for -1; nothing if that has to
  // be read in another way.
  std::optional<bool> is_on(PyObject* tensor, int cuda_index) const {
    if (offset_ < 0) return std::nullopt;
    void* handle = reinterpret_cast<std::byte*>(tensor) + offset_;
    std::int32_t type = 0, index = 0;
    if (device_type_(handle, &type) != 0) return std::nullopt;
    if (cuda_index < 0) return type == cpu_;
    if (type != cuda_) return false;
    if (device_index_(handle, &index) != 0) return std::nullopt;
    return index == cuda_index;
  }
  // The address of the tensor's first element, null for tensors without memory. False if it has to
  // be read in another way.
  bool data(PyObject* tensor, void*& address) const {
    return offset_ >= 0 && data_(reinterpret_cast<std::byte*>(tensor) + offset_, &address) == 0;
  }

 private:
  static constexpr std::int32_t kTypes = 64;
  using GetPointer = std::int32_t (*)(void*, void**);
  using GetNumbers = std::int32_t (*)(void*, std::int64_t**);
  using GetNumber = std::int32_t (*)(void*, std::int64_t*);
  using GetType = std::int32_t (*)(void*, std::int32_t*);

  std::ptrdiff_t offset_ = -1;  // of the tensor in its Python object; -1: unusable
  GetPointer data_ = nullptr;
  GetNumber rank_ = nullptr;
  GetNumbers shape_ = nullptr, strides_ = nullptr;
  GetType type_ = nullptr, device_type_ = nullptr, device_index_ = nullptr;
  std::int32_t cpu_ = 0, cuda_ = 0;  // PyTorch's numbers of device types
  std::int8_t dtypes_[kTypes];       // by PyTorch's number; -1: not a gex dtype
};

}  // namespace gex::python
