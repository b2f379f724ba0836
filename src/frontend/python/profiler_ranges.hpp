#pragma once
// Ranges in PyTorch's profiler for calls of compiled graphs.

#include <nanobind/nanobind.h>

#include <vector>

namespace gex::python {

namespace nb = nanobind;

// Nested ranges of one call; open ranges are closed at the end. Needs the GIL. While no profiler
// runs, the cost is one dictionary lookup.
class ProfilerRanges {
 public:
  ProfilerRanges();
  ~ProfilerRanges();
  ProfilerRanges(const ProfilerRanges&) = delete;
  ProfilerRanges& operator=(const ProfilerRanges&) = delete;

  bool profiling() const { return profiling_; }
  void enter(const char* name);
  void leave();

 private:
  bool profiling_ = false;
  std::vector<nb::object> open_;
};

}  // namespace gex::python
