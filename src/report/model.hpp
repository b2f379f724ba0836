#pragma once
// The report model: everything a report shows, as JSON of a stated version (README.md describes
// it). The page and other tools read this and nothing else.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compile/compile.hpp"
#include "program/executable.hpp"
#include "report/costs.hpp"
#include "report/trace_keeper.hpp"

namespace gex::report {

// Incremented whenever a reader of an older version would misread a newer model.
inline constexpr int kModelVersion = 1;

struct GraphFacts {
  const CompileReport* report = nullptr;
  const program::Program* program = nullptr;
  const program::Executable* executable = nullptr;  // null: no machine code of a device
  Sizes sizes;
  bool reuse_memory = true;
  bool fast_math = false;
  std::optional<TraceKeeper::Kept> traced;  // calls; the timeline shows the fastest
  std::vector<runtime::CaptureInfo> captures;
  std::vector<std::string> tuned;  // results of autotuning
  bool machine_code = true;        // also assembly of the kernels
};

// One element of "graphs".
std::string graph_model(const GraphFacts& facts);

struct ReportFacts {
  std::string title, version;
  std::vector<std::string> graphs;                         // graph_model of each
  std::vector<std::pair<std::string, double>> first_call;  // seconds by phase
  std::string extra;  // JSON of a front end: fallbacks, recompiles; may be empty
};

std::string report_model(const ReportFacts& facts);

}  // namespace gex::report
