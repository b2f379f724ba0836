#include "serve_grpc/requests.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace gex::serve {
namespace {

using Input = inference::ModelInferRequest::InferInputTensor;

// The elements of one typed field.
template <class Field>
HostTensor filled(const deploy::TensorInfo& info, std::vector<std::int64_t> shape,
                  std::size_t count, const Field& field, const char* field_name) {
  const std::string where = "input '" + info.name + "'";
  if (static_cast<std::size_t>(field.size()) != count)
    fail(ErrorCode::invalid_argument, where, " has ", field.size(), " elements in ", field_name,
         ", its shape has ", count);
  HostTensor tensor(info.dtype, std::move(shape));
  const IntegerRange range = range_of(info);
  std::int64_t k = 0;
  for (const auto value : field) {
    if (is_float(info.dtype)) {
      tensor.set(k++, static_cast<double>(value));
      continue;
    }
    if (info.type != "uint64") check_in_range(static_cast<std::int64_t>(value), range, where);
    tensor.set_int(k++, static_cast<std::int64_t>(value));
  }
  return tensor;
}

HostTensor of_contents(const Input& input, const deploy::TensorInfo& info,
                       std::vector<std::int64_t> shape, std::size_t count) {
  const inference::InferTensorContents& from = input.contents();
  const std::string& type = input.datatype();
  const auto fill = [&](const auto& field, const char* name) {
    return filled(info, std::move(shape), count, field, name);
  };
  if (type == "BOOL") return fill(from.bool_contents(), "bool_contents");
  if (type == "INT64") return fill(from.int64_contents(), "int64_contents");
  if (type == "UINT64") return fill(from.uint64_contents(), "uint64_contents");
  if (type == "FP32") return fill(from.fp32_contents(), "fp32_contents");
  if (type == "FP64") return fill(from.fp64_contents(), "fp64_contents");
  if (type.starts_with("INT")) return fill(from.int_contents(), "int_contents");
  if (type.starts_with("UINT")) return fill(from.uint_contents(), "uint_contents");
  fail(ErrorCode::invalid_argument, "input '", info.name, "': ", type,
       " has no field of contents; send it in raw_input_contents");
}

HostTensor of_bytes(const std::string& bytes, const deploy::TensorInfo& info,
                    std::vector<std::int64_t> shape, std::size_t count) {
  if (bytes.size() != count * size_of(info.dtype))
    fail(ErrorCode::invalid_argument, "input '", info.name, "' has ", bytes.size(),
         " bytes of raw contents, its shape needs ", count * size_of(info.dtype));
  return HostTensor::from_bytes(info.dtype, std::move(shape), bytes.data());
}

void write_infos(
    const std::vector<deploy::TensorInfo>& infos,
    google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>& out) {
  for (const deploy::TensorInfo& info : infos) {
    auto& tensor = *out.Add();
    tensor.set_name(info.name);
    tensor.set_datatype(datatype_of(info));
    for (Dim size : info.shape) tensor.add_shape(size.as_const().value_or(-1));
  }
}

}  // namespace

InferRequest parse_request(const inference::ModelInferRequest& given, const deploy::Model& model) {
  InferRequest request;
  request.id = given.id();
  if (const auto timeout = given.parameters().find("timeout"); timeout != given.parameters().end())
    request.timeout_ms = std::max<std::int64_t>(1, timeout->second.int64_param() / 1000);
  const bool raw = given.raw_input_contents_size() > 0;
  if (raw && given.raw_input_contents_size() != given.inputs_size())
    fail(ErrorCode::invalid_argument, "the request has ", given.inputs_size(), " inputs and ",
         given.raw_input_contents_size(), " raw contents");
  InputList tensors(model.inputs);
  for (int n = 0; n < given.inputs_size(); ++n) {
    const Input& input = given.inputs(n);
    const std::size_t k = index_of(model.inputs, input.name(), "input");
    const deploy::TensorInfo& info = model.inputs[k];
    std::vector<std::int64_t> shape(input.shape().begin(), input.shape().end());
    const std::size_t count = checked_count(info, input.datatype(), shape);
    tensors.put(k, raw ? of_bytes(given.raw_input_contents(n), info, std::move(shape), count)
                       : of_contents(input, info, std::move(shape), count));
  }
  request.inputs = tensors.in_order();
  for (const auto& wanted : given.outputs())
    request.outputs.push_back({index_of(model.outputs, wanted.name(), "output"), true});
  if (request.outputs.empty())
    for (std::size_t k = 0; k < model.outputs.size(); ++k) request.outputs.push_back({k, true});
  return request;
}

void write_response(const ServedModel& model, const InferRequest& request,
                    const std::vector<HostTensor>& results, inference::ModelInferResponse& out) {
  out.set_model_name(model.name);
  out.set_model_version(model.version);
  out.set_id(request.id);
  for (const WantedOutput& wanted : request.outputs) {
    const HostTensor& result = results[wanted.index];
    const deploy::TensorInfo& info = model.model->outputs[wanted.index];
    auto& tensor = *out.add_outputs();
    tensor.set_name(info.name);
    tensor.set_datatype(datatype_of(info));
    for (std::int64_t size : result.shape()) tensor.add_shape(size);
    out.add_raw_output_contents(result.data(), result.bytes());
  }
}

void write_metadata(const ServedModel& model, const std::vector<std::string>& versions,
                    inference::ModelMetadataResponse& out) {
  out.set_name(model.name);
  out.set_platform("gex");
  for (const std::string& version : versions) out.add_versions(version);
  write_infos(model.model->inputs, *out.mutable_inputs());
  write_infos(model.model->outputs, *out.mutable_outputs());
}

}  // namespace gex::serve
