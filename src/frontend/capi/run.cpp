// Running programs through gex.h. Nothing here needs the compiler: it is part of libgex_run too.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"
#include "frontend/capi/run_host.hpp"
#include "runtime/session/core_limit.hpp"
#include "runtime/session/run_control.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

runtime::OnDevice on_device(const gex_run_options& options) {
  return {(options.on_device & GEX_INPUTS_ON_DEVICE) != 0,
          (options.on_device & GEX_OUTPUTS_ON_DEVICE) != 0};
}

std::uint64_t to_stream(const gex_program& program, void* stream) {
  if (program.compiled.program->target == "cpu")
    fail(ErrorCode::unsupported, "a program for the CPU runs on no stream");
  return reinterpret_cast<std::uintptr_t>(stream);
}

std::optional<std::uint64_t> stream_of(const gex_program& program, const gex_run_options& options) {
  if ((options.on_device & GEX_ON_STREAM) == 0) return std::nullopt;
  return to_stream(program, options.stream);
}

void check_on_device(unsigned flags) {
  constexpr unsigned kTensors = GEX_INPUTS_ON_DEVICE | GEX_OUTPUTS_ON_DEVICE;
  if ((flags & ~(kTensors | GEX_ON_STREAM)) != 0)
    fail(ErrorCode::invalid_argument, "options.on_device is ", flags,
         "; it is GEX_INPUTS_ON_DEVICE, GEX_OUTPUTS_ON_DEVICE, both, or both and GEX_ON_STREAM");
  if ((flags & GEX_ON_STREAM) != 0 && (flags & kTensors) != kTensors)
    fail(ErrorCode::invalid_argument,
         "GEX_ON_STREAM needs all inputs and outputs on the device: add "
         "GEX_INPUTS_ON_DEVICE and GEX_OUTPUTS_ON_DEVICE");
}

gex_run_options to_run_options(const gex_run_options* given) {
  const gex_run_options defaults = GEX_RUN_OPTIONS_INIT;
  if (given == nullptr) return defaults;
  const gex_run_options options =
      read_versioned(given, defaults, offsetof(gex_run_options, stream), "options");
  check_on_device(options.on_device);
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

// Runs the program. Inputs that are only read and have other strides than the program expects are
// copied first. Results may be views of the copies, which must live until the results are taken.
LaidOut run_with_layouts(gex_program& program, std::vector<runtime::InputArg>& args,
                         std::vector<TensorView>& given, RunHost& host, runtime::OnDevice placed) {
  LaidOut copies;
  while (true) {
    try {
      program.session->run_from_host(args, host, placed);
      return copies;
    } catch (const runtime::LayoutMismatch& mismatch) {
      if (copies.size() > given.size() || placed.inputs) throw;
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
    const gex_run_options with = to_run_options(options);
    std::optional<runtime::RunControl> control;
    std::optional<runtime::ControlScope> scope;
    if (options != nullptr) scope.emplace(&control.emplace(to_control(with)));
    std::optional<runtime::LimitScope> limit;
    if (p.threads > 0) limit.emplace(p.threads);
    const std::size_t results = p.compiled.program->outputs.size();
    if (output_count != results)
      fail(ErrorCode::invalid_argument, "the program has ", results,
           " results, but there is room for ", output_count);
    std::vector<TensorView> given = views_of(inputs, input_count, "input");
    const std::vector<TensorView> wanted = views_of(outputs, output_count, "output");
    std::vector<runtime::InputArg> args(given.size());
    for (std::size_t k = 0; k < given.size(); ++k)
      args[k].tensor = {given[k].data, given[k].dtype, given[k].shape, given[k].strides};
    const runtime::OnDevice placed = on_device(with);
    for (std::size_t k = 0; placed.outputs && k < wanted.size(); ++k)
      if (wanted[k].data == nullptr && !wanted[k].empty())
        fail(ErrorCode::invalid_argument, "output ", k,
             ": data is NULL; a result on the device needs memory of the caller's");
    RunHost host(given, wanted, p.memory, placed.outputs, stream_of(p, with));
    const LaidOut copies = run_with_layouts(p, args, given, host, placed);
    std::vector<std::unique_ptr<OwnedTensor>> owned = host.take();
    for (std::size_t k = 0; k < owned.size(); ++k)
      if (owned[k]) hand_out(std::move(owned[k]), *element(outputs, k));
  });
}

gex_status gex_program_synchronize(gex_program* program, void* stream) {
  return guarded([&] {
    const gex_program& p = required(program, "program");
    p.session->wait_for(to_stream(p, stream));
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
    const gex_run_options with = to_run_options(options);
    if ((with.on_device & GEX_ON_STREAM) != 0)
      fail(ErrorCode::invalid_argument,
           "a run on a stream is asynchronous by itself: use gex_program_run_with");
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
