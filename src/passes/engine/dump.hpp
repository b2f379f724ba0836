#pragma once
// Writes graphs before and after passes to files.

#include <string>
#include <vector>

#include "passes/pipeline.hpp"

namespace gex::passes {

// Writes a file in a folder, which is created if needed. UserError on failure.
void write_text(const std::string& folder, const std::string& name, const std::string& text);

class Dumper {
 public:
  Dumper(const Graph& graph, const PipelineOptions& options);
  void before(const Pass& pass, const Graph& graph);
  void after(const Pass& pass, const Graph& graph, bool changed);
  void statistics(const Graph& graph, const PipelineReport& report);

 private:
  bool wanted(const Pass& pass) const;
  void write(const std::string& file_name, const std::string& text);
  void write_graph(const char* when, const Pass& pass, const Graph& graph);

  std::string folder_;  // empty: nothing is written
  std::vector<std::string> passes_;
  int written_ = 0;
};

}  // namespace gex::passes
