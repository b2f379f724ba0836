#pragma once
// The C++ interface to run model files: header-only, uses only the C interface. Link with -lgex_run
// (no compiler) or -lgex.
//
//   gex::Session session = gex::Session::load("model.gexe", {.trust = true});
//   std::vector<float> x(3 * 224 * 224);
//   auto results = session.run({gex::Tensor::view<float>({1, 3, 224, 224}, x.data())});
//   const float* scores = results[0].data<float>();
// Errors throw gex::RunError with the status of gex.h and a message.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/session.h"

namespace gex {
// An inline namespace keeps the symbols apart: libgex has internal classes of the same names.
inline namespace session_v1 {

class RunError : public std::runtime_error {
 public:
  RunError(gex_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  gex_status status() const { return status_; }

 private:
  gex_status status_;
};

inline void check_status(gex_status status) {
  if (status != GEX_OK) throw RunError(status, gex_last_error());
}

template <class T>
constexpr gex_dtype dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return GEX_F64;
  else if constexpr (std::is_same_v<T, float>)
    return GEX_F32;
  else if constexpr (std::is_same_v<T, bool>)
    return GEX_BOOL;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return GEX_I64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
    return GEX_I32;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
    return GEX_I16;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return GEX_U8;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 1, "no dtype of gex has this C++ type");
    return GEX_I8;
  }
}

inline std::size_t bytes_of(gex_dtype dtype) {
  switch (dtype) {
    case GEX_F64:
    case GEX_I64:
      return 8;
    case GEX_F32:
    case GEX_I32:
      return 4;
    case GEX_F16:
    case GEX_BF16:
    case GEX_I16:
      return 2;
    default:
      return 1;
  }
}

// Elements in memory: the caller's (view), or memory of its own (of, zeros, results).
class Tensor {
 public:
  Tensor() = default;  // as an output: the library allocates the memory
  static Tensor view(gex_dtype dtype, std::vector<std::int64_t> shape, void* data,
                     std::vector<std::int64_t> strides = {}) {
    Tensor tensor;
    tensor.dtype_ = dtype;
    tensor.shape_ = std::move(shape);
    tensor.strides_ = std::move(strides);
    tensor.data_ = data;
    return tensor;
  }
  template <class T>
  static Tensor view(std::vector<std::int64_t> shape, T* data) {
    return view(dtype_of<std::remove_const_t<T>>(), std::move(shape),
                const_cast<std::remove_const_t<T>*>(data));
  }
  static Tensor zeros(gex_dtype dtype, std::vector<std::int64_t> shape) {
    Tensor tensor = view(dtype, std::move(shape), nullptr);
    auto memory = std::make_shared<std::vector<std::uint64_t>>(tensor.bytes() / 8 + 1);
    tensor.data_ = memory->data();
    tensor.owner_ = std::move(memory);
    return tensor;
  }
  template <class T>
  static Tensor of(std::vector<std::int64_t> shape, const std::vector<T>& elements) {
    Tensor tensor = zeros(dtype_of<T>(), std::move(shape));
    if (static_cast<std::size_t>(tensor.size()) != elements.size())
      throw RunError(GEX_INVALID_ARGUMENT, "the number of elements must match the shape");
    for (std::size_t k = 0; k < elements.size(); ++k) tensor.data<T>()[k] = elements[k];
    return tensor;
  }

  gex_dtype dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const {
    std::int64_t count = 1;
    for (std::int64_t size : shape_) count *= size;
    return count;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * bytes_of(dtype_); }
  void* raw() const { return data_; }
  template <class T>
  T* data() const {
    if (dtype_of<std::remove_const_t<T>>() != dtype_)
      throw RunError(GEX_TYPE_MISMATCH, "the tensor has elements of another type");
    return static_cast<T*>(data_);
  }
  explicit operator bool() const { return data_ != nullptr; }

  // For the functions of gex.h; valid as long as this tensor is unchanged.
  gex_tensor c_tensor() const {
    gex_tensor tensor = GEX_TENSOR_INIT;
    tensor.dtype = dtype_;
    tensor.data = data_;
    tensor.rank = shape_.size();
    tensor.shape = shape_.data();
    tensor.strides = strides_.empty() ? nullptr : strides_.data();
    return tensor;
  }
  // Takes ownership of library memory.
  static Tensor take(gex_tensor& given) {
    Tensor tensor = view(given.dtype, {given.shape, given.shape + given.rank}, given.data);
    tensor.owner_ = std::shared_ptr<void>(new gex_tensor(given), [](void* memory) {
      auto* library = static_cast<gex_tensor*>(memory);
      gex_tensor_release(library);
      delete library;
    });
    return tensor;
  }

 private:
  gex_dtype dtype_ = GEX_F32;
  std::vector<std::int64_t> shape_, strides_;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

struct TensorInfo {
  std::string name, type;
  gex_dtype dtype = GEX_F32;
  std::vector<std::int64_t> shape;  // -1 for sizes that may vary
  std::vector<std::string> sizes;   // as text: "batch", "3"
};

struct LoadOptions {
  bool trust = false;  // run the machine code of the file: see gex/session.h
  bool check_weights = false;
  bool autotune = false;
  std::string level = {}, model = {};
  std::string key = {};  // the file must be signed with it, which is then trust
};

// A loaded file; copies share it.
class Model {
 public:
  static Model load(const std::string& path, const LoadOptions& options = {}) {
    gex_model* model = nullptr;
    const gex_load_options given = c_options(options);
    check_status(gex_model_load(path.c_str(), &given, &model));
    return Model(model);
  }
  // The memory must stay unchanged as long as there are copies or sessions of the model.
  static Model from_memory(const void* data, std::size_t size, const LoadOptions& options = {}) {
    gex_model* model = nullptr;
    const gex_load_options given = c_options(options);
    check_status(gex_model_load_memory(data, size, &given, &model));
    return Model(model);
  }

  const std::vector<TensorInfo>& inputs() const { return infos_->inputs; }
  const std::vector<TensorInfo>& outputs() const { return infos_->outputs; }
  std::string name() const { return text(gex_model_name); }
  std::string code() const { return text(gex_model_code); }  // what runs
  gex_model* get() const { return model_.get(); }

 private:
  struct Infos {
    std::vector<TensorInfo> inputs, outputs;
  };
  explicit Model(gex_model* model) : model_(model, gex_model_destroy) {
    auto infos = std::make_shared<Infos>();
    infos->inputs = read(gex_model_input_count, gex_model_input);
    infos->outputs = read(gex_model_output_count, gex_model_output);
    infos_ = std::move(infos);
  }
  static gex_load_options c_options(const LoadOptions& options) {
    gex_load_options given = GEX_LOAD_OPTIONS_INIT;
    given.trust = options.trust;
    given.check_weights = options.check_weights;
    given.autotune = options.autotune;
    given.level = options.level.empty() ? nullptr : options.level.c_str();
    given.model = options.model.empty() ? nullptr : options.model.c_str();
    given.key = options.key.empty() ? nullptr : options.key.data();
    given.key_size = options.key.size();
    return given;
  }
  template <class Count, class Get>
  std::vector<TensorInfo> read(Count count_of, Get get) const {
    std::size_t count = 0;
    check_status(count_of(model_.get(), &count));
    std::vector<TensorInfo> infos;
    for (std::size_t k = 0; k < count; ++k) {
      gex_tensor_info info = GEX_TENSOR_INFO_INIT;
      check_status(get(model_.get(), k, &info));
      infos.push_back({info.name,
                       info.type,
                       info.dtype,
                       {info.shape, info.shape + info.rank},
                       {info.sizes, info.sizes + info.rank}});
    }
    return infos;
  }
  template <class Get>
  std::string text(Get get) const {
    char* words = nullptr;
    check_status(get(model_.get(), &words));
    const std::string result = words;
    gex_text_free(words);
    return result;
  }

  std::shared_ptr<gex_model> model_;
  std::shared_ptr<const Infos> infos_;
};

// Stops runs from another thread; copies share one request.
class Cancel {
 public:
  Cancel() {
    gex_cancel* cancel = nullptr;
    check_status(gex_cancel_create(&cancel));
    cancel_.reset(cancel, gex_cancel_destroy);
  }
  void request() { check_status(gex_cancel_request(cancel_.get())); }
  gex_cancel* get() const { return cancel_.get(); }

 private:
  std::shared_ptr<gex_cancel> cancel_;
};

struct RunOptions {
  std::chrono::nanoseconds timeout{0};  // 0: no limit
  const Cancel* cancel = nullptr;
  // The memory of inputs or given outputs is that of the model's device: GEX_INPUTS_ON_DEVICE.
  bool inputs_on_device = false, outputs_on_device = false;
  // A CUstream or cudaStream_t (nullptr: the default stream): the run is enqueued there and returns
  // without waiting; implies the two above. See GEX_ON_STREAM.
  std::optional<void*> stream;
};

struct SessionOptions {
  int threads = 0;  // that one run may use; 0: as many as there are
  int capture_limit = 64;
  int async_limit = 1024;  // asynchronous runs that may wait at once
  bool static_code = true;
};

// Inputs and outputs by name, in the caller's memory, reused for every run. Outputs that are not
// bound get library memory.
class Binding {
 public:
  explicit Binding(const Model& model)
      : model_(model), inputs_(model.inputs().size()), outputs_(model.outputs().size()) {}
  void input(const std::string& name, Tensor tensor) {
    inputs_[find(model_.inputs(), name, "input")] = std::move(tensor);
  }
  void output(const std::string& name, Tensor tensor) {
    outputs_[find(model_.outputs(), name, "output")] = std::move(tensor);
  }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  std::vector<Tensor>& outputs() { return outputs_; }
  const Tensor& result(const std::string& name) const {
    return outputs_[find(model_.outputs(), name, "output")];
  }

 private:
  static std::size_t find(const std::vector<TensorInfo>& infos, const std::string& name,
                          const char* what) {
    std::string known;
    for (std::size_t k = 0; k < infos.size(); ++k) {
      if (infos[k].name == name) return k;
      known += (known.empty() ? "" : ", ") + infos[k].name;
    }
    throw RunError(GEX_NOT_FOUND,
                   std::string("the model has no ") + what + " '" + name + "'; it has: " + known);
  }
  Model model_;
  std::vector<Tensor> inputs_, outputs_;
};

// Runs a model. Any number of threads may run one session at the same time.
class Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {}) : model_(model) {
    gex_session_options given = GEX_SESSION_OPTIONS_INIT;
    given.threads = options.threads;
    given.capture_limit = options.capture_limit;
    given.async_limit = options.async_limit;
    given.static_code = options.static_code;
    gex_program* session = nullptr;
    check_status(gex_session_create(model.get(), &given, &session));
    session_.reset(session, gex_program_destroy);
  }
  static Session load(const std::string& path, const LoadOptions& options = {},
                      const SessionOptions& session = {}) {
    return Session(Model::load(path, options), session);
  }

  const Model& model() const { return model_; }
  const std::vector<TensorInfo>& inputs() const { return model_.inputs(); }
  const std::vector<TensorInfo>& outputs() const { return model_.outputs(); }
  gex_program* get() const { return session_.get(); }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions& options = {}) {
    std::vector<Tensor> outputs(model_.outputs().size());
    run_into(inputs, outputs, options);
    return outputs;
  }
  // Results are in binding.outputs().
  void run(Binding& binding, const RunOptions& options = {}) {
    run_into(binding.inputs(), binding.outputs(), options);
  }

  // Waits for all work on a stream that runs were given; throws what failed there.
  void synchronize(void* stream) { check_status(gex_program_synchronize(session_.get(), stream)); }

  // Returns at once; a thread of the session executes these runs in order and calls `callback` with
  // the outputs and null, or with the error. The callback must not throw and must not destroy the
  // session's last copy. RunError with GEX_BUSY if too many runs are waiting. The memory of views
  // must stay unchanged until then.
  using Callback = std::function<void(std::vector<Tensor> outputs, const RunError* error)>;
  void run_async(std::vector<Tensor> inputs, Callback callback, const RunOptions& options = {}) {
    auto call = std::make_unique<AsyncCall>();
    call->inputs = std::move(inputs);
    call->callback = std::move(callback);
    if (options.cancel != nullptr) call->cancel = *options.cancel;
    for (const Tensor& input : call->inputs) call->c_inputs.push_back(input.c_tensor());
    call->c_outputs.assign(model_.outputs().size(), GEX_TENSOR_INIT);
    const gex_run_options given = c_options(options);
    check_status(gex_program_run_async_with(session_.get(), call->c_inputs.data(),
                                            call->c_inputs.size(), call->c_outputs.data(),
                                            call->c_outputs.size(), &given, finish, call.get()));
    call.release();  // finish() has it now
  }
  std::future<std::vector<Tensor>> run_async(std::vector<Tensor> inputs,
                                             const RunOptions& options = {}) {
    auto promise = std::make_shared<std::promise<std::vector<Tensor>>>();
    run_async(
        std::move(inputs),
        [promise](std::vector<Tensor> outputs, const RunError* error) {
          if (error != nullptr)
            promise->set_exception(std::make_exception_ptr(*error));
          else
            promise->set_value(std::move(outputs));
        },
        options);
    return promise->get_future();
  }

 private:
  struct AsyncCall {
    std::vector<Tensor> inputs;
    std::vector<gex_tensor> c_inputs, c_outputs;
    Callback callback;
    Cancel cancel;
  };

  static void finish(void* user, gex_status status, const char* message) {
    const std::unique_ptr<AsyncCall> call(static_cast<AsyncCall*>(user));
    if (status != GEX_OK) {
      const RunError error(status, message);
      return call->callback({}, &error);
    }
    std::vector<Tensor> outputs;
    for (gex_tensor& output : call->c_outputs) outputs.push_back(Tensor::take(output));
    call->callback(std::move(outputs), nullptr);
  }

  static gex_run_options c_options(const RunOptions& options) {
    gex_run_options given = GEX_RUN_OPTIONS_INIT;
    given.timeout_nanoseconds = options.timeout.count();
    given.cancel = options.cancel == nullptr ? nullptr : options.cancel->get();
    given.on_device = (options.inputs_on_device ? GEX_INPUTS_ON_DEVICE : 0U) |
                      (options.outputs_on_device ? GEX_OUTPUTS_ON_DEVICE : 0U);
    if (!options.stream) return given;
    given.on_device |= GEX_INPUTS_ON_DEVICE | GEX_OUTPUTS_ON_DEVICE | GEX_ON_STREAM;
    given.stream = *options.stream;
    return given;
  }

  void run_into(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                const RunOptions& options) {
    std::vector<gex_tensor> in, out;
    for (const Tensor& input : inputs) in.push_back(input.c_tensor());
    for (const Tensor& output : outputs)
      out.push_back(output ? output.c_tensor() : gex_tensor GEX_TENSOR_INIT);
    const gex_run_options given = c_options(options);
    check_status(
        gex_program_run_with(session_.get(), in.data(), in.size(), out.data(), out.size(), &given));
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (!outputs[k]) outputs[k] = Tensor::take(out[k]);
  }

  Model model_;
  std::shared_ptr<gex_program> session_;
};

// Messages of the library; levels are 0 (error) to 3 (debug). Empty: standard error again.
inline void set_log_callback(std::function<void(int level, const std::string& message)> callback) {
  // Never destroyed: the library may log after static destructors.
  static auto* const current = new std::function<void(int, const std::string&)>;
  check_status(gex_set_log_callback(nullptr, nullptr));
  *current = std::move(callback);
  if (!*current) return;
  check_status(gex_set_log_callback(
      [](void* user, std::int32_t level, const char* message) {
        (*static_cast<std::function<void(int, const std::string&)>*>(user))(level, message);
      },
      current));
}

}  // namespace session_v1
}  // namespace gex
