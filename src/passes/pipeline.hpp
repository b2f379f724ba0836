#pragma once
// The ordered list of passes with the reasons for the order, and the manager that runs it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.hpp"

namespace gex::passes {

struct PipelineOptions {
  int level = 2;                      // O0 .. O3
  std::vector<std::string> disabled;  // by name; UserError suggests the nearest for unknown ones
  std::vector<std::string> only;      // if not empty: just these, in this order
  std::string dump_dir;               // NNN_after_<pass>.gex for each pass that changed something
  bool verify = true;                 // after every changing pass
  bool check_changed = false;         // hash before and after: "changed" must be the truth
  int fixpoint_limit = 16;  // rounds of the middle stage; hitting it is an error naming the passes
};

struct PassRecord {
  std::string name;
  bool changed = false;
  std::int64_t count = 0;
  double seconds = 0;
};

struct PipelineReport {
  std::vector<PassRecord> passes;  // one for each run, in order
  std::vector<std::string> remarks;
};

PipelineReport run_pipeline(Graph& graph, const PipelineOptions& options);

// Every known pass, in pipeline order: for --help and for switching off by name.
const std::vector<Pass>& builtin_passes();
// User passes join the stage they name, after the built-in ones. UserError if the name is taken.
void register_pass(Pass pass);

}  // namespace gex::passes
