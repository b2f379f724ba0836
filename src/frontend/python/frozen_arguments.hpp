#pragma once
// Arguments that are bound once: their tensors neither move nor (parameters) change, by contract.
// Breaking it is noticed soon, not at once: a call compares the objects it gets, looks at the
// addresses and versions of a few of them in turn, and at all of them when that costs little beside
// the time since it was last done. GEX_CHECK_FROZEN=1 looks at everything in each call, contents
// included.

#include <nanobind/nanobind.h>
#include <chrono>
#include <cstdint>

#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "frontend/python/torch_api.hpp"

namespace gex::python {

struct FrozenArgument {
  int argument = -1;
  int graph_input = -1;
  std::string name;     // as the user knows it
  nb::object constant;  // no argument of the call but this tensor
};

class FrozenArguments {
 public:
  explicit FrozenArguments(std::vector<FrozenArgument> arguments);  // by position

  struct Tensor {
    nb::object object;
    nb::object memory;          // shares the tensor's storage and keeps it alive
    runtime::TensorRef ref;     // to it
    std::int64_t version = -1;  // -1: the tensor counts no writes
    bool contents = false;      // parameters and constants: what is in it is fixed too
    Hash sum = 0;
  };
  using Tensors = std::vector<Tensor>;
  // The tensors of this call, in the order of arguments().
  Tensors read(PyObject* const* arguments) const;
  void bind(Tensors tensors);  // from now on calls are compared with these
  void unbind();               // the next call finds itself changed

  // Nothing if the arguments are still the bound ones; else in words what is not, "the parameter
  // layer.weight was moved". UserError if GEX_CHECK_FROZEN finds other contents.
  std::string change(PyObject* const* arguments);

  const std::vector<FrozenArgument>& arguments() const { return arguments_; }
  std::span<PyObject* const> objects() const { return objects_; }
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Run {  // neighbouring arguments
    int argument, first, count;
  };
  using Clock = std::chrono::steady_clock;

  std::string change_of(std::size_t i) const;
  std::string change_of_any();
  void check_contents() const;

  std::vector<FrozenArgument> arguments_;
  std::vector<Run> runs_;
  Tensors tensors_;                 // empty: not bound
  std::vector<PyObject*> objects_;  // theirs, side by side
  std::size_t next_ = 0;
  Clock::time_point all_seen_;
  Clock::duration all_cost_{};
};

}  // namespace gex::python
