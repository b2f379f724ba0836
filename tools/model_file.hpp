#pragma once
// Model files (.gexe) for the commands that run or inspect them.

#include <memory>
#include <vector>

#include "arguments.hpp"
#include "deploy/model.hpp"
#include "ir/graph.hpp"
#include "onnx_run.hpp"
#include "runtime/session/session.hpp"

namespace gex::tool {

// `own`, then --trust, --check-weights, --cpu-level and --model.
std::vector<Option> with_load_options(std::vector<Option> own);
// The contents of the file that --key names; empty without.
std::string key_given(const Arguments& arguments);
deploy::LoadOptions load_options(const Arguments& arguments);

// A graph that has the model's inputs and nothing else.
std::unique_ptr<Graph> signature_graph(const deploy::Model& model);

std::unique_ptr<runtime::Session> session_of(const deploy::Model& model,
                                             runtime::SessionOptions options = {});

std::vector<NamedTensor> run_model_file(const Arguments& arguments);

}  // namespace gex::tool
