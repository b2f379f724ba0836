#include "compile/compile.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <unordered_map>

#include "backend/backend.hpp"
#include "base/activity.hpp"
#include "base/log.hpp"
#include "cache/program_cache.hpp"
#include "cache/store.hpp"
#include "compile/execute.hpp"
#include "compile/frozen/fold_frozen.hpp"
#include "compile/graphviz.hpp"
#include "emit/emit.hpp"
#include "ir/assume.hpp"
#include "ir/run_labels.hpp"
#include "ir/text/onnx_text.hpp"
#include "ir/text/print_short.hpp"
#include "passes/engine/dump.hpp"
#include "passes/pipeline.hpp"

namespace gex {

Signature Signature::of(const Graph& graph) {
  Signature signature;
  for (std::size_t k = 0; k < graph.inputs().size(); ++k) {
    signature.inputs.push_back({static_cast<int>(k), Dim(0), graph.inputs()[k]->name()});
  }
  for (int k = 0; k < static_cast<int>(graph.outputs().size()); ++k) {
    bool tied = false;
    for (const Tie& tie : graph.ties()) tied |= tie.output == k;
    if (!tied) signature.outputs.push_back({Signature::Output::Kind::tensor, k, Dim(0)});
  }
  return signature;
}

namespace {

using Clock = std::chrono::steady_clock;

class StageTimer {
 public:
  explicit StageTimer(CompileReport& report) : report_(report) { Activity::note("passes"); }
  void done(std::string stage) {
    auto now = Clock::now();
    report_.seconds.push_back(
        {std::move(stage), std::chrono::duration<double>(now - last_).count()});
    last_ = now;
  }

 private:
  CompileReport& report_;
  Clock::time_point last_ = Clock::now();
};

backend::CodeOptions code_options(const CompileOptions& options) {
  backend::CodeOptions result;
  result.generate_code = options.generate_code;
  result.fast_math = options.fast_math;
  result.autotune = options.autotune;
  result.cache = options.cache;
  result.keep_static_code = options.keep_static_code;
  return result;
}

// The assumptions of shape rules are checked for each new shape key. Symbols bound inside a branch
// or a loop have no value where guards are checked.
void add_guards(const AssumptionLog& assumed, program::Program& program) {
  std::vector<Dim> known;
  for (Dim symbol : program.symbols)
    if (!program::is_bound_symbol(program, symbol)) known.push_back(symbol);
  for (int segment : program.main)
    for (const program::Step& step : program.segments[static_cast<std::size_t>(segment)].steps)
      for (Dim symbol : program::bound_symbols(program, step)) known.push_back(symbol);
  for (const Assumption& assumption : assumed.taken()) {
    std::vector<Dim> symbols;
    assumption.lhs.collect_symbols(symbols);
    assumption.rhs.collect_symbols(symbols);
    const bool has_value = std::all_of(symbols.begin(), symbols.end(), [&](Dim symbol) {
      return std::find(known.begin(), known.end(), symbol) != known.end();
    });
    if (!has_value) continue;
    using Relation = program::Guard::Relation;
    const bool equal = assumption.relation == Assumption::Relation::equal;
    program.guards.push_back({assumption.lhs, assumption.rhs, equal ? Relation::eq : Relation::le,
                              str(assumption.message, ": the sizes do not match")});
  }
}

void check_frozen(const Graph& graph, const std::vector<FrozenInput>& frozen) {
  for (const FrozenInput& input : frozen) {
    if (input.graph_input < 0 || input.graph_input >= static_cast<int>(graph.inputs().size()))
      fail(ErrorCode::invalid_argument, "graph \"", graph.name(), "\" has ", graph.inputs().size(),
           " inputs; input ", input.graph_input, " can't be frozen");
    const Value& value = *graph.inputs()[static_cast<std::size_t>(input.graph_input)];
    if (input.memory == nullptr || !value.type().bytes().is_const())
      fail(ErrorCode::invalid_argument, "input \"", value.name(), "\" ", value.type(),
           " can't be frozen: it needs memory and a constant size");
    for (const Tie& tie : graph.ties())
      if (tie.input == input.graph_input)
        fail(ErrorCode::invalid_argument, "input \"", value.name(),
             "\" can't be frozen: the graph writes into it");
  }
}

void choose_streams(Graph& graph, int streams) {
  constexpr int kMost = 64;
  if (streams < 0 || streams > kMost)
    fail(ErrorCode::invalid_argument, "streams is ", streams, "; it must be 0 (from labels) to ",
         kMost);
  if (number_streams(graph) > 1 && streams == 1)
    fail(ErrorCode::invalid_argument, "graph \"", graph.name(), "\" has nodes with different ",
         kStreamLabel,
         "s, but is compiled for one stream; remove the labels or allow several streams");
}

// The numbers of nodes in the text of a graph.
class NodeNumbers {
 public:
  explicit NodeNumbers(const Graph& graph) { add(graph); }

  // Removes erased nodes: another node may be created at the same address.
  void keep_those_of(const Graph& graph) {
    std::unordered_map<const Node*, int> all = std::exchange(numbers_, {});
    keep(graph, all);
  }

  int of(const Node* node) const {
    const auto at = numbers_.find(node);
    return at == numbers_.end() ? -1 : at->second;
  }

 private:
  void add(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      numbers_.emplace(&node, static_cast<int>(numbers_.size()));
      for (const auto& subgraph : node.subgraphs()) add(*subgraph);
    }
  }

  void keep(const Graph& graph, const std::unordered_map<const Node*, int>& all) {
    for (const Node& node : graph.nodes()) {
      if (const auto at = all.find(&node); at != all.end()) numbers_.insert(*at);
      for (const auto& subgraph : node.subgraphs()) keep(*subgraph, all);
    }
  }

  std::unordered_map<const Node*, int> numbers_;
};

std::string_view name_of(lower::Unit::Kind kind) {
  switch (kind) {
    case lower::Unit::Kind::loop:
      return "loop";
    case lower::Unit::Kind::problem:
      return "contraction";
    case lower::Unit::Kind::scatter:
      return "scatter";
    case lower::Unit::Kind::step:
      break;
  }
  return "step";
}

void write_origins(emit::Emitted& emitted, const NodeNumbers& numbers, Origins& origins) {
  for (emit::EmittedUnit& unit : emitted.units) {
    Origins::Unit& out = origins.units.emplace_back();
    out.kind = name_of(unit.kind);
    out.label = std::move(unit.label);
    for (const Node* node : unit.nodes) out.nodes.push_back(numbers.of(node));
  }
  origins.unit_of_step = std::move(emitted.unit_of_step);
  for (const lower::Remark& remark : emitted.remarks)
    origins.separate.push_back({numbers.of(remark.at), numbers.of(remark.other), remark.reason});
}

// Lets the target's backend make the code of the program.
void finish(program::Program program, const CompileOptions& options, Compiled& compiled,
            StageTimer& timer) {
  compiled.program = std::make_shared<const program::Program>(std::move(program));
  const Target target = parse_target(compiled.program->target);
  Activity::note(str("code of ", compiled.program->kernels.size(), " kernels"));
  backend::CompiledCode code =
      backend::backend_for(target.kind).compile(compiled.program, code_options(options));
  compiled.report.generator = std::move(code.generator);
  compiled.executable = std::make_shared<const program::Executable>(std::move(code.executable));
  compiled.specialiser = std::move(code.specialiser);
  compiled.fast_math = options.fast_math;
  timer.done("code");
}

// Gives the program's frozen constants their memory.
void bind(compile_detail::FrozenPlan plan, const CompileOptions& options, Compiled& compiled,
          StageTimer& timer) {
  if (plan.slots.empty()) return;
  compiled.frozen = compile_detail::bind_frozen(std::move(plan), options);
  timer.done("frozen");
}

void restore(compile_detail::KeptProgram kept, const CompileOptions& options, Compiled& compiled,
             StageTimer& timer) {
  kept.report.seconds = std::move(compiled.report.seconds);
  compiled.report = std::move(kept.report);
  timer.done("load");
  bind(std::move(kept.frozen), options, compiled, timer);
  finish(std::move(kept.program), options, compiled, timer);
}

// Whether an earlier compile cached the program and it could be restored.
bool take_kept(const Digest& key, const std::string& name, const CompileOptions& options,
               Compiled& compiled, StageTimer& timer) {
  const std::optional<program::Artefact> artefact = options.cache->load("program", key);
  if (!artefact) return false;
  try {
    compile_detail::KeptProgram kept = compile_detail::load_program(*artefact);
    kept.report.counts.push_back({"programs_from_cache", 1});
    kept.program.name = name;
    restore(std::move(kept), options, compiled, timer);
    return true;
  } catch (const Error& error) {
    options.cache->discard("program", key, error.what());
    compiled = {};
    return false;
  }
}

}  // namespace

namespace {

// With `folds_large` constants of any size are folded; that compiles parts of the graph separately.
Compiled compile_graph(std::unique_ptr<Graph> graph, const Signature& signature,
                       const CompileOptions& options, bool folds_large);

// The results of a graph of constants.
std::vector<HostTensor> computed(std::unique_ptr<Graph> constants, CompileOptions options) {
  options.target = "cpu";
  options.frozen.clear();
  options.dump_dir.clear();
  options.cache = nullptr;
  options.autotune = false;
  Signature signature = Signature::of(*constants);
  for (Signature::Output& output : signature.outputs) output.own_memory = true;
  const Compiled compiled = compile_graph(std::move(constants), signature, options, false);
  runtime::SessionOptions session_options;
  session_options.static_code = false;
  runtime::Session session(compiled.executable, session_options);
  return execute(session, {});
}

}  // namespace

Compiled compile_detail::restored(KeptProgram kept, const CompileOptions& options) {
  Compiled compiled;
  StageTimer timer(compiled.report);
  restore(std::move(kept), options, compiled, timer);
  return compiled;
}

Compiled compile(std::unique_ptr<Graph> graph, const CompileOptions& options) {
  Signature signature = Signature::of(*graph);
  return compile(std::move(graph), signature, options);
}

namespace {

// What GEX_LOG asks for: one line at level info, what each pass and fusion did at level debug.
Compiled logged(Compiled compiled) {
  const CompileReport& report = compiled.report;
  const std::string& name = compiled.program->name;
  for (const Origins::PassRun& pass : report.origins.passes)
    if (pass.changed)
      log(LogArea::passes, LogLevel::debug, name, ": ", pass.name, " changed ", pass.count, ", ",
          pass.nodes_before, " -> ", pass.nodes_after, " nodes");
  for (const Origins::Unit& unit : report.origins.units)
    log(LogArea::fuse, LogLevel::debug, name, ": ", unit.kind, " of ", unit.nodes.size(),
        " nodes: ", unit.label);
  for (const std::string& remark : report.remarks)
    log(LogArea::fuse, LogLevel::debug, name, ": ", remark);
  if (!logs(LogArea::compile, LogLevel::info)) return compiled;
  std::string times;
  for (const auto& [stage, seconds] : report.seconds)
    times += str(times.empty() ? "" : ", ", stage, " ", std::llround(seconds * 1e6), " us");
  log(LogArea::compile, LogLevel::info, name, ": ", report.origins.units.size(), " units for ",
      compiled.program->target, " by ", report.generator, ": ", times);
  return compiled;
}

// GEX_DUMP=FOLDER: a folder in it for each graph of the process; empty if it is not set.
std::string dump_folder(const Graph& graph) {
  static std::atomic<int> graphs{0};
  const char* folder = std::getenv("GEX_DUMP");
  if (folder == nullptr || *folder == '\0') return {};
  std::string name = graph.name();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; }, '_');
  return (std::filesystem::path(folder) / str(name, "_", graphs++)).string();
}

}  // namespace

Compiled compile(std::unique_ptr<Graph> graph, const Signature& signature,
                 const CompileOptions& options) {
  std::string folder = options.dump_dir.empty() ? dump_folder(*graph) : std::string();
  if (folder.empty()) return logged(compile_graph(std::move(graph), signature, options, true));
  CompileOptions dumping = options;
  dumping.cache = nullptr;  // a program from the cache has no stages to dump
  dumping.dump_dir = std::move(folder);
  const std::string text = print_for_report(*graph);
  passes::write_text(dumping.dump_dir, "before_passes.gex", text);
  passes::write_text(dumping.dump_dir, "before_passes.dot", graphviz_of_graph(text));
  return logged(compile_graph(std::move(graph), signature, dumping, true));
}

namespace {

void run_passes(Graph& graph, const CompileOptions& options, const Target& target, bool folds_large,
                CompileReport& report) {
  passes::PipelineOptions pass_options;
  pass_options.level = options.level;
  pass_options.disabled = options.disabled_passes;
  pass_options.enabled = options.enabled_passes;
  pass_options.switch_file = options.switch_file;
  const backend::PassSwitches switches = backend::backend_for(target.kind).pass_switches();
  for (const std::string& pass : switches.disabled) pass_options.disabled.push_back(pass);
  for (const std::string& pass : switches.enabled) pass_options.enabled.push_back(pass);
  for (const FrozenInput& input : options.frozen)
    if (input.contents) pass_options.settings.frozen_inputs.push_back(input.graph_input);
  if (folds_large)
    pass_options.settings.compute = [&](std::unique_ptr<Graph> constants) {
      return computed(std::move(constants), options);
    };
  pass_options.dump_dir = options.dump_dir;
  passes::PipelineReport passed = passes::run_pipeline(graph, pass_options);
  for (const auto& pass : passes::totals(passed)) {
    if (pass.changed) report.counts.push_back({str("pass.", pass.name), pass.count});
  }
  report.pass_statistics = passes::statistics_json(graph.name(), passed);
  for (const passes::PassRecord& pass : passed.passes)
    report.origins.passes.push_back(
        {pass.name, pass.changed, pass.count, pass.nodes_before, pass.nodes_after, pass.seconds});
  for (std::string& remark : passed.remarks) report.remarks.push_back(std::move(remark));
}

// The compiled graph at its three levels, as text and for Graphviz.
void write_stages(const std::string& folder, const CompileReport& report,
                  const program::Program& program) {
  passes::write_text(folder, "graph.gex", report.graph_text);
  passes::write_text(folder, "kernels.txt", report.kernel_text);
  passes::write_text(folder, "program.txt", program::print(program, {.constant_data = false}));
  for (const std::string_view level : {"graph", "kernels", "program"})
    passes::write_text(folder, str(level, ".dot"), graphviz_of(report, program, level));
}

Compiled compile_graph(std::unique_ptr<Graph> graph, const Signature& signature,
                       const CompileOptions& options, bool folds_large) {
  Compiled compiled;
  CompileReport& report = compiled.report;
  StageTimer timer(report);
  check_frozen(*graph, options.frozen);
  const Target target = backend::find_target(options.target);
  std::optional<Digest> key;
  if (options.cache != nullptr) {
    key = compile_detail::program_key(*graph, signature, options, target);
    if (key && take_kept(*key, graph->name(), options, compiled, timer)) return compiled;
  }
  AssumptionLog assumed;  // of the user's graph, then of the graph after the passes
  verify(*graph);
  choose_streams(*graph, options.streams);

  run_passes(*graph, options, target, folds_large, report);
  verify(*graph);
  report.graph_text = print_for_report(*graph);
  if (!options.dump_dir.empty())
    passes::write_text(options.dump_dir, "graph.pbtxt", print_onnx(*graph));
  NodeNumbers numbers(*graph);
  timer.done("passes");
  Activity::note("fusion");

  CompileOptions with_folded = options;
  compile_detail::FoldedPart folded = compile_detail::fold_frozen(*graph, with_folded.frozen);
  if (folded.nodes > 0) report.counts.push_back({"folded_with_frozen", folded.nodes});

  numbers.keep_those_of(*graph);
  emit::Emitted emitted = emit::emit(*graph, signature, with_folded, target);
  compile_detail::FrozenPlan frozen{std::move(folded.graph), std::move(emitted.frozen)};
  report.kernel_text = std::move(emitted.kernel_text);
  for (const lower::Remark& remark : emitted.remarks) {
    report.remarks.push_back(str("not fused: ", remark.node, ": ", remark.reason));
  }
  if (!emitted.overlap.empty()) report.remarks.push_back(std::move(emitted.overlap));
  write_origins(emitted, numbers, report.origins);
  timer.done("fuse");

  add_guards(assumed, emitted.program);
  program::verify(emitted.program);
  for (const auto& [name, value] : emitted.program.counters) report.counts.push_back({name, value});
  if (key) {
    options.cache->save("program", *key,
                        compile_detail::save_program(emitted.program, frozen, report));
    timer.done("save");
  }
  bind(std::move(frozen), options, compiled, timer);
  finish(std::move(emitted.program), options, compiled, timer);
  if (!options.dump_dir.empty()) write_stages(options.dump_dir, report, *compiled.program);
  return compiled;
}

}  // namespace

}  // namespace gex
