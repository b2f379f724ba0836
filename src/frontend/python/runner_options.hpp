#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "compile/compile.hpp"

namespace gex::python {

// How a graph is compiled and made ready to replay.
struct RunnerOptions {
  CompileOptions compile;
  std::string cache_dir;                            // "": the place that GEX_CACHE_DIR names
  std::vector<std::pair<int, std::string>> frozen;  // arguments bound at the first call, and names
  std::vector<int> released;                        // arguments that a call frees at their last use
  bool keep_arena = true;                           // between calls
  bool reuse_memory = true;                         // temporaries may share memory
  bool static_code_at_once = false;  // code for one set of sizes with the first call of it
  // A program for a GPU takes and gives tensors of the CPU: for tests with a driver library that
  // computes on the host.
  bool tensors_on_host = false;
};

void bind_runner_options(nanobind::module_& m);

}  // namespace gex::python
