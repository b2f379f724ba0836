// Compiling and running through gex.h.

#include <algorithm>
#include <cstddef>

#include "base/log.hpp"
#include "cache/program_file.hpp"
#include "cache/store.hpp"
#include "compile/index_checks.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

CompileOptions to_options(const gex_compile_options& given) {
  if (given.level < 0 || given.level > 3)
    fail(ErrorCode::invalid_argument, "level is ", given.level, "; levels are 0 to 3");
  if (given.capture_limit < 0)
    fail(ErrorCode::invalid_argument, "capture_limit is ", given.capture_limit,
         "; it can't be negative");
  if (given.async_limit < 1)
    fail(ErrorCode::invalid_argument, "async_limit is ", given.async_limit,
         "; at least one run must be able to wait");
  CompileOptions options;
  if (given.no_cache == 0) options.cache = Store::from_environment();
  options.level = given.level;
  options.fuse = given.fuse != 0;
  options.prologues = given.operands_in_memory == 0;
  options.fast_math = given.fast_math != 0;
  options.streams = given.streams;
  options.overwrite_temps = options.write_ties_in_place = given.in_place != 0;
  options.generate_code = given.generate_code != 0;
  options.autotune = given.autotune != 0;
  require_list(given.disabled_passes, given.disabled_pass_count, "disabled_passes");
  for (std::size_t k = 0; k < given.disabled_pass_count; ++k)
    options.disabled_passes.push_back(&required(given.disabled_passes[k], "a pass name"));
  require_list(given.enabled_passes, given.enabled_pass_count, "enabled_passes");
  for (std::size_t k = 0; k < given.enabled_pass_count; ++k)
    options.enabled_passes.push_back(&required(given.enabled_passes[k], "a pass name"));
  if (given.switch_file != nullptr) options.switch_file = given.switch_file;
  if (given.dump_dir != nullptr) options.dump_dir = given.dump_dir;
  return options;
}

// What `make` gives for the options, ready to run.
template <class Make>
void make_program(const gex_compile_options* options, gex_program** program, const Make& make) {
  required(program, "program");
  gex_compile_options given = GEX_COMPILE_OPTIONS_INIT;
  if (options != nullptr)
    given = read_versioned(options, given, offsetof(gex_compile_options, fuse), "options");
  auto made = std::make_unique<gex_program>();
  made->memory = std::make_shared<const Memory>(given.allocator);
  made->async_limit = static_cast<std::size_t>(std::max(given.async_limit, 1));
  made->compiled = make(to_options(given), given);
  runtime::SessionOptions session;
  session.capture_limit = given.capture_limit;
  session.reuse_memory = given.keep_apart == 0;
  session.device = device_of(given, made->memory);
  made->session = std::make_unique<runtime::Session>(made->compiled.executable, session,
                                                     made->compiled.specialiser);
  *program = made.release();
}

}  // namespace

extern "C" {

gex_status gex_compile(const gex_graph* graph, const gex_compile_options* options,
                       gex_program** program) {
  return guarded([&] {
    const gex_graph& from = required(graph, "graph");
    make_program(options, program,
                 [&](const CompileOptions& with, const gex_compile_options& given) {
                   std::unique_ptr<Graph> copy = from.graph->clone();
                   if (given.unchecked_indices == 0) add_index_checks(*copy);
                   return compile(std::move(copy), with);
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
    make_program(options, program, [&](const CompileOptions& with, const gex_compile_options&) {
      return load_program_file(from, with);
    });
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
