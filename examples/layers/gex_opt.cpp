// gex-opt FILE.gex [PASS...]: runs the passes of level 2, or those named, over a graph and prints
// it.

#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.hpp"
#include "ir/graph.hpp"
#include "passes/pipeline.hpp"

namespace {

int optimise(const std::string& path, std::vector<std::string> names) {
  std::ifstream file(path);
  if (!file) gex::fail(gex::ErrorCode::io_error, "can't read ", path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::unique_ptr<gex::Graph> graph = gex::parse_graph(text);
  gex::verify(*graph);
  gex::passes::PipelineOptions options;
  options.only = std::move(names);
  gex::passes::run_pipeline(*graph, options);
  std::cout << gex::print(*graph);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::cerr << "usage: gex-opt FILE.gex [PASS...]\n";
    return 2;
  }
  try {
    return optimise(words[1], {words + 2, words + count});
  } catch (const gex::UserError& error) {
    std::cerr << "gex-opt: " << error.what() << "\n";
    return 1;
  }
}
