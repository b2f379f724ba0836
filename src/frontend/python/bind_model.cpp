// Model files of graphs imported from Python: used by gex.compile(...).save().

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.hpp"
#include "deploy/build/save_model.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/runner.hpp"

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

void save_model(const Graph& graph, const PythonSignature& imported, const Weights& weights,
                const std::vector<std::string>& input_names,
                const std::vector<std::string>& output_names, const std::string& path,
                const std::vector<std::string>& levels, const std::string& name,
                const std::string& source) {
  const gex::Signature signature = signature_of(graph, imported, weights, input_names);
  CompileOptions options;
  for (const auto& [input, address] : weights)
    options.frozen.push_back(
        {input, std::shared_ptr<const void>(std::shared_ptr<const void>(),
                                            reinterpret_cast<const void*>(address))});
  const Compiled compiled = compile(graph.clone(), signature, options);
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
        nb::arg("name"), nb::arg("source"), nb::call_guard<nb::gil_scoped_release>(),
        "Writes an imported graph with its weights as a model file.");
}

}  // namespace gex::python
