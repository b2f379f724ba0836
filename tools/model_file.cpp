#include "model_file.hpp"

#include <chrono>

#include "base/error.hpp"
#include "compile/execute.hpp"
#include "compiling.hpp"
#include "deploy/signature.hpp"
#include "files.hpp"
#include "gex/kernel.h"
#include "runtime/session/run_control.hpp"
#include "tensors.hpp"

namespace gex::tool {

std::vector<Option> with_load_options(std::vector<Option> own) {
  own.push_back({"--trust", "",
                 "model files: run their machine code; program and kernel texts: run what can't be "
                 "proven to stay inside its memory; only if you know their origin"});
  own.push_back(
      {"--key", "FILE", "model files: only if signed with this key, which implies trust"});
  own.push_back({"--check-weights", "", "model files: read all weights and compare checksums"});
  own.push_back(
      {"--cpu-level", "v2|v3|v4", "model files: level of the machine code (the highest)"});
  own.push_back({"--kernels", "LIBRARY.so", "model files: shared libraries with user kernels"});
  own.push_back({"--model", "NAME", "model files with several models: which one (the first)"});
  return own;
}

std::string key_given(const Arguments& arguments) {
  const auto file = arguments.value("--key");
  if (!file) return {};
  std::string key = read_file(*file);
  deploy::check_key(key);
  return key;
}

deploy::LoadOptions load_options(const Arguments& arguments) {
  for (const std::string& library : arguments.values("--kernels"))
    if (gex_load_kernels(library.c_str()) != GEX_OK)
      fail(ErrorCode::io_error, "--kernels: ", gex_last_error());
  deploy::LoadOptions options;
  options.trust = arguments.has("--trust");
  options.key = key_given(arguments);
  options.check_weights = arguments.has("--check-weights");
  options.autotune = arguments.has("--autotune");
  options.level = arguments.value("--cpu-level").value_or("");
  options.model = arguments.value("--model").value_or("");
  if (!options.level.empty() && !options.trust && options.key.empty())
    fail(ErrorCode::invalid_argument, "--cpu-level is about machine code, which needs --trust");
  return options;
}

std::unique_ptr<Graph> signature_graph(const deploy::Model& model) {
  auto graph = std::make_unique<Graph>("main");
  for (const deploy::TensorInfo& input : model.inputs)
    graph->add_input(Type::tensor(input.dtype, input.shape), input.name);
  return graph;
}

std::unique_ptr<runtime::Session> session_of(const deploy::Model& model,
                                             runtime::SessionOptions options) {
  options.frozen = model.frozen;
  options.gears = model.gears;
  return std::make_unique<runtime::Session>(model.executable, options, model.specialiser);
}

std::vector<NamedTensor> run_model_file(const Arguments& arguments) {
  const std::shared_ptr<const deploy::Model> model =
      deploy::load_model(arguments.file(), load_options(arguments));
  std::vector<HostTensor> inputs = make_inputs(*signature_graph(*model), arguments);
  const auto session = session_of(*model, session_options(arguments));
  runtime::RunControl control;
  if (const auto seconds = arguments.integer("--timeout"))
    control.deadline = runtime::RunControl::Clock::now() + std::chrono::seconds(*seconds);
  const runtime::ControlScope scope(&control);
  std::vector<HostTensor> outputs = execute(*session, inputs);
  std::vector<NamedTensor> results;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    results.push_back({model->outputs[k].name, std::move(outputs[k])});
  return results;
}

}  // namespace gex::tool
