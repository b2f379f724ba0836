// gex explain: reports how a graph was compiled, stage by stage.

#include <iomanip>
#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "json.hpp"
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

// Sizes of the inputs that --dim does not tell.
std::vector<std::string> unknown_sizes(const program::Program& program,
                                       const interp::SymbolValues& sizes) {
  std::vector<std::string> unknown;
  for (Dim symbol : program.symbols)
    if (!program::is_bound_symbol(program, symbol) && !sizes.contains(symbol))
      unknown.push_back(symbol.name());
  return unknown;
}

plan::MemoryReport memory_of(const program::Program& program, const interp::SymbolValues& sizes,
                             bool reuse) {
  const auto value_of = [&](Dim symbol) -> std::optional<std::int64_t> {
    const auto at = sizes.find(symbol);
    if (at == sizes.end()) return std::nullopt;
    return at->second;
  };
  return plan::memory_report(program, value_of, reuse);
}

void print_memory(const program::Program& program, const interp::SymbolValues& sizes, bool reuse) {
  std::string unknown;
  for (const std::string& name : unknown_sizes(program, sizes))
    unknown += (unknown.empty() ? "" : ", ") + name;
  if (unknown.empty())
    std::cout << "\n" << memory_of(program, sizes, reuse).text();
  else
    std::cout << "\nMemory depends on " << unknown << ": set them with --dim to see the plan.\n";
}

std::string ids_json(const std::vector<program::BufferId>& ids) {
  std::vector<std::string> items;
  for (program::BufferId id : ids) items.push_back(str(id));
  return json_list(items);
}

std::string memory_json(const plan::MemoryReport& report) {
  std::vector<std::string> rows;
  for (const plan::MemoryReport::Row& row : report.rows)
    rows.push_back(json_object({{"buffer", str(row.buffer)},
                                {"name", json_text(row.name)},
                                {"offset", str(row.offset)},
                                {"bytes", str(row.bytes)},
                                {"first_step", str(row.life.first)},
                                {"last_step", str(row.life.last)},
                                {"shares_with", ids_json(row.sharing)}}));
  return json_object({{"arena_bytes", str(report.total)},
                      {"lower_bound_bytes", str(report.lower_bound)},
                      {"without_reuse_bytes", str(report.without_reuse)},
                      {"scratch_bytes_per_worker", str(report.scratch)},
                      {"strategy", json_text(str(plan::name_of(report.strategy)))},
                      {"temporaries", json_list(rows)},
                      {"placed_later", ids_json(report.later)}});
}

std::string guards_json(const program::Program& program) {
  std::vector<std::string> guards;
  for (const program::Guard& guard : program.guards)
    guards.push_back(json_object({{"lhs", json_text(guard.lhs.text())},
                                  {"relation", json_text(str(program::symbol_of(guard.relation)))},
                                  {"rhs", json_text(guard.rhs.text())},
                                  {"message", json_text(guard.message)}}));
  return json_list(guards);
}

struct Explained {
  std::string name;
  std::size_t nodes = 0;
  Compiled compiled;
  interp::SymbolValues sizes;
  bool reuses_memory = true;
};

void print_json(const Explained& it) {
  const program::Program& program = *it.compiled.program;
  const CompileReport& report = it.compiled.report;
  std::vector<std::pair<std::string, std::string>> stages, counts;
  for (const auto& [stage, seconds] : report.seconds)
    stages.emplace_back(stage, json_number(seconds * 1e3));
  for (const auto& [what, count] : report.counts) counts.emplace_back(what, str(count));
  const std::vector<std::string> unknown = unknown_sizes(program, it.sizes);
  std::cout << json_object({{"graph", json_text(it.name)},
                            {"nodes", str(it.nodes)},
                            {"kernels", str(program.codes.size())},
                            {"steps", str(count_steps(program))},
                            {"code", json_text(report.generator)},
                            {"stages_ms", json_object(stages)},
                            {"counts", json_object(counts)},
                            {"remarks", json_texts(report.remarks)},
                            {"guards", guards_json(program)},
                            {"unknown_sizes", json_texts(unknown)},
                            {"memory", unknown.empty() ? memory_json(memory_of(program, it.sizes,
                                                                               it.reuses_memory))
                                                       : "null"}})
            << "\n";
}

void print(const Explained& it) {
  const program::Program& program = *it.compiled.program;
  const CompileReport& report = it.compiled.report;
  std::cout << "graph \"" << it.name << "\": " << it.nodes << " nodes, " << program.codes.size()
            << " kernels, " << count_steps(program) << " steps\n";
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
  print_guards(program);
  print_memory(program, it.sizes, it.reuses_memory);
}

int run(const Arguments& arguments) {
  auto graph = read_graph(arguments.file());
  Explained it;
  it.sizes = sizes_given(*graph, arguments);
  it.nodes = graph->num_nodes();
  it.name = graph->name();
  it.reuses_memory = session_options(arguments).reuse_memory;
  it.compiled = compile(std::move(graph), compile_options(arguments));
  if (arguments.has("--json"))
    print_json(it);
  else
    print(it);
  return 0;
}

}  // namespace

Command explain_command() {
  return {"explain",
          "FILE.gex [--dim SYMBOL=N]... [options]",
          "explains how a graph was compiled",
          "Compiles the graph and reports how long each stage took, what each pass did, what was\n"
          "not fused and why, what is checked when sizes change and, if all sizes are known, the\n"
          "offset and lifetime of every temporary, and which ones share memory. With --json: one\n"
          "object with graph, nodes, kernels, steps, code, stages_ms, counts, remarks, guards,\n"
          "unknown_sizes and memory (null unless all sizes are known).",
          with_compile_options({{"--dim", "SYMBOL=N", "a size of the inputs; may be repeated"},
                                {"--json", "", "print the report as JSON"}}),
          1,
          run};
}

}  // namespace gex::tool
