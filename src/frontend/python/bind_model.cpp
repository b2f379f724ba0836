// Model files of graphs imported from Python: used by gex.compile(...).save().

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.hpp"
#include "deploy/build/save_model.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/runner.hpp"
#include "ops/call.hpp"
#include "runtime/session/host_functions.hpp"
#include "runtime/session/user_kernels.hpp"

namespace gex::python {
namespace {

// Memory that must not move during the call.
using Weights = std::vector<std::pair<int, std::uintptr_t>>;  // graph input, address

gex::Signature signature_of(const Graph& graph, const PythonSignature& imported,
                            const Weights& weights, const std::vector<std::string>& input_names) {
  if (!imported.integers.empty())
    fail(ErrorCode::unsupported,
         "the program takes sizes as integers; model files take tensors only");
  gex::Signature signature;
  std::vector<bool> is_weight(graph.inputs().size(), false);
  for (const auto& [input, address] : weights) is_weight.at(static_cast<std::size_t>(input)) = true;
  for (std::size_t k = 0; k < is_weight.size(); ++k) {
    if (is_weight[k]) continue;
    const auto argument = static_cast<std::size_t>(imported.tensors.at(k));
    signature.inputs.push_back({static_cast<int>(k), Dim(0), input_names.at(argument)});
  }
  std::string others;
  for (std::size_t k = 0; k < imported.outputs.size(); ++k) {
    const OutputItem& item = imported.outputs[k];
    if (item.kind != OutputItem::Kind::graph) {
      others += str(others.empty() ? "" : ", ", k);
      continue;
    }
    gex::Signature::Output output;
    output.graph_output = item.of;
    output.own_memory = true;
    signature.outputs.push_back(output);
  }
  if (!others.empty())
    fail(ErrorCode::unsupported, "results ", others,
         " are not tensors that the program computes (an input or a view of it, a number, None); "
         "model files need computed results: return a copy");
  return signature;
}

// Callee, then the name of a kernel and its parameters.
using KernelNames = std::map<std::int64_t, std::pair<std::string, std::string>>;

// Calls of functions of this process become calls of kernels, which take and give dense tensors.
void name_kernels(Graph& graph, const KernelNames& kernels) {
  for (Node* node = graph.first(); node != nullptr; node = node->next()) {
    for (const auto& subgraph : node->subgraphs()) name_kernels(*subgraph, kernels);
    if (!node->is("call")) continue;
    auto call = node->as<ops::Call>();
    const auto named = kernels.find(call.callee);
    if (named == kernels.end()) continue;
    const auto& [kernel, parameters] = named->second;
    if (!call.written.empty())
      fail(ErrorCode::unsupported, call.name, " writes its operands; kernel '", kernel,
           "' can't: kernels of model files compute new tensors");
    for (const Type& type : ops::result_types(call))
      if (type.strides && *type.strides != dense_strides(type.shape))
        fail(ErrorCode::unsupported, call.name, " gives a tensor with strides; kernel '", kernel,
             "' gives dense ones: let the fake implementation return contiguous tensors");
    call.name = runtime::call_of_kernel(kernel, parameters);
    call.callee = runtime::kHostCallee;
    call.operand_strided.clear();
    call.operand_strides.clear();
    InsertBefore here(graph, node);
    graph.set_location(node->location());
    const std::vector<Value*> inputs(node->inputs().begin(), node->inputs().end());
    const Node* replaced = graph.add(node->op(), inputs, call);
    graph.set_location({});
    for (std::size_t k = 0; k < node->num_outputs(); ++k)
      graph.replace_all_uses(node->output(k), replaced->output(k));
  }
}

void save_model(const Graph& graph, const PythonSignature& imported, const Weights& weights,
                const std::vector<std::string>& input_names,
                const std::vector<std::string>& output_names, const std::string& path,
                const std::vector<std::string>& levels, const std::string& name,
                const std::string& source, const KernelNames& kernels) {
  const gex::Signature signature = signature_of(graph, imported, weights, input_names);
  CompileOptions options;
  for (const auto& [input, address] : weights)
    options.frozen.push_back(
        {input, std::shared_ptr<const void>(std::shared_ptr<const void>(),
                                            reinterpret_cast<const void*>(address))});
  std::unique_ptr<Graph> named = graph.clone();
  name_kernels(*named, kernels);
  const Compiled compiled = compile(std::move(named), signature, options);
  deploy::NewModel model;
  model.compiled = &compiled;
  model.metadata.name = name;
  model.metadata.source = source;
  for (const gex::Signature::Input& input : signature.inputs) {
    model.metadata.inputs.emplace_back();
    model.metadata.inputs.back().name = input.name;
  }
  for (const std::string& output : output_names) {
    model.metadata.outputs.emplace_back();
    model.metadata.outputs.back().name = output;
  }
  deploy::save_models({model}, {levels}, path);
}

}  // namespace

void bind_model(nb::module_& m) {
  m.def("save_model", &save_model, nb::arg("graph"), nb::arg("signature"), nb::arg("weights"),
        nb::arg("input_names"), nb::arg("output_names"), nb::arg("path"), nb::arg("levels"),
        nb::arg("name"), nb::arg("source"), nb::arg("kernels"),
        nb::call_guard<nb::gil_scoped_release>(),
        "Writes an imported graph with its weights as a model file. `kernels`: callees that are "
        "kernels there, with their parameters.");
}

}  // namespace gex::python
