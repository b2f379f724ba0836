// gex explain: reports how a graph was compiled, stage by stage.

#include <iomanip>
#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "plan/report.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

void heading(const char* text) { std::cout << "\n" << text << "\n"; }

int count_steps(const program::Program& program) {
  int steps = 0;
  for (const program::Segment& segment : program.segments)
    steps += static_cast<int>(segment.steps.size());
  return steps;
}

void print_guards(const program::Program& program) {
  if (program.guards.empty()) return;
  heading("Checked for each new set of sizes:");
  for (const program::Guard& guard : program.guards)
    std::cout << "  " << guard.lhs << " " << program::symbol_of(guard.relation) << " " << guard.rhs
              << "  (" << guard.message << ")\n";
}

void print_memory(const program::Program& program, const interp::SymbolValues& sizes, bool reuse) {
  std::string unknown;
  for (Dim symbol : program.symbols)
    if (!program::is_bound_symbol(program, symbol) && !sizes.contains(symbol))
      unknown += (unknown.empty() ? "" : ", ") + symbol.name();
  if (!unknown.empty()) {
    std::cout << "\nMemory depends on " << unknown << ": set them with --dim to see the plan.\n";
    return;
  }
  const auto value_of = [&](Dim symbol) -> std::optional<std::int64_t> {
    const auto at = sizes.find(symbol);
    if (at == sizes.end()) return std::nullopt;
    return at->second;
  };
  std::cout << "\n" << plan::memory_report(program, value_of, reuse).text();
}

int run(const Arguments& arguments) {
  auto graph = read_graph(arguments.file());
  const interp::SymbolValues sizes = sizes_given(*graph, arguments);
  const std::size_t nodes = graph->num_nodes();
  const std::string name = graph->name();
  const Compiled compiled = compile(std::move(graph), compile_options(arguments));
  const CompileReport& report = compiled.report;

  std::cout << "graph \"" << name << "\": " << nodes << " nodes, " << compiled.program->codes.size()
            << " kernels, " << count_steps(*compiled.program) << " steps\n";
  std::cout << "code: " << report.generator << "\n";
  heading("Stages:");
  for (const auto& [stage, seconds] : report.seconds)
    std::cout << "  " << std::left << std::setw(10) << stage << std::right << std::fixed
              << std::setprecision(2) << std::setw(10) << seconds * 1e3 << " ms\n";
  heading("Counted:");
  for (const auto& [what, count] : report.counts)
    std::cout << "  " << std::left << std::setw(28) << what << " " << count << "\n";
  if (!report.remarks.empty()) {
    heading("Remarks:");
    for (const std::string& remark : report.remarks) std::cout << "  " << remark << "\n";
  }
  print_guards(*compiled.program);
  print_memory(*compiled.program, sizes, session_options(arguments).reuse_memory);
  return 0;
}

}  // namespace

Command explain_command() {
  return {"explain",
          "FILE.gex [--dim SYMBOL=N]... [options]",
          "explains how a graph was compiled",
          "Compiles the graph and reports how long each stage took, what each pass did, what was\n"
          "not fused and why, what is checked when sizes change and, if all sizes are known, the\n"
          "offset and lifetime of every temporary, and which ones share memory.",
          with_compile_options({{"--dim", "SYMBOL=N", "a size of the inputs; may be repeated"}}),
          1,
          run};
}

}  // namespace gex::tool
