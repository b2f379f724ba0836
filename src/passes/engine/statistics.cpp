// Sums up what the passes of one run did.

#include <algorithm>

#include "passes/pipeline.hpp"

namespace gex::passes {

std::vector<PassRecord> totals(const PipelineReport& report) {
  std::vector<PassRecord> sums;
  for (const PassRecord& run : report.passes) {
    auto sum = std::ranges::find(sums, run.name, &PassRecord::name);
    if (sum == sums.end()) {
      sums.push_back(run);
      continue;
    }
    sum->changed |= run.changed;
    sum->matches += run.matches;
    sum->count += run.count;
    sum->seconds += run.seconds;
  }
  return sums;
}

std::string statistics_json(const std::string& graph_name, const PipelineReport& report) {
  std::string name;
  for (char c : graph_name) {
    if (c == '"' || c == '\\') name += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) name += c;
  }
  std::string rows;
  for (const PassRecord& pass : totals(report))
    rows += str(rows.empty() ? "" : ",", "\n    \"", pass.name, "\": {\"match_times\": \"",
                pass.matches, "\", \"effect_times\": \"", pass.count, "\"}");
  return str("{\n  \"", name, "\": {\"graph_fusion\": {", rows, "\n  }}\n}\n");
}

}  // namespace gex::passes
