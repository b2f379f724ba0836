#pragma once
// Ranges in PyTorch's profiler: what a call of a compiled graph does, while somebody profiles.

#include <nanobind/nanobind.h>

#include <vector>

namespace gex::python {

namespace nb = nanobind;

// Ranges of one call, one inside the other; what is open is closed in the end. Needs the GIL.
// Nothing happens, at the cost of looking up one name, while nobody profiles.
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
