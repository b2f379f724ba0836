// gex opt: passes over a graph, text in and text out.

#include <iomanip>
#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "passes/engine/user_passes.hpp"
#include "passes/pipeline.hpp"

namespace gex::tool {
namespace {

void list(const std::vector<passes::Pass>& some) {
  for (const passes::Pass& pass : some)
    std::cout << std::left << std::setw(20) << pass.name << " " << std::setw(6)
              << name_of(pass.stage) << " "
              << (pass.level == passes::kOnRequest ? "--" : str("O", pass.level)) << "  "
              << pass.summary << "\n";
}

int list_passes() {
  list(passes::builtin_passes());
  list(*passes::user_passes());
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.has("--list-passes")) return list_passes();
  passes::PipelineOptions options;
  const CompileOptions given = compile_options(arguments);
  options.level = given.level;
  options.only = arguments.list("--passes");
  options.disabled = given.disabled_passes;
  options.enabled = given.enabled_passes;
  options.switch_file = given.switch_file;
  options.dump_dir = given.dump_dir;
  options.dump_passes = arguments.list("--dump-passes");
  if (!options.dump_passes.empty() && options.dump_dir.empty())
    fail(ErrorCode::invalid_argument, "--dump-passes needs --dump=DIR, where the graphs go");
  if (std::optional<std::int64_t> limit = arguments.integer("--fold-limit"))
    options.settings.fold_limit = *limit;
  options.check_changed = true;
  if (arguments.has("--passes") && options.only.empty())
    fail(ErrorCode::invalid_argument, "--passes names no pass; gex opt --list-passes shows them");
  auto graph = read_graph(arguments.file());
  const passes::PipelineReport report = passes::run_pipeline(*graph, options);
  if (arguments.has("--stats")) {
    for (const passes::PassRecord& pass : passes::totals(report))
      std::cerr << std::left << std::setw(20) << pass.name << " "
                << (pass.changed ? "changed  " : "unchanged") << " " << std::setw(6)
                << str(pass.count, "/", pass.matches) << " " << pass.seconds * 1e3 << " ms\n";
    for (const std::string& remark : report.remarks) std::cerr << remark << "\n";
  }
  if (const auto path = arguments.value("--onnx"))
    write_onnx(*path, *graph);
  else
    std::cout << print(*graph);
  return 0;
}

}  // namespace

Command opt_command() {
  return {"opt",
          "FILE.gex [options]",
          "runs passes over a graph and prints the result",
          "Reads the text form of a graph (- is standard input), runs the passes of the level, or\n"
          "exactly those named by --passes in that order, and prints the graph. The result is\n"
          "verified after every pass that changed something.",
          with_flags_of(
              {"level", "disabled_passes", "enabled_passes", "switch_file", "dump_dir"},
              {{"--passes", "a,b,c", "just these passes, in this order"},
               {"--dump-passes", "a,b", "with --dump: instead, before and after each of these"},
               {"--fold-limit", "N", "maximum number of elements of folded constants (4096)"},
               {"--onnx", "FILE", "write the graph there as ONNX instead of printing it"},
               {"--stats", "", "what each pass did and how long it took, on standard error"},
               {"--list-passes", "", "names, stages, levels and meanings of all passes"}}),
          1,
          run};
}

}  // namespace gex::tool
