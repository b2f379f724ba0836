// Compiling and running through gex.h.

#include <algorithm>
#include <cstddef>

#include "base/log.hpp"
#include "cache/program_file.hpp"
#include "cache/store.hpp"
#include "compile/execute.hpp"
#include "compile/index_checks.hpp"
#include "compile/options.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"
#include "target/target.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

// Fields of the struct as options of the table; what has no field has only a name.
UserOptions options_in_fields(const gex_compile_options& given) {
  UserOptions options;
  const auto set = [&](const char* name, const OptionValue& value) {
    find_option(name).set(options, value);
  };
  set("level", std::int64_t{given.level});
  set("fuse", given.fuse != 0);
  set("fast_math", given.fast_math != 0);
  set("generate_code", given.generate_code != 0);
  set("reuse_memory", given.keep_apart == 0);
  set("capture_limit", given.capture_limit);
  set("streams", std::int64_t{given.streams});
  set("in_place_temps", given.in_place != 0);
  set("in_place_inputs", given.in_place != 0);
  set("autotune", given.autotune != 0);
  set("prologues", given.operands_in_memory == 0);
  set("check_indices", given.unchecked_indices == 0);
  set("cache", given.no_cache == 0);
  if (given.switch_file != nullptr) set("switch_file", std::string(given.switch_file));
  if (given.dump_dir != nullptr) set("dump_dir", std::string(given.dump_dir));
  const auto names = [](const char* const* list, std::size_t count, const char* what) {
    require_list(list, count, what);
    std::vector<std::string> names;
    for (std::size_t k = 0; k < count; ++k) names.push_back(&required(list[k], "a pass name"));
    return names;
  };
  set("disabled_passes",
      names(given.disabled_passes, given.disabled_pass_count, "disabled_passes"));
  set("enabled_passes", names(given.enabled_passes, given.enabled_pass_count, "enabled_passes"));
  return options;
}

UserOptions to_options(const gex_compile_options& given) {
  if (given.async_limit < 1)
    fail(ErrorCode::invalid_argument, "async_limit is ", given.async_limit,
         "; at least one run must be able to wait");
  UserOptions options = options_in_fields(given);
  require_list(given.options, given.option_count, "options");
  for (std::size_t k = 0; k < given.option_count; ++k)
    set_option(options, &required(given.options[k].name, "the name of an option"),
               &required(given.options[k].value, "the value of an option"));
  if (options.api.cache) options.compile.cache = Store::from_environment();
  return options;
}

// The result of `make` for the options, ready to run.
template <class Make>
void make_program(const gex_compile_options* options, gex_program** program, const Make& make) {
  required(program, "program");
  gex_compile_options given = GEX_COMPILE_OPTIONS_INIT;
  if (options != nullptr)
    given = read_versioned(options, given, offsetof(gex_compile_options, fuse), "options");
  const UserOptions with = to_options(given);
  const auto device = open_target(with.compile.target);
  auto made = std::make_unique<gex_program>();
  made->memory = std::make_shared<const Memory>(given.allocator);
  made->async_limit = static_cast<std::size_t>(given.async_limit);
  made->compiled = make(with);
  runtime::SessionOptions session = with.session;
  session.device = device_of(given, made->compiled.program->target, made->memory);
  session.frozen = made->compiled.frozen;
  made->session = std::make_unique<runtime::Session>(made->compiled.executable, session,
                                                     made->compiled.specialiser);
  *program = made.release();
}

}  // namespace

extern "C" {

gex_status gex_list_options(char** text) {
  return guarded([&] { give_text(list_options(), text); });
}

gex_status gex_compile(const gex_graph* graph, const gex_compile_options* options,
                       gex_program** program) {
  return guarded([&] {
    const gex_graph& from = required(graph, "graph");
    make_program(options, program, [&](const UserOptions& with) {
      std::unique_ptr<Graph> copy = from.graph->clone();
      if (with.api.check_indices) add_index_checks(*copy);
      Signature signature = Signature::of(*copy);
      // The host can't make views of memory of a device.
      const bool on_host = parse_target(with.compile.target).is_cpu();
      for (Signature::Output& output : signature.outputs) output.own_memory |= !on_host;
      return compile(std::move(copy), signature, with.compile);
    });
  });
}

gex_status gex_program_save(const gex_program* program, const char* path) {
  return guarded(
      [&] { save_program_file(required(program, "program").compiled, &required(path, "path")); });
}

gex_status gex_program_load(const char* path, const gex_compile_options* options,
                            gex_program** program) {
  return guarded([&] {
    const std::string from = &required(path, "path");
    make_program(options, program,
                 [&](const UserOptions& with) { return load_program_file(from, with.compile); });
  });
}

gex_status gex_program_print(const gex_program* program, int32_t level, char** text) {
  return guarded([&] {
    const Compiled& compiled = required(program, "program").compiled;
    switch (level) {
      case GEX_LEVEL_GRAPH:
        return give_text(compiled.report.graph_text, text);
      case GEX_LEVEL_KERNELS:
        return give_text(compiled.report.kernel_text, text);
      case GEX_LEVEL_PROGRAM:
        return give_text(program::print(*compiled.program), text);
      case GEX_LEVEL_PASSES:
        return give_text(compiled.report.pass_statistics, text);
      default:
        fail(ErrorCode::invalid_argument, "level is ", level,
             "; levels are 0 (graph), 1 (kernels), 2 (program) and 3 (passes)");
    }
  });
}

gex_status gex_program_report(const gex_program* program, char** text) {
  return guarded([&] {
    const gex_program& from = required(program, "program");
    const CompileReport& report = from.compiled.report;
    std::string lines = str("generator: ", report.generator, "\n");
    for (const auto& [stage, seconds] : report.seconds)
      lines += str(stage, ": ", seconds * 1e3, " ms\n");
    for (const auto& [name, count] : report.counts) lines += str(name, ": ", count, "\n");
    for (const std::string& remark : report.remarks) lines += str(remark, "\n");
    for (const std::string& finding : from.session->findings())
      lines += str("tuned: ", finding, "\n");
    give_text(lines, text);
  });
}

}  // extern "C"
