// gex profile: one call of a graph as a trace for Perfetto and chrome://tracing.

#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "files.hpp"
#include "report/chrome_trace.hpp"
#include "traced_run.hpp"

namespace gex::tool {
namespace {

int run(const Arguments& arguments) {
  TracedRun run = traced_run(arguments);
  const std::string path = arguments.value("-o").value_or("trace.json");
  write_file(path, report::chrome_trace({std::move(*run.kept)}));
  std::cout << "wrote " << path << ": open it at ui.perfetto.dev or chrome://tracing\n";
  return 0;
}

}  // namespace

Command profile_command() {
  return {
      "profile",
      "FILE.gex|MODEL.onnx|MODEL.gexe [-o trace.json] [options]",
      "runs a graph and writes a trace of its launches for Perfetto and chrome://tracing",
      "Compiles the graph, runs it on inputs made as for gex run, and writes the fastest call in\n"
      "Chrome's trace format: a track for the host and each thread, with bytes and operations of\n"
      "every launch.",
      with_traced_run_options({{"-o", "FILE", "where to write (trace.json)"}}),
      1,
      run};
}

}  // namespace gex::tool
