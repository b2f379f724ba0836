#pragma once

#include "nvidia/api.hpp"

namespace gex::runtime {

// A range of the calling thread in the profilers that started the process: NVIDIA's (NVTX) and
// Intel VTune (ITT, named by INTEL_LIBITTNOTIFY64). Without one of them nothing is opened or
// called.
class ToolRange {
 public:
  explicit ToolRange(const char* name);
  ~ToolRange();
  ToolRange(const ToolRange&) = delete;
  ToolRange& operator=(const ToolRange&) = delete;

 private:
  nvidia::ToolRange nvidia_;
};

}  // namespace gex::runtime
