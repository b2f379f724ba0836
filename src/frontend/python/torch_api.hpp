#pragma once
// What gex needs from PyTorch at run time, without linking it: borrowing tensors and wrapping
// memory through DLPack's C functions, allocating tensors through PyTorch's functions. Everything
// here needs the GIL.

#include <nanobind/nanobind.h>
#include <cstdint>

#include <span>
#include <string_view>

#include "base/dtype.hpp"
#include "frontend/python/dlpack.hpp"
#include "frontend/python/tensor_reader.hpp"
#include "runtime/session/session.hpp"

namespace gex::python {

namespace nb = nanobind;

// Takes ownership of a new reference; null means that a Python exception is set, which is
// propagated.
inline nb::object owned(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

// The device of the tensors of a call: the CPU, or CUDA device `index`.
struct TorchDevice {
  int index = -1;
  bool is_cuda() const { return index >= 0; }
  bool operator==(const TorchDevice&) const = default;
};

class TorchApi {
 public:
  // Imports torch on first use. ImportError if the installed PyTorch lacks the exchange API.
  static const TorchApi& get();

  // The tensor's memory, sizes and strides, valid while the object lives and is not resized.
  dlpack::Tensor borrow(PyObject* tensor) const;
  // The same as a TensorRef, in the fastest way.
  void read(PyObject* tensor, runtime::TensorRef& out) const {
    if (!is_tensor(tensor) || !reader_->read(tensor, out)) read_borrowed(tensor, out);
  }
  bool is_on(PyObject* tensor, TorchDevice device) const {
    const auto known = is_tensor(tensor) ? reader_->is_on(tensor, device.index) : std::nullopt;
    return known ? *known : is_borrowed_on(tensor, device);
  }
  // UserError: `what` is on another device than `device`, which the graph is compiled for.
  [[noreturn]] void refuse_device(PyObject* tensor, TorchDevice device,
                                  std::string_view what) const;
  void* data(PyObject* tensor) const {  // address of the first element
    void* address = nullptr;
    return is_tensor(tensor) && reader_->data(tensor, address) ? address : borrowed_data(tensor);
  }
  bool is_tensor(PyObject* object) const { return PyObject_TypeCheck(object, tensor_type_) != 0; }

  PyObject* dtype(DType dtype) const { return dtypes_[static_cast<int>(dtype)]; }
  // A new tensor on the device; sizes and strides are tuples of int.
  nb::object empty_strided(PyObject* sizes, PyObject* strides, DType dtype,
                           TorchDevice device) const;
  // A view of the tensor's memory; offset counts elements from where the tensor starts.
  nb::object reinterpret(PyObject* tensor, PyObject* sizes, PyObject* strides,
                         std::int64_t offset) const;
  // A tensor over memory that its owner keeps alive for the tensor's lifetime.
  nb::object wrap(const runtime::TensorRef& ref, TorchDevice device) const;
  // A new tensor on the device with these strides and the contents of `tensor`.
  nb::object copy_to(PyObject* tensor, const runtime::TensorRef& expected,
                     TorchDevice device) const;
  // PyTorch's current stream of a CUDA device.
  std::uint64_t current_stream(TorchDevice device) const;
  bool is_cuda(PyObject* tensor) const { return borrow(tensor).device.type == dlpack::kCuda; }
  // Waits for all work on the tensor's device; nothing for a tensor on the CPU.
  void wait_for_device_of(PyObject* tensor) const;
  // The number in a 0-d i64 tensor on any device; waits for it.
  std::int64_t number_in(PyObject* tensor) const;

 private:
  TorchApi();
  void find_cuda(PyObject* torch, PyObject* guards);
  void read_borrowed(PyObject* tensor, runtime::TensorRef& out) const;
  bool is_borrowed_on(PyObject* tensor, TorchDevice device) const;
  void* borrowed_data(PyObject* tensor) const;
  const TensorReader* reader_ = nullptr;
  const dlpack::ExchangeApi* exchange_ = nullptr;
  PyTypeObject* tensor_type_ = nullptr;
  PyObject* empty_strided_ = nullptr;
  PyObject* empty_strided_cuda_ = nullptr;  // null if PyTorch has no CUDA
  PyObject* current_device_ = nullptr;      // likewise, and the following
  PyObject* set_device_ = nullptr;
  PyObject* current_stream_ = nullptr;
  PyObject* reinterpret_ = nullptr;
  PyObject* copy_name_ = nullptr;
  PyObject* dtypes_[kDTypeCount] = {};
};

nb::object tuple_of(std::span<const std::int64_t> values);
DType dtype_of(dlpack::DataType dtype);  // UserError for dtypes that gex lacks
dlpack::DataType dlpack_type(DType dtype);

}  // namespace gex::python
