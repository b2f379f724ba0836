#pragma once
// The ordered list of passes with the reasons for the order, and the manager that runs it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "passes/engine/pass.hpp"

namespace gex::passes {

struct PipelineOptions {
  int level = 2;                      // O0 .. O3
  std::vector<std::string> disabled;  // by name; UserError suggests the nearest for unknown ones
  std::vector<std::string> enabled;   // by name, regardless of the level
  std::string switch_file;            // see switches.hpp
  std::vector<std::string> only;      // if not empty: just these, in this order
  // NNN_after_<pass>.gex for each pass that changed something; with dump_passes instead before and
  // after each of those. GEX_DUMP_PASSES=DIR or DIR:a,b does the same from outside, in a folder for
  // each graph. What the passes did goes to fusion_result.json beside them.
  std::string dump_dir;
  std::vector<std::string> dump_passes;
  PassSettings settings;
  bool verify = true;          // after every changing pass
  bool check_changed = false;  // compare hashes before and after with the returned "changed"
  int fixpoint_limit = 16;  // rounds of the middle stage; hitting it is an error naming the passes
};

struct PassRecord {
  std::string name;
  bool changed = false;
  std::int64_t matches = 0;
  std::int64_t count = 0;
  double seconds = 0;
  std::int64_t nodes_before = 0, nodes_after = 0;
};

struct PipelineReport {
  std::vector<PassRecord> passes;  // one for each run, in order
  std::vector<std::string> remarks;
};

PipelineReport run_pipeline(Graph& graph, const PipelineOptions& options);

// One record for each pass that ran, in the order of their first runs.
std::vector<PassRecord> totals(const PipelineReport& report);
// {"main": {"graph_fusion": {"cse": {"match_times": "2", "effect_times": "2"}}}}
std::string statistics_json(const std::string& graph_name, const PipelineReport& report);

// Every known pass, in pipeline order: for --help and for switching off by name.
const std::vector<Pass>& builtin_passes();

}  // namespace gex::passes
