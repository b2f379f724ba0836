#pragma once
// A graph that is compiled, or a model file that is loaded, and run a number of times under a
// trace: for `gex report` and `gex profile`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "compile/compile.hpp"
#include "report/model.hpp"

namespace gex::tool {

struct TracedRun {
  std::string name;
  Compiled compiled;  // of a model file: without a graph
  bool reuse_memory = true;
  std::vector<std::pair<std::string, double>> first_call;  // seconds by phase
  std::unique_ptr<runtime::Session> session;
  std::optional<report::TraceKeeper::Kept> kept;  // never null
};

// --calls says how many calls are traced; as many run before, untraced.
TracedRun traced_run(const Arguments& arguments);

// `own`, then --calls and the options of inputs, of loading and of compiling.
std::vector<Option> with_traced_run_options(std::vector<Option> own);

}  // namespace gex::tool
