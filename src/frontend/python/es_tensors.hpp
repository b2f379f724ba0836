#pragma once
// NumPy arrays (and anything else that speaks DLPack) in and out of es::Programs.

#include <nanobind/ndarray.h>

#include <gex/es/graph.hpp>
#include <gex/es/tensor.hpp>
#include <vector>

#include "frontend/python/bindings.hpp"

namespace gex::python {

using HostArray = nb::ndarray<nb::ro, nb::device::cpu>;

// An array with its dtype and strides as the C interface wants them. UserError for dtypes that have
// no tensors here. Borrows the array.
class ArrayArgument {
 public:
  ArrayArgument(const HostArray& array, const std::string& what);
  gex_tensor c() const;
  es::Tensor copied() const;  // dense

 private:
  void* data_;
  es::DType dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

// Results as NumPy arrays that own their memory.
nb::list run_on_arrays(const es::Program& program, const std::vector<HostArray>& inputs);

}  // namespace gex::python
