#include "cache/program_cache.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "backend/backend.hpp"
#include "base/error.hpp"
#include "base/file_problem.hpp"
#include "base/thread_pool.hpp"
#include "ir/builtin_ops.hpp"
#include "ir/text/print_short.hpp"
#include "passes/engine/user_passes.hpp"
#include "program/bytes.hpp"

namespace gex::compile_detail {

using program::ByteReader;
using program::ByteWriter;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string text_of_file(const std::string& path) {
  if (path.empty() || is_device(path)) return "";  // read_switch_file raises the error
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Structs are decomposed field by field: adding a field breaks the build here until its role in the
// key is decided.

void add_signature(Digester& key, const Signature& signature) {
  const auto& [inputs, outputs] = signature;
  key.add(static_cast<std::int64_t>(inputs.size()));
  for (const auto& [graph_input, integer, name, released] : inputs)
    key.add(graph_input).add(integer.text()).add(name).add(released);
  key.add(static_cast<std::int64_t>(outputs.size()));
  for (const auto& [kind, graph_output, integer, own_memory] : outputs)
    key.add(static_cast<std::int64_t>(kind)).add(graph_output).add(integer.text()).add(own_memory);
}

// False if the program can't be cached.
bool add_options(Digester& key, const CompileOptions& options) {
  // Options that gex/options.def adds to the key in another form than their value; the target is
  // added by program_key.
  if (!options.dump_dir.empty() || !variable("GEX_DUMP_PASSES").empty()) return false;
  key.add(
      text_of_file(options.switch_file.empty() ? variable("GEX_PASS_FILE") : options.switch_file));
  key.add(variable("GEX_PASSES"));
  key.add(keeps_subnormals(options)).add(makes_super_kernels(options));
  key.add(repeats_launches(options));
  key.add(allows_winograd(options));
  add_to_key(key, options);
  // Whether branches overlap depends on the number of threads (plan/overlap.hpp).
  if (options.streams == 0) key.add(std::int64_t{ThreadPool::global().threads()});
  key.add(static_cast<std::int64_t>(options.frozen.size()));
  for (const auto& [graph_input, memory, contents] : options.frozen)
    key.add(graph_input).add(contents);
  return true;
}

// False if a pass has no version.
bool add_user_passes(Digester& key) {
  const passes::PassSnapshot user_passes = passes::user_passes();
  key.add(static_cast<std::int64_t>(user_passes->size()));
  for (const passes::Pass& pass : *user_passes) {
    if (pass.version.empty()) return false;
    key.add(pass.name).add(pass.version).add(passes::name_of(pass.stage)).add(pass.level);
  }
  return true;
}

void write_numbers(const std::vector<int>& numbers, ByteWriter& out) {
  out.u64(numbers.size());
  for (int number : numbers) out.i64(number);
}

void read_numbers(ByteReader& in, std::vector<int>& numbers) {
  numbers.resize(in.count(8));
  for (int& number : numbers) number = static_cast<int>(in.i64());
}

void write_origins(const Origins& origins, ByteWriter& out) {
  out.u64(origins.units.size());
  for (const Origins::Unit& unit : origins.units) {
    out.text(unit.kind);
    out.text(unit.label);
    write_numbers(unit.nodes, out);
  }
  out.u64(origins.unit_of_step.size());
  for (const std::vector<int>& segment : origins.unit_of_step) write_numbers(segment, out);
  out.u64(origins.separate.size());
  for (const Origins::Separate& separate : origins.separate) {
    out.i64(separate.node);
    out.i64(separate.other);
    out.text(separate.reason);
  }
  out.u64(origins.passes.size());
  for (const Origins::PassRun& pass : origins.passes) {
    out.text(pass.name);
    for (std::int64_t number : {std::int64_t{pass.changed}, pass.count, pass.nodes_before,
                                pass.nodes_after, static_cast<std::int64_t>(pass.seconds * 1e9)})
      out.i64(number);
  }
}

void read_origins(ByteReader& in, Origins& origins) {
  origins.units.resize(in.count(24));
  for (Origins::Unit& unit : origins.units) {
    unit.kind = in.text();
    unit.label = in.text();
    read_numbers(in, unit.nodes);
  }
  origins.unit_of_step.resize(in.count(8));
  for (std::vector<int>& segment : origins.unit_of_step) read_numbers(in, segment);
  origins.separate.resize(in.count(24));
  for (Origins::Separate& separate : origins.separate) {
    separate.node = static_cast<int>(in.i64());
    separate.other = static_cast<int>(in.i64());
    separate.reason = in.text();
  }
  origins.passes.resize(in.count(48));
  for (Origins::PassRun& pass : origins.passes) {
    pass.name = in.text();
    pass.changed = in.i64() != 0;
    pass.count = in.i64();
    pass.nodes_before = in.i64();
    pass.nodes_after = in.i64();
    pass.seconds = static_cast<double>(in.i64()) * 1e-9;
  }
}

void write_report(const CompileReport& report, program::Artefact& artefact) {
  ByteWriter out;
  out.u64(report.counts.size());
  for (const auto& [name, count] : report.counts) {
    out.text(name);
    out.i64(count);
  }
  out.u64(report.remarks.size());
  for (const std::string& remark : report.remarks) out.text(remark);
  for (const std::string* text : {&report.pass_statistics, &report.graph_text, &report.kernel_text})
    out.text(*text);
  write_origins(report.origins, out);
  artefact.sections.push_back({"report", out.take()});
}

CompileReport read_report(const program::Artefact& artefact) {
  ByteReader in(artefact.section("report"));
  CompileReport report;
  report.counts.resize(in.count(16));
  for (auto& [name, count] : report.counts) {
    name = in.text();
    count = in.i64();
  }
  report.remarks.resize(in.count(8));
  for (std::string& remark : report.remarks) remark = in.text();
  for (std::string* text : {&report.pass_statistics, &report.graph_text, &report.kernel_text})
    *text = in.text();
  read_origins(in, report.origins);
  in.must_end();
  return report;
}

// Definitions of ops registered by the caller are known only to this process.
bool has_outside_ops(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (!is_builtin(node.op())) return true;
    for (const auto& subgraph : node.subgraphs())
      if (has_outside_ops(*subgraph)) return true;
  }
  return false;
}

}  // namespace

std::optional<Digest> program_key(Graph& graph, const Signature& signature,
                                  const CompileOptions& options, const Target& target) {
  Digester key;
  if (has_outside_ops(graph) || !add_options(key, options) || !add_user_passes(key))
    return std::nullopt;
  // The number in a graph's name depends on what else the process compiled.
  std::string name = graph.name();
  graph.set_name("");
  key.add("gex program").add(engine_build()).add(print_for_key(graph));
  graph.set_name(std::move(name));
  add_signature(key, signature);
  // Grids, tiles and algorithms may depend on the device.
  backend::CodeOptions code;
  code.generate_code = options.generate_code;
  key.add(target.text()).add(target.architecture);
  key.add(backend::backend_for(target.kind).fingerprint(target, code));
  return key.digest();
}

program::Artefact save_program(const program::Program& program, const FrozenPlan& frozen,
                               const CompileReport& report) {
  program::Artefact artefact;
  artefact.label = program.name;
  program::save(program, artefact);
  save_frozen(frozen, artefact);
  write_report(report, artefact);
  return artefact;
}

KeptProgram load_program(const program::Artefact& artefact) {
  KeptProgram kept{program::load(artefact), load_frozen(artefact), read_report(artefact)};
  program::verify(kept.program);
  return kept;
}

}  // namespace gex::compile_detail
