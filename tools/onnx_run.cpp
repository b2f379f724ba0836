#include "onnx_run.hpp"

#include "base/error.hpp"
#include "compiling.hpp"
#include "frontend/onnx/session.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

HostTensor tensor_of(const onnx::HostValue& value) {
  return HostTensor::from_bytes(onnx::memory_type_of(value.elem), value.shape, value.data.get());
}

void collect(const std::string& name, const onnx::HostValue& value,
             std::vector<NamedTensor>& results) {
  if (value.kind == onnx::Item::Kind::tensor) results.push_back({name, tensor_of(value)});
  for (std::size_t k = 0; k < value.items.size(); ++k)
    collect(str(name, "_", k), value.items[k], results);
}

}  // namespace

std::vector<NamedTensor> run_onnx(const Arguments& arguments) {
  const auto model = onnx::read_model(arguments.file());
  const std::unique_ptr<Graph> signature = onnx::signature_graph(*model);
  std::vector<onnx::HostValue> inputs;
  const auto infos = onnx::model_inputs(*model);
  std::vector<HostTensor> tensors = make_inputs(*signature, arguments);
  for (std::size_t k = 0; k < tensors.size(); ++k)
    inputs.push_back(onnx::HostValue::tensor(infos[k]->type.elem, std::move(tensors[k])));
  onnx::SessionSettings settings;
  const UserOptions options = user_options(arguments);
  settings.compile = options.compile;
  settings.session = options.session;
  onnx::Session session(model, settings);
  const std::vector<onnx::HostValue> outputs = session.run(inputs);
  std::vector<NamedTensor> results;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    collect(model->graph.outputs[k].name, outputs[k], results);
  return results;
}

}  // namespace gex::tool
