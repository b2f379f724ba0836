// gex run: a graph from its text form, compiled and run once, or interpreted.

#include <chrono>
#include <filesystem>
#include <iostream>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "commands.hpp"
#include "compile/execute.hpp"
#include "compile/index_checks.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "interp/interp.hpp"
#include "json.hpp"
#include "model_file.hpp"
#include "npy.hpp"
#include "onnx_run.hpp"
#include "runtime/session/run_control.hpp"
#include "stage_text.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

const Tie* tie_of(const std::vector<Tie>& ties, std::size_t output) {
  for (const Tie& tie : ties)
    if (static_cast<std::size_t>(tie.output) == output) return &tie;
  return nullptr;
}

std::vector<HostTensor> run_interpreted(const Graph& graph, std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> all = interp::interpret(graph, inputs);
  std::vector<HostTensor> outputs;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (const Tie* tie = tie_of(graph.ties(), k)) {
      inputs[static_cast<std::size_t>(tie->input)] = std::move(all[k]);
    } else {
      outputs.push_back(std::move(all[k]));
    }
  }
  return outputs;
}

std::vector<HostTensor> run_compiled(std::unique_ptr<Graph> graph, const Arguments& arguments,
                                     std::vector<HostTensor>& inputs) {
  const UserOptions options = user_options(arguments);
  const auto device = open_target(options.compile.target);
  if (options.api.check_indices) add_index_checks(*graph);
  auto activity = std::make_unique<Activity>(str("compiling ", arguments.file()));
  const Compiled compiled =
      compile(std::move(graph), options.api.cache ? cached(options.compile) : options.compile);
  activity.reset();
  runtime::Session session(compiled.executable, options.session, compiled.specialiser);
  runtime::RunControl control;
  if (const auto seconds = arguments.integer("--timeout")) {
    if (*seconds < 1) fail(ErrorCode::invalid_argument, "--timeout is at least 1, got ", *seconds);
    control.deadline = runtime::RunControl::Clock::now() + std::chrono::seconds(*seconds);
  }
  const runtime::ControlScope scope(&control);
  return execute(session, inputs);
}

std::vector<NamedTensor> run_graph(std::unique_ptr<Graph> graph, const Arguments& arguments) {
  std::vector<HostTensor> inputs = make_inputs(*graph, arguments);
  const std::vector<Tie> ties = graph->ties();
  std::vector<std::string> names;
  for (const auto& input : graph->inputs()) names.push_back(input->name());

  std::vector<HostTensor> outputs = arguments.has("--interpret")
                                        ? run_interpreted(*graph, inputs)
                                        : run_compiled(std::move(graph), arguments, inputs);
  std::vector<NamedTensor> results;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    results.push_back({str("output_", k), std::move(outputs[k])});
  for (const Tie& tie : ties) {
    const auto k = static_cast<std::size_t>(tie.input);
    results.push_back({names[k].empty() ? str("input_", k) : names[k], std::move(inputs[k])});
  }
  return results;
}

// Names of outputs may be any text in an ONNX file.
std::string file_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\\' || c == '\0') c = '_';
  return name.starts_with('.') ? "_" + name : name;
}

std::vector<NamedTensor> results_of(const Arguments& arguments) {
  if (deploy::is_model_file(arguments.file())) return run_model_file(arguments);
  if (is_onnx(arguments.file()) && !arguments.has("--interpret")) return run_onnx(arguments);
  if (is_onnx(arguments.file())) return run_graph(read_graph(arguments.file()), arguments);
  const std::string text = read_file(arguments.file());
  switch (stage_of(text)) {
    case TextStage::graph:
      return run_graph(parse_graph_file(arguments.file(), text), arguments);
    case TextStage::kernels:
      return run_kernel_text(text, arguments);
    case TextStage::program:
      return run_program_text(text, arguments);
  }
  GEX_CHECK(false, "unknown stage");
}

int run(const Arguments& arguments) {
  const auto folder =
      arguments.has("--out") ? arguments.value("--out") : arguments.value("--output-dir");
  const std::vector<NamedTensor> results = results_of(arguments);
  if (folder) make_folder(*folder);
  const bool as_json = arguments.has("--json");
  std::vector<std::string> items;
  for (const NamedTensor& result : results) {
    if (as_json)
      items.push_back(json_of(result.name, result.tensor));
    else
      std::cout << result.name << ": " << text_of(result.tensor);
    if (folder)
      write_npy((std::filesystem::path(*folder) / (file_name(result.name) + ".npy")).string(),
                result.tensor);
  }
  if (as_json) std::cout << json_object({{"results", json_list(items)}}) << "\n";
  return 0;
}

}  // namespace

Command run_command() {
  return {
      "run",
      "FILE.gex|MODEL.onnx|MODEL.gexe|TEXT [--input NAME=SOURCE]... [options]",
      "compiles a graph, runs it once and prints the results",
      "SOURCE is an .npy file, random (-1 to 1, whole numbers 0 to 9), ones, zeros or iota\n"
      "(0, 1, 2, ...); inputs that are not named are random. NAME is the input's name or\n"
      "number. Inputs that the graph writes into are printed after the outputs.\n"
      "TEXT is what gex dump --level=kernels or --level=program printed. Of kernels, one is run:\n"
      "its parameters in and inout are the inputs, out the results.\n"
      "With --json: {\"results\": [{\"name\", \"dtype\", \"shape\", \"values\"}]}; values are "
      "nested\n"
      "lists, or null above 65536 elements (then use --out).",
      with_compile_options(
          with_flags_of({"check_indices", "cache"},
                        with_input_options(with_load_options(
                            {{"--out", "FOLDER", "also write each result there, as .npy"},
                             {"--output-dir", "FOLDER", "the same as --out"},
                             {"--timeout", "SECONDS", "stop the run after so long"},
                             {"--kernel", "NAME", "text with several kernels: which one"},
                             {"--json", "", "print the results as JSON"},
                             {"--interpret", "", "run node by node in the reference executor"}})))),
      1,
      run};
}

}  // namespace gex::tool
