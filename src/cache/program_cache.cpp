#include "cache/program_cache.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "backend/backend.hpp"
#include "base/error.hpp"
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
  if (path.empty()) return "";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void add_names(Digester& key, const std::vector<std::string>& names) {
  key.add(static_cast<std::int64_t>(names.size()));
  for (const std::string& name : names) key.add(name);
}

// Structs are taken apart field by field: one that gets another field does not compile here before
// somebody has said what the field means for the key.

void add_signature(Digester& key, const Signature& signature) {
  const auto& [inputs, outputs] = signature;
  key.add(static_cast<std::int64_t>(inputs.size()));
  for (const auto& [graph_input, integer, name, released] : inputs)
    key.add(graph_input).add(integer.text()).add(name).add(released);
  key.add(static_cast<std::int64_t>(outputs.size()));
  for (const auto& [kind, graph_output, integer, own_memory] : outputs)
    key.add(static_cast<std::int64_t>(kind)).add(graph_output).add(integer.text()).add(own_memory);
}

// False if nothing can be kept.
bool add_options(Digester& key, const CompileOptions& options) {
  const auto& [target, level, disabled_passes, enabled_passes, switch_file, fuse, prologues,
               fast_math, keep_subnormals, place_cats, overwrite_temps, write_ties_in_place, frozen,
               streams, generate_code, dump_dir, cache, keep_static_code, autotune] = options;
  // Of no influence on the program: where it is kept, what of its machine code, and what code
  // replaces its own later.
  static_cast<void>(target);  // in the key as what the device tells: see program_key
  static_cast<void>(cache);
  static_cast<void>(keep_static_code);
  static_cast<void>(autotune);
  if (!dump_dir.empty() || !variable("GEX_DUMP_PASSES").empty()) return false;
  key.add(level).add(fuse).add(prologues).add(fast_math).add(generate_code);
  key.add(keep_subnormals)
      .add(place_cats)
      .add(overwrite_temps)
      .add(write_ties_in_place)
      .add(streams);
  add_names(key, disabled_passes);
  add_names(key, enabled_passes);
  key.add(text_of_file(switch_file.empty() ? variable("GEX_PASS_FILE") : switch_file));
  key.add(variable("GEX_PASSES"));
  key.add(static_cast<std::int64_t>(frozen.size()));
  for (const auto& [graph_input, memory, contents] : frozen) key.add(graph_input).add(contents);
  return true;
}

// False if a pass does not say which version of itself it is.
bool add_user_passes(Digester& key) {
  const passes::PassSnapshot user_passes = passes::user_passes();
  key.add(static_cast<std::int64_t>(user_passes->size()));
  for (const passes::Pass& pass : *user_passes) {
    if (pass.version.empty()) return false;
    key.add(pass.name).add(pass.version).add(passes::name_of(pass.stage)).add(pass.level);
  }
  return true;
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
  in.must_end();
  return report;
}

// What an op of the caller's is made of is known to this process alone.
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
