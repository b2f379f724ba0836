// Compiling and running through gex.h.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "base/log.hpp"
#include "cache/program_file.hpp"
#include "cache/store.hpp"
#include "compile/execute.hpp"
#include "compile/index_checks.hpp"
#include "compile/options.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"
#include "frontend/capi/run_host.hpp"
#include "runtime/session/run_control.hpp"

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

// What `make` gives for the options, ready to run.
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
  made->session = std::make_unique<runtime::Session>(made->compiled.executable, session,
                                                     made->compiled.specialiser);
  *program = made.release();
}

gex_run_options to_run_options(const gex_run_options* given) {
  const gex_run_options defaults = GEX_RUN_OPTIONS_INIT;
  const gex_run_options options =
      read_versioned(given, defaults, sizeof(gex_run_options), "options");
  if (options.cancel != nullptr) required(options.cancel, "options.cancel");
  if (options.timeout_nanoseconds < 0)
    fail(ErrorCode::invalid_argument, "timeout_nanoseconds is ", options.timeout_nanoseconds,
         "; it can't be negative");
  return options;
}

runtime::RunControl to_control(const gex_run_options& options) {
  runtime::RunControl control;
  if (const runtime::RunControl* outer = runtime::current_control()) control.poll = outer->poll;
  if (options.cancel != nullptr) control.cancelled = &options.cancel->requested;
  if (options.timeout_nanoseconds > 0)
    control.deadline =
        runtime::RunControl::Clock::now() + std::chrono::nanoseconds(options.timeout_nanoseconds);
  return control;
}

using LaidOut = std::vector<std::unique_ptr<OwnedTensor>>;

// Runs; inputs that are only read and lie otherwise than the program expects are copied first.
// Results may be views of the copies, which must live until they are taken.
LaidOut run_with_layouts(gex_program& program, std::vector<runtime::InputArg>& args,
                         std::vector<TensorView>& given, RunHost& host) {
  LaidOut copies;
  while (true) {
    try {
      program.session->run_from_host(args, host);
      return copies;
    } catch (const runtime::LayoutMismatch& mismatch) {
      if (copies.size() > given.size()) throw;
      TensorView& input = given[static_cast<std::size_t>(mismatch.input)];
      copies.push_back(copy_with_strides(input, mismatch.strides, program.memory));
      input.data = copies.back()->data();
      input.strides = mismatch.strides;
      args[static_cast<std::size_t>(mismatch.input)].tensor = {input.data, input.dtype, input.shape,
                                                               input.strides};
    }
  }
}

std::vector<TensorView> views_of(const gex_tensor* tensors, std::size_t count, const char* what) {
  require_list(tensors, count, what);
  std::vector<TensorView> views;
  for (std::size_t k = 0; k < count; ++k) {
    const gex_tensor& tensor = *element(tensors, k);
    const std::string name = str(what, " ", k);
    if (tensor.struct_size != tensors->struct_size || tensor.struct_size < sizeof(gex_tensor))
      fail(ErrorCode::invalid_argument, name, ": struct_size is ", tensor.struct_size,
           ", expected ", sizeof(gex_tensor), ": start from GEX_TENSOR_INIT");
    views.push_back(tensor.data == nullptr && std::string_view(what) == "output"
                        ? TensorView{}
                        : to_view(tensor, true, name));
  }
  return views;
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
      return compile(std::move(copy), with.compile);
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

void gex_program_destroy(gex_program* program) {
  destroy(program, "gex_program_destroy", "program");
}

gex_status gex_cancel_create(gex_cancel** cancel) {
  return guarded([&] { required(cancel, "cancel") = new gex_cancel; });
}

gex_status gex_cancel_request(gex_cancel* cancel) {
  return guarded([&] { required(cancel, "cancel").requested.store(true); });
}

void gex_cancel_destroy(gex_cancel* cancel) { destroy(cancel, "gex_cancel_destroy", "cancel"); }

gex_status gex_program_input_count(const gex_program* program, size_t* count) {
  return guarded([&] {
    required(count, "count") = required(program, "program").compiled.program->inputs.size();
  });
}

gex_status gex_program_output_count(const gex_program* program, size_t* count) {
  return guarded([&] {
    required(count, "count") = required(program, "program").compiled.program->outputs.size();
  });
}

gex_status gex_program_run(gex_program* program, const gex_tensor* inputs, size_t input_count,
                           gex_tensor* outputs, size_t output_count) {
  return gex_program_run_with(program, inputs, input_count, outputs, output_count, nullptr);
}

gex_status gex_program_run_with(gex_program* program, const gex_tensor* inputs, size_t input_count,
                                gex_tensor* outputs, size_t output_count,
                                const gex_run_options* options) {
  return guarded([&] {
    gex_program& p = required(program, "program");
    std::optional<runtime::RunControl> control;
    std::optional<runtime::ControlScope> scope;
    if (options != nullptr) scope.emplace(&control.emplace(to_control(to_run_options(options))));
    const std::size_t results = p.compiled.program->outputs.size();
    if (output_count != results)
      fail(ErrorCode::invalid_argument, "the program has ", results,
           " results, but there is room for ", output_count);
    std::vector<TensorView> given = views_of(inputs, input_count, "input");
    const std::vector<TensorView> wanted = views_of(outputs, output_count, "output");
    std::vector<runtime::InputArg> args(given.size());
    for (std::size_t k = 0; k < given.size(); ++k)
      args[k].tensor = {given[k].data, given[k].dtype, given[k].shape, given[k].strides};
    RunHost host(given, wanted, p.memory);
    const LaidOut copies = run_with_layouts(p, args, given, host);
    std::vector<std::unique_ptr<OwnedTensor>> owned = host.take();
    for (std::size_t k = 0; k < owned.size(); ++k)
      if (owned[k]) hand_out(std::move(owned[k]), *element(outputs, k));
  });
}

gex_status gex_program_run_async(gex_program* program, const gex_tensor* inputs, size_t input_count,
                                 gex_tensor* outputs, size_t output_count,
                                 gex_run_callback callback, void* user) {
  return gex_program_run_async_with(program, inputs, input_count, outputs, output_count, nullptr,
                                    callback, user);
}

gex_status gex_program_run_async_with(gex_program* program, const gex_tensor* inputs,
                                      size_t input_count, gex_tensor* outputs, size_t output_count,
                                      const gex_run_options* options, gex_run_callback callback,
                                      void* user) {
  return guarded([&] {
    gex_program& p = required(program, "program");
    if (callback == nullptr) fail(ErrorCode::invalid_argument, "callback is NULL");
    require_list(inputs, input_count, "inputs");
    require_list(outputs, output_count, "outputs");
    const gex_run_options with =
        options == nullptr ? gex_run_options GEX_RUN_OPTIONS_INIT : to_run_options(options);
    p.async.add(
        [=] {
          const gex_status status =
              gex_program_run_with(program, inputs, input_count, outputs, output_count, &with);
          callback(user, status, status == GEX_OK ? "" : gex_last_error());
        },
        p.async_limit);
  });
}

void gex_tensor_release(gex_tensor* tensor) {
  if (tensor == nullptr || tensor->owner == nullptr) return;
  destroy(static_cast<OwnedTensor*>(tensor->owner), "gex_tensor_release", "the tensor's memory");
  const uint32_t size = tensor->struct_size;
  *tensor = GEX_TENSOR_INIT;
  tensor->struct_size = size;
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

gex_status gex_program_counters(const gex_program* program, gex_counters* counters) {
  return guarded([&] {
    const runtime::Counters now = required(program, "program").session->counters();
    const std::size_t room = required(counters, "counters").struct_size;
    if (room < offsetof(gex_counters, calls) + sizeof(int64_t))
      fail(ErrorCode::invalid_argument, "counters.struct_size is ", room, ", expected ",
           sizeof(gex_counters), ": start from GEX_COUNTERS_INIT");
    gex_counters all = {};
    all.struct_size = counters->struct_size;
    all.calls = now.calls;
    all.captures = now.captures;
    all.replays = now.replays;
    all.evictions = now.evictions;
    all.uncaptured = now.uncaptured;
    all.launches = now.launches;
    all.host_calls = now.host_calls;
    all.bytes_copied = now.bytes_copied;
    all.specialised = now.specialised;
    all.arena_bytes = now.arena_bytes;
    all.arena_lower_bound = now.arena_lower_bound;
    all.allocations = now.allocations;
    std::memcpy(counters, &all, std::min(room, sizeof(all)));
  });
}

}  // extern "C"
