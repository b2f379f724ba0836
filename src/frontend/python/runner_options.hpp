#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "compile/options.hpp"

namespace gex::python {

// How a graph is compiled and made ready to replay.
struct RunnerOptions {
  UserOptions user;                                 // by the table of options
  std::string cache_dir;                            // "": the place that GEX_CACHE_DIR names
  std::vector<std::pair<int, std::string>> frozen;  // arguments bound at the first call, and names
  std::vector<int> released;                        // arguments that a call frees at their last use
  bool keep_arena = true;                           // between calls
  // A program for a GPU takes and returns CPU tensors: for tests with a driver library that
  // computes on the host.
  bool tensors_on_host = false;
};

void bind_runner_options(nanobind::module_& m);

}  // namespace gex::python
