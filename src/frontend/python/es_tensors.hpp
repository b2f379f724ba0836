#pragma once
// NumPy arrays (and other DLPack producers) as inputs and outputs of es::Programs.

#include <nanobind/ndarray.h>

#include <gex/es/graph.hpp>
#include <gex/es/tensor.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/python/bindings.hpp"
#include "frontend/python/es_resources.hpp"

namespace gex::python {

using HostArray = nb::ndarray<nb::ro, nb::device::cpu>;

// An array with its dtype and strides in the form of the C interface. UserError for unsupported
// dtypes. Borrows the array.
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

// Releases the GIL while it waits for asynchronous runs, whose callbacks need it.
struct PyProgram {
  PyProgram(es::Program made, EsResources::Held of_caller)
      : resources(std::move(of_caller)), program(std::move(made)) {}
  PyProgram(PyProgram&&) = default;
  ~PyProgram() {
    if (!program) return;
    const nb::gil_scoped_release unlocked;
    program.reset();
  }
  EsResources::Held resources;  // destroyed after the program
  std::optional<es::Program> program;
};

// Results as NumPy arrays that own their memory, or written into `outputs`.
nb::list run_on_arrays(const PyProgram& program, const nb::list& inputs,
                       const std::optional<nb::list>& outputs);

// Returns at once. `callback(results, error)` is called by a thread of the program, with None for
// one of the two; exceptions of it are printed.
void run_async_on_arrays(const PyProgram& program, const nb::list& inputs, nb::object callback);

// UserError names the argument.
HostArray to_array(nb::handle given, const std::string& what);

}  // namespace gex::python
