// gex dump: prints a graph at one of its three levels.

#include <iostream>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "commands.hpp"
#include "compile/graphviz.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "report/model.hpp"

namespace gex::tool {
namespace {

constexpr std::string_view kLevels[] = {"graph", "kernels", "program"};

// All levels at once, in the form of a report (src/report/README.md).
std::string json_of(const Compiled& compiled) {
  report::GraphFacts facts;
  facts.report = &compiled.report;
  facts.program = compiled.program.get();
  facts.sizes = [](Dim) { return std::nullopt; };
  facts.machine_code = false;
  return report::graph_model(facts);
}

int run(const Arguments& arguments) {
  const std::string level = arguments.value("--level").value_or("graph");
  if (level != kLevels[0] && level != kLevels[1] && level != kLevels[2])
    fail(ErrorCode::invalid_argument, "--level must be graph, kernels or program, got '", level,
         "'", suggestion(level, kLevels));
  CompileOptions options = compile_options(arguments, "--opt-level");
  options.generate_code = false;  // the printed texts do not depend on it
  const Compiled compiled = compile(read_graph(arguments.file()), options);
  if (const auto path = arguments.value("--onnx")) {
    write_onnx(*path, *parse_graph(compiled.report.graph_text));
    return 0;
  }
  if (arguments.has("--json")) {
    std::cout << json_of(compiled) << "\n";
    return 0;
  }
  if (arguments.has("--dot")) {
    std::cout << graphviz_of(compiled.report, *compiled.program, level);
    return 0;
  }
  if (level == "graph") std::cout << compiled.report.graph_text;
  if (level == "kernels") std::cout << compiled.report.kernel_text;
  if (level == "program") std::cout << program::print(*compiled.program);
  return 0;
}

}  // namespace

Command dump_command() {
  return {"dump",
          "FILE.gex|MODEL.onnx [--level=graph|kernels|program] [--dot|--json] [options]",
          "prints the compiled form of a graph",
          "Compiles the graph and prints one level of it:\n"
          "  graph    the tensor graph after the passes\n"
          "  kernels  the fused kernels as loops, and why nodes were not fused\n"
          "  program  the steps and buffers that are replayed",
          with_compile_options({{"--level", "LEVEL", "graph, kernels or program (graph)"},
                                {"--dot", "", "as Graphviz text: gex dump FILE --dot | dot -Tsvg"},
                                {"--json", "", "all levels as JSON (src/report/README.md)"},
                                {"--onnx", "FILE", "write the graph to this ONNX file"}},
                               "--opt-level"),
          1,
          run};
}

}  // namespace gex::tool
