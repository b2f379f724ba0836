#pragma once
// A built graph and its compiled form.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gex/es/tensor.hpp"

namespace gex::es {

enum class Level {
  graph = GEX_LEVEL_GRAPH,
  kernels = GEX_LEVEL_KERNELS,
  program = GEX_LEVEL_PROGRAM,
  passes = GEX_LEVEL_PASSES  // matches and changes of each pass, as JSON
};

// The options of gex/options.def, which describes them, and options that only C++ has.
struct CompileOptions {
#define GEX_OPTION(part, name, type, value, help, about) type name = value;
#include "gex/options.def"

  std::vector<std::pair<std::string, std::string>> named;  // more of them, as texts by name
  const gex_allocator* allocator = nullptr;                // for temporaries and results; copied
  const gex_thread_pool* thread_pool = nullptr;            // copied
  int async_limit = 1024;                                  // runs of RunAsync that may wait at once
};

// Stops the runs that it is passed to, from any thread. Copies share one request.
class Cancel {
 public:
  Cancel() {
    gex_cancel* cancel = nullptr;
    detail::Check(gex_cancel_create(&cancel));
    cancel_ = std::shared_ptr<gex_cancel>(cancel, gex_cancel_destroy);
  }
  void Request() const { detail::Check(gex_cancel_request(cancel_.get())); }
  const std::shared_ptr<gex_cancel>& handle() const { return cancel_; }

 private:
  std::shared_ptr<gex_cancel> cancel_;
};

// A run that is stopped throws an Error of GEX_CANCELLED or GEX_DEADLINE.
struct RunOptions {
  std::optional<Cancel> cancel;
  std::chrono::nanoseconds timeout{0};  // 0: no limit
  // Inputs and given results are addresses of the program's device: see GEX_INPUTS_ON_DEVICE.
  bool inputs_on_device = false, outputs_on_device = false;
  // A CUstream or cudaStream_t (nullptr: the default stream): the run is enqueued there and returns
  // without waiting; implies the two above. See GEX_ON_STREAM.
  std::optional<void*> stream;

  gex_run_options c() const {
    gex_run_options options = GEX_RUN_OPTIONS_INIT;
    options.cancel = cancel ? cancel->handle().get() : nullptr;
    options.timeout_nanoseconds = timeout.count();
    options.on_device = (inputs_on_device ? GEX_INPUTS_ON_DEVICE : 0U) |
                        (outputs_on_device ? GEX_OUTPUTS_ON_DEVICE : 0U);
    if (!stream) return options;
    options.on_device |= GEX_INPUTS_ON_DEVICE | GEX_OUTPUTS_ON_DEVICE | GEX_ON_STREAM;
    options.stream = *stream;
    return options;
  }
};

namespace detail {

inline std::string TextOfOption(bool value) { return value ? "true" : "false"; }
inline std::string TextOfOption(int value) { return std::to_string(value); }
inline std::string TextOfOption(std::int64_t value) { return std::to_string(value); }
inline std::string TextOfOption(const std::string& value) { return value; }
inline std::string TextOfOption(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

// Options in the form of the C interface; valid as long as `options` and this. Options with their
// default value are omitted, so that older libraries accept them.
class OptionsForC {
 public:
  explicit OptionsForC(const CompileOptions& options) {
    const CompileOptions defaults;
#define GEX_OPTION(part, name, type, value, help, about) \
  if (options.name != defaults.name) texts_.emplace_back(#name, TextOfOption(options.name));
#include "gex/options.def"
    texts_.insert(texts_.end(), options.named.begin(), options.named.end());
    for (const auto& [name, text] : texts_) named_.push_back({name.c_str(), text.c_str()});
    c_.options = named_.data();
    c_.option_count = named_.size();
    c_.allocator = options.allocator;
    c_.thread_pool = options.thread_pool;
    c_.async_limit = options.async_limit;
  }
  OptionsForC(const OptionsForC&) = delete;
  OptionsForC& operator=(const OptionsForC&) = delete;
  const gex_compile_options* get() const { return &c_; }

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<gex_option> named_;
  gex_compile_options c_ = GEX_COMPILE_OPTIONS_INIT;
};

}  // namespace detail

// A compiled graph for all sizes that its symbols allow. Run() may be called by any number of
// threads at the same time.
class Program {
 public:
  explicit Program(gex_program* program) : program_(program, gex_program_destroy) {}

  // Loads a file written by Save(), in this or another process. Only options about running are
  // used.
  static Program Load(const std::string& path, const CompileOptions& options = {}) {
    gex_program* program = nullptr;
    detail::Check(gex_program_load(path.c_str(), detail::OptionsForC(options).get(), &program));
    return Program(program);
  }
  void Save(const std::string& path) const {
    detail::Check(gex_program_save(handle(), path.c_str()));
  }

  // Inputs tied to an output are written.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs, const RunOptions& options = {}) const {
    return RunOn(ToC(inputs), options);
  }
  // Inputs with any strides.
  std::vector<Tensor> RunOn(const std::vector<gex_tensor>& inputs,
                            const RunOptions& options = {}) const {
    std::vector<gex_tensor> results(output_count(), GEX_TENSOR_INIT);
    RunOn(inputs, results, options);
    std::vector<Tensor> outputs;
    for (const gex_tensor& result : results) outputs.push_back(Tensor::Adopt(result));
    return outputs;
  }
  void RunOn(const std::vector<gex_tensor>& inputs, std::vector<gex_tensor>& outputs,
             const RunOptions& options = {}) const {
    const gex_run_options with = options.c();
    const bool plain =
        with.cancel == nullptr && with.timeout_nanoseconds == 0 && with.on_device == 0;
    detail::Check(gex_program_run_with(handle(), inputs.data(), inputs.size(), outputs.data(),
                                       outputs.size(), plain ? nullptr : &with));
  }
  // Writes into existing memory: dtypes and shapes must be those of the results.
  void Run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) const {
    std::vector<gex_tensor> results = ToC(outputs);
    RunOn(ToC(inputs), results);
  }

  // Waits for all work on a stream that runs were given; throws what failed there.
  void Synchronize(void* stream) const { detail::Check(gex_program_synchronize(handle(), stream)); }

  // Gets the results, or the error and none.
  using Callback = std::function<void(std::vector<Tensor> results, std::exception_ptr error)>;
  // Returns at once; a thread of the program executes these runs in order and calls the callback.
  // It must not destroy the Program; its exceptions are logged and not propagated. An Error of
  // GEX_BUSY if async_limit runs are waiting.
  void RunAsync(std::vector<Tensor> inputs, Callback callback,
                const RunOptions& options = {}) const {
    auto call = std::make_unique<AsyncCall>();
    call->inputs = std::move(inputs);
    call->arguments = ToC(call->inputs);
    call->results.assign(output_count(), GEX_TENSOR_INIT);
    call->callback = std::move(callback);
    call->options = options;
    AsyncCall& c = *call;
    const gex_run_options with = options.c();
    detail::Check(gex_program_run_async_with(handle(), c.arguments.data(), c.arguments.size(),
                                             c.results.data(), c.results.size(), &with,
                                             AsyncCall::Finish, &c));
    call.release();  // Finish deletes it
  }

  std::size_t input_count() const {
    std::size_t count = 0;
    detail::Check(gex_program_input_count(handle(), &count));
    return count;
  }
  std::size_t output_count() const {
    std::size_t count = 0;
    detail::Check(gex_program_output_count(handle(), &count));
    return count;
  }
  std::string Print(Level level) const {
    char* text = nullptr;
    detail::Check(gex_program_print(handle(), static_cast<std::int32_t>(level), &text));
    return detail::Take(text);
  }
  std::string Report() const {
    char* text = nullptr;
    detail::Check(gex_program_report(handle(), &text));
    return detail::Take(text);
  }
  gex_counters Counters() const {
    gex_counters counters = GEX_COUNTERS_INIT;
    detail::Check(gex_program_counters(handle(), &counters));
    return counters;
  }
  gex_program* handle() const { return program_.get(); }

 private:
  struct AsyncCall {
    std::vector<Tensor> inputs;
    std::vector<gex_tensor> arguments, results;
    Callback callback;
    RunOptions options;  // keeps its Cancel

    static void Finish(void* user, gex_status status, const char* message) {
      const std::unique_ptr<AsyncCall> call(static_cast<AsyncCall*>(user));
      std::vector<Tensor> outputs;
      std::exception_ptr error;
      if (status == GEX_OK)
        for (const gex_tensor& result : call->results) outputs.push_back(Tensor::Adopt(result));
      else
        error = std::make_exception_ptr(Error(status, message));
      call->callback(std::move(outputs), error);
    }
  };

  static std::vector<gex_tensor> ToC(const std::vector<Tensor>& tensors) {
    std::vector<gex_tensor> c;
    for (const Tensor& tensor : tensors) c.push_back(tensor.c());
    return c;
  }

  std::unique_ptr<gex_program, void (*)(gex_program*)> program_;
};

enum class DumpFormat { kOnnx = 0, kTxt = 1, kReadable = 2 };

class Graph {
 public:
  explicit Graph(gex_graph* graph) : graph_(graph, gex_graph_destroy) {}
  // Of another owner, which must live longer.
  static Graph Lent(gex_graph* graph) {
    return Graph(graph, [](gex_graph*) {});
  }

  // The text form, as Print() gives it.
  static std::unique_ptr<Graph> Parse(std::string_view text) {
    gex_graph* graph = nullptr;
    detail::Check(gex_graph_parse(text.data(), text.size(), &graph));
    return std::make_unique<Graph>(graph);
  }

  std::string Print() const {
    char* text = nullptr;
    detail::Check(gex_graph_print(handle(), &text));
    return detail::Take(text);
  }
  // A readable form with at most the first and last three values of each constant.
  std::string PrintAbbreviated() const {
    char* text = nullptr;
    detail::Check(gex_graph_print_abbreviated(handle(), &text));
    return detail::Take(text);
  }
  // For viewers: an ONNX model in protobuf's text format, with gex's own ops.
  std::string PrintOnnx() const {
    char* text = nullptr;
    detail::Check(gex_graph_print_onnx(handle(), &text));
    return detail::Take(text);
  }
  // Writes ge_onnx_<n>_<suffix>.pbtxt, ge_txt_<n>_<suffix>.txt or ge_readable_<n>_<suffix>.txt into
  // the current folder, n counting the dumps of this process. Returns the file name.
  std::string DumpToFile(DumpFormat format, const std::string& suffix) const {
    static std::atomic<int> dumps{0};
    const bool onnx = format == DumpFormat::kOnnx, text = format == DumpFormat::kTxt;
    const std::string name = std::string("ge_") +
                             (onnx   ? "onnx_"
                              : text ? "txt_"
                                     : "readable_") +
                             std::to_string(dumps++) + "_" + suffix + (onnx ? ".pbtxt" : ".txt");
    std::ofstream file(name, std::ios::binary);
    file << (onnx ? PrintOnnx() : text ? Print() : PrintAbbreviated());
    if (!file.flush()) throw Error(GEX_INVALID_ARGUMENT, "can't write '" + name + "'");
    return name;
  }
  // A label of the graph as the text form has it: 3, true, "a".
  std::string GetAttr(const std::string& name) const {
    char* text = nullptr;
    detail::Check(gex_graph_label(handle(), name.c_str(), &text));
    return detail::Take(text);
  }
  std::size_t input_count() const {
    std::size_t count = 0;
    detail::Check(gex_graph_input_count(handle(), &count));
    return count;
  }
  std::size_t output_count() const {
    std::size_t count = 0;
    detail::Check(gex_graph_output_count(handle(), &count));
    return count;
  }

  // Does not change the graph.
  Program Compile(const CompileOptions& options = {}) const {
    gex_program* program = nullptr;
    detail::Check(gex_compile(handle(), detail::OptionsForC(options).get(), &program));
    return Program(program);
  }
  // Compiles and runs once.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs) const { return Compile().Run(inputs); }

  gex_graph* handle() const { return graph_.get(); }
  gex_graph* Release() { return graph_.release(); }

 private:
  Graph(gex_graph* graph, void (*release)(gex_graph*)) : graph_(graph, release) {}

  std::unique_ptr<gex_graph, void (*)(gex_graph*)> graph_;
};

}  // namespace gex::es
