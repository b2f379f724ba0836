#pragma once
// Arguments that are bound once: by contract their tensors neither move nor (parameters) change.
// Violations are noticed soon, not at once: a call compares the objects it gets, checks addresses
// and versions of a few of them in turn, and of all of them if that is cheap relative to the time
// since the last check. GEX_CHECK_FROZEN=1 checks everything in each call, including contents.

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
  std::string name;           // the user's name
  nb::object constant;        // not an argument of the call but this tensor
  bool is_statistic = false;  // read only as the mean or variance of batch norms
};

class FrozenArguments {
 public:
  explicit FrozenArguments(std::vector<FrozenArgument> arguments);  // by position

  struct Tensor {
    nb::object object;
    nb::object memory;          // shares the tensor's storage and keeps it alive
    runtime::TensorRef ref;     // to it
    std::int64_t version = -1;  // -1: the tensor has no version counter
    bool contents = false;      // parameters and constants: the contents are fixed too
    Hash sum = 0;
  };
  using Tensors = std::vector<Tensor>;
  // The tensors of this call, in the order of arguments().
  Tensors read(PyObject* const* arguments) const;
  void bind(Tensors tensors);  // later calls are compared with these
  void unbind();               // the next call is treated as changed

  // Nothing if the arguments are still the bound ones; else what changed: "the parameter
  // layer.weight was moved". UserError if GEX_CHECK_FROZEN finds different contents.
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
  std::vector<PyObject*> objects_;  // their objects, contiguous
  std::size_t next_ = 0;
  Clock::time_point all_seen_;
  Clock::duration all_cost_{};
};

}  // namespace gex::python
