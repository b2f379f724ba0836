#pragma once
// A built graph and its compiled form.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gex/es/tensor.hpp"

namespace gex::es {

enum class Level {
  graph = GEX_LEVEL_GRAPH,
  kernels = GEX_LEVEL_KERNELS,
  program = GEX_LEVEL_PROGRAM
};

struct CompileOptions {
  int level = 2;  // 0 .. 3: which passes run
  bool fuse = true;
  bool fast_math = false;
  bool generate_code = true;  // false: kernels run in the reference executor
  std::int64_t capture_limit = 64;
  std::vector<std::string> disabled_passes;
  std::string dump_dir;
};

// Ready to run, for any sizes that the graph's symbols allow. Run() may be called by any number of
// threads at once.
class Program {
 public:
  explicit Program(gex_program* program) : program_(program, gex_program_destroy) {}

  // Inputs tied to an output are written.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs) const {
    std::vector<gex_tensor> results(output_count(), GEX_TENSOR_INIT);
    RunInto(inputs, results);
    std::vector<Tensor> outputs;
    for (const gex_tensor& result : results) outputs.push_back(Tensor::Adopt(result));
    return outputs;
  }
  // Into memory that is there: dtypes and shapes must be those of the results.
  void Run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) const {
    std::vector<gex_tensor> results;
    for (const Tensor& output : outputs) results.push_back(output.c());
    RunInto(inputs, results);
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
  void RunInto(const std::vector<Tensor>& inputs, std::vector<gex_tensor>& results) const {
    std::vector<gex_tensor> arguments;
    for (const Tensor& input : inputs) arguments.push_back(input.c());
    detail::Check(gex_program_run(handle(), arguments.data(), arguments.size(), results.data(),
                                  results.size()));
  }

  std::unique_ptr<gex_program, void (*)(gex_program*)> program_;
};

class Graph {
 public:
  explicit Graph(gex_graph* graph) : graph_(graph, gex_graph_destroy) {}

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

  // The graph stays as it is.
  Program Compile(const CompileOptions& options = {}) const {
    std::vector<const char*> disabled;
    for (const std::string& pass : options.disabled_passes) disabled.push_back(pass.c_str());
    gex_compile_options c = GEX_COMPILE_OPTIONS_INIT;
    c.level = options.level;
    c.fuse = options.fuse;
    c.fast_math = options.fast_math;
    c.generate_code = options.generate_code;
    c.capture_limit = options.capture_limit;
    c.disabled_passes = disabled.data();
    c.disabled_pass_count = disabled.size();
    c.dump_dir = options.dump_dir.empty() ? nullptr : options.dump_dir.c_str();
    gex_program* program = nullptr;
    detail::Check(gex_compile(handle(), &c, &program));
    return Program(program);
  }
  // Compile and run, for when it is run once.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs) const { return Compile().Run(inputs); }

  gex_graph* handle() const { return graph_.get(); }

 private:
  std::unique_ptr<gex_graph, void (*)(gex_graph*)> graph_;
};

}  // namespace gex::es
