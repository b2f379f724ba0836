#pragma once
// Ranges in PyTorch's profiler for calls of compiled graphs.

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace gex::python {

namespace nb = nanobind;

// Of a whole call, of the part that makes a capture, and of the part that replays it.
struct RangeNames {
  std::string whole = "gex call", capture = "gex capture", replay = "gex replay";
};

// Nested ranges of one call; open ranges are closed at the end. Needs the GIL. While no profiler
// runs, the cost is one dictionary lookup.
class ProfilerRanges {
 public:
  explicit ProfilerRanges(const RangeNames& names);
  ~ProfilerRanges();
  ProfilerRanges(const ProfilerRanges&) = delete;
  ProfilerRanges& operator=(const ProfilerRanges&) = delete;

  bool profiling() const { return profiling_; }
  const RangeNames& names() const { return names_; }
  void enter(const std::string& name);
  void leave();

 private:
  const RangeNames& names_;
  bool profiling_ = false;
  std::vector<nb::object> open_;
};

}  // namespace gex::python
