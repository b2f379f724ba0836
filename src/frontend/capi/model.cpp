// Model files through gex/session.h.

#include "frontend/capi/model.hpp"

#include <cstddef>

#include "base/log_sink.hpp"
#include "deploy/signature.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"

using namespace gex;
using namespace gex::capi;

namespace gex::capi {

DescribedTensor::DescribedTensor(const deploy::TensorInfo& info)
    : name_(info.name), type_(info.type), dtype_(from_dtype(info.dtype)) {
  for (Dim size : info.shape) {
    shape_.push_back(size.as_const().value_or(-1));
    texts_.push_back(size.text());
  }
  for (const std::string& text : texts_) sizes_.push_back(text.c_str());
}

void DescribedTensor::give(gex_tensor_info* place) const {
  const std::size_t room = required(place, "info").struct_size;
  if (room < sizeof(gex_tensor_info))
    fail(ErrorCode::invalid_argument, "info.struct_size is ", room, ", expected ",
         sizeof(gex_tensor_info), ": start from GEX_TENSOR_INFO_INIT");
  place->dtype = dtype_;
  place->name = name_.c_str();
  place->type = type_.c_str();
  place->rank = shape_.size();
  place->shape = shape_.data();
  place->sizes = sizes_.data();
}

}  // namespace gex::capi

gex_model::gex_model(std::shared_ptr<const deploy::Model> loaded) : model(std::move(loaded)) {
  for (const deploy::TensorInfo& info : model->inputs)
    inputs.push_back(std::make_unique<DescribedTensor>(info));
  for (const deploy::TensorInfo& info : model->outputs)
    outputs.push_back(std::make_unique<DescribedTensor>(info));
}

namespace {

deploy::LoadOptions to_options(const gex_load_options* given) {
  deploy::LoadOptions options;
  if (given == nullptr) return options;
  const gex_load_options defaults = GEX_LOAD_OPTIONS_INIT;
  const gex_load_options read =
      read_versioned(given, defaults, offsetof(gex_load_options, check_weights), "options");
  options.trust = read.trust != 0;
  options.check_weights = read.check_weights != 0;
  options.autotune = read.autotune != 0;
  if (read.level != nullptr) options.level = read.level;
  if (read.model != nullptr) options.model = read.model;
  if (read.key != nullptr) {
    options.key.assign(static_cast<const char*>(read.key), read.key_size);
    deploy::check_key(options.key);
  }
  return options;
}

const DescribedTensor& described(const std::vector<std::unique_ptr<DescribedTensor>>& all,
                                 std::size_t index, const char* what) {
  if (index >= all.size())
    fail(ErrorCode::invalid_argument, "the model has ", all.size(), " ", what, "s; there is no ",
         what, " ", index);
  return *all[index];
}

}  // namespace

extern "C" {

gex_status gex_model_load(const char* path, const gex_load_options* options, gex_model** model) {
  return guarded([&] {
    required(model, "model");
    *model = new gex_model(deploy::load_model(&required(path, "path"), to_options(options)));
  });
}

gex_status gex_model_load_memory(const void* data, size_t size, const gex_load_options* options,
                                 gex_model** model) {
  return guarded([&] {
    required(model, "model");
    const std::string_view bytes(&required(static_cast<const char*>(data), "data"), size);
    *model = new gex_model(deploy::load_model(nullptr, bytes, to_options(options)));
  });
}

void gex_model_destroy(gex_model* model) { destroy(model, "gex_model_destroy", "model"); }

gex_status gex_model_input_count(const gex_model* model, size_t* count) {
  return guarded([&] { required(count, "count") = required(model, "model").inputs.size(); });
}

gex_status gex_model_output_count(const gex_model* model, size_t* count) {
  return guarded([&] { required(count, "count") = required(model, "model").outputs.size(); });
}

gex_status gex_model_input(const gex_model* model, size_t index, gex_tensor_info* info) {
  return guarded([&] { described(required(model, "model").inputs, index, "input").give(info); });
}

gex_status gex_model_output(const gex_model* model, size_t index, gex_tensor_info* info) {
  return guarded([&] { described(required(model, "model").outputs, index, "output").give(info); });
}

gex_status gex_model_name(const gex_model* model, char** name) {
  return guarded([&] { give_text(required(model, "model").model->metadata.name, name); });
}

gex_status gex_model_code(const gex_model* model, char** text) {
  return guarded([&] { give_text(required(model, "model").model->code, text); });
}

gex_status gex_session_create(const gex_model* model, const gex_session_options* options,
                              gex_program** session) {
  return guarded([&] {
    required(session, "session");
    const deploy::Model& from = *required(model, "model").model;
    gex_session_options given = GEX_SESSION_OPTIONS_INIT;
    if (options != nullptr)
      given =
          read_versioned(options, given, offsetof(gex_session_options, capture_limit), "options");
    if (given.threads < 0 || given.capture_limit < 0 || given.async_limit < 1)
      fail(ErrorCode::invalid_argument, "threads is ", given.threads, ", capture_limit ",
           given.capture_limit, " and async_limit ", given.async_limit,
           "; they can't be negative, and one asynchronous run must be able to wait");
    gex_compile_options resources = GEX_COMPILE_OPTIONS_INIT;
    resources.allocator = given.allocator;
    resources.thread_pool = given.thread_pool;
    auto made = std::make_unique<gex_program>();
    made->memory = std::make_shared<const Memory>(given.allocator);
    made->async_limit = static_cast<std::size_t>(given.async_limit);
    made->threads = given.threads;
    made->compiled.program = from.executable->program;
    made->compiled.executable = from.executable;
    made->compiled.specialiser = from.specialiser;
    made->compiled.frozen = from.frozen;
    made->compiled.report.generator = from.code;
    made->compiled.fast_math = from.metadata.fast_math;
    runtime::SessionOptions settings;
    settings.capture_limit = given.capture_limit;
    settings.gears = from.gears;
    settings.static_code = given.static_code != 0;
    settings.frozen = from.frozen;
    settings.device = device_of(resources, from.program().target, made->memory);
    made->session = std::make_unique<runtime::Session>(from.executable, settings, from.specialiser);
    *session = made.release();
  });
}

gex_status gex_set_log_callback(gex_log_callback callback, void* user) {
  return guarded([&] {
    if (callback == nullptr) return set_log_sink({});
    set_log_sink([callback, user](LogLevel level, const std::string& message) {
      callback(user, static_cast<std::int32_t>(level), message.c_str());
    });
  });
}

}  // extern "C"
