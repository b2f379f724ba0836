#pragma once
// The Host of a run called from PyTorch: allocates output tensors, builds views, runs call steps
// through Python callables. Lives for one call, on the calling thread.

#include <nanobind/nanobind.h>
#include <cstdint>

#include <optional>
#include <span>
#include <vector>

#include "frontend/python/overhead.hpp"
#include "frontend/python/profiler_ranges.hpp"
#include "frontend/python/torch_api.hpp"
#include "runtime/launch_watch.hpp"
#include "runtime/session/session.hpp"

namespace gex::python {

// Sizes and strides of an output as Python tuples, cached because most calls repeat them.
struct OutputTuples {
  std::vector<std::int64_t> shape, strides;
  nb::object sizes, steps;  // tuples of shape and strides
};

class TorchHost final : public runtime::Host, private runtime::LaunchWatch {
 public:
  // The objects that a call owns. Program input i is arguments[of_input[i]]; a released one becomes
  // null.
  struct Arguments {
    std::span<PyObject*> arguments;
    std::span<const int> of_input;
    PyObject*& operator[](int input) const {
      return arguments[static_cast<std::size_t>(of_input[static_cast<std::size_t>(input)])];
    }
  };
  TorchHost(Arguments inputs, std::vector<OutputTuples>& tuples,
            std::span<const nb::object> callees, std::size_t num_outputs, TorchDevice device,
            ProfilerRanges& ranges, OverheadClock& clock);
  ~TorchHost() override;
  TorchHost(const TorchHost&) = delete;
  TorchHost& operator=(const TorchHost&) = delete;

  void about_to_block() override;
  std::optional<std::uint64_t> stream() override;
  void begins(Phase phase) override;
  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override;
  void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_integer_output(int k, std::int64_t value) override;
  void set_external_output(int k, std::uint64_t handle) override;
  void call(const program::Call& call, std::span<const runtime::TensorRef> inputs,
            std::span<const std::int64_t> integers, std::span<const runtime::TensorRef> expected,
            std::span<CallResult> outputs) override;
  void release(std::uint64_t handle) override;
  void release_input(int input) override;

  void take_gil();  // takes the GIL back after about_to_block; no-op if it is held
  PyObject* output(std::size_t k) const { return outputs_[k].ptr(); }

 private:
  void launch_begins(std::string_view name) override;
  void launch_ended() override;

  nb::object operand(const runtime::TensorRef& ref) const;
  nb::object fitting(nb::object result, const runtime::TensorRef& expected,
                     std::span<const runtime::TensorRef> operands, const program::Call& call) const;

  Arguments inputs_;
  std::vector<OutputTuples>& tuples_;
  std::span<const nb::object> callees_;
  std::vector<nb::object> outputs_;
  TorchDevice device_;
  ProfilerRanges& ranges_;
  OverheadClock& clock_;
  bool in_phase_ = false;  // a profiler range for it is open
  runtime::LaunchWatch* watch_before_ = nullptr;
  std::vector<PyObject*> pending_releases_;  // released when the GIL is held anyway
  PyThreadState* thread_ = nullptr;          // set while the GIL is released
};

}  // namespace gex::python
