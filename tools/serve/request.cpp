#include "serve/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "serve/json.hpp"

namespace gex::serve {
namespace {

constexpr std::pair<DType, const char*> kNames[] = {
    {DType::f64, "FP64"},  {DType::f32, "FP32"},    {DType::f16, "FP16"},  {DType::bf16, "BF16"},
    {DType::i64, "INT64"}, {DType::i32, "INT32"},   {DType::i16, "INT16"}, {DType::i8, "INT8"},
    {DType::u8, "UINT8"},  {DType::boolean, "BOOL"}};

const Json& member(const Json& object, const std::string& name, const std::string& where) {
  const Json* found = object.find(name);
  if (found == nullptr) fail(ErrorCode::invalid_argument, where, " has no \"", name, "\"");
  return *found;
}

const std::string& text_member(const Json& object, const std::string& name,
                               const std::string& where) {
  const Json& found = member(object, name, where);
  if (found.kind != Json::Kind::text)
    fail(ErrorCode::invalid_argument, "\"", name, "\" of ", where, " is not a string");
  return found.text;
}

const Json* parameter(const Json& object, const std::string& name) {
  const Json* parameters = object.find("parameters");
  return parameters == nullptr ? nullptr : parameters->find(name);
}

std::vector<std::int64_t> shape_of(const Json& tensor, const std::string& where) {
  const Json& shape = member(tensor, "shape", where);
  if (shape.kind != Json::Kind::list || !shape.items.empty() || !shape.reals.empty())
    fail(ErrorCode::invalid_argument, "\"shape\" of ", where, " is not a list of integers");
  for (std::int64_t size : shape.integers)
    if (size < 0) fail(ErrorCode::invalid_argument, where, " has a negative size");
  return shape.integers;
}

// How many elements; UserError if that is more than a body can hold.
std::size_t count_of(const std::vector<std::int64_t>& shape, const std::string& where) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t count = 1;
  for (std::int64_t size : shape) {
    if (size != 0 && count > kMost / size)
      fail(ErrorCode::invalid_argument, where, " has too many elements");
    count *= size;
  }
  return static_cast<std::size_t>(count);
}

class Elements {
 public:
  Elements(HostTensor& tensor, const std::string& where) : tensor_(tensor), where_(where) {}

  void fill(const Json& data) {
    read(data);
    if (at_ != tensor_.numel())
      fail(ErrorCode::invalid_argument, where_, " has ", at_, " elements, its shape has ",
           tensor_.numel());
  }

 private:
  void read(const Json& data) {
    if (data.kind == Json::Kind::list) {
      for (std::int64_t integer : data.integers) whole(integer);
      for (double real : data.reals) number(real);
      for (const Json& item : data.items) read(item);
    } else if (data.kind == Json::Kind::boolean) {
      whole(data.boolean ? 1 : 0);
    } else if (data.kind == Json::Kind::integer) {
      whole(data.integer);
    } else if (data.kind == Json::Kind::real) {
      number(data.real);
    } else {
      fail(ErrorCode::invalid_argument, where_, " has an element that is not a number");
    }
  }
  std::int64_t place() {
    if (at_ == tensor_.numel())
      fail(ErrorCode::invalid_argument, where_, " has more elements than its shape");
    return at_++;
  }
  void whole(std::int64_t value) {
    const std::int64_t k = place();
    if (is_float(tensor_.dtype()))
      tensor_.set(k, static_cast<double>(value));
    else
      tensor_.set_int(k, value);
  }
  void number(double value) {
    if (!is_float(tensor_.dtype()))
      fail(ErrorCode::invalid_argument, where_, " takes integers, got ", value);
    tensor_.set(place(), value);
  }
  HostTensor& tensor_;
  const std::string& where_;
  std::int64_t at_ = 0;
};

std::size_t index_of(const std::vector<deploy::TensorInfo>& infos, const std::string& name,
                     const char* what) {
  std::string known;
  for (std::size_t k = 0; k < infos.size(); ++k) {
    if (infos[k].name == name) return k;
    known += (known.empty() ? "" : ", ") + infos[k].name;
  }
  fail(ErrorCode::invalid_argument, "the model has no ", what, " '", name, "'; it has: ", known);
}

HostTensor tensor_of(const Json& given, const deploy::TensorInfo& info, std::string_view& binary) {
  const std::string where = "input '" + info.name + "'";
  const std::string& datatype = text_member(given, "datatype", where);
  if (datatype != datatype_of(info))
    fail(ErrorCode::type_mismatch, where, " takes ", datatype_of(info), ", got ", datatype);
  std::vector<std::int64_t> shape = shape_of(given, where);
  const std::size_t bytes = count_of(shape, where) * size_of(info.dtype);
  if (const Json* size = parameter(given, "binary_data_size")) {
    if (size->kind != Json::Kind::integer || size->integer < 0 ||
        static_cast<std::uint64_t>(size->integer) != bytes)
      fail(ErrorCode::invalid_argument, where, " has ", size->integer,
           " bytes of binary data, its shape needs ", bytes);
    if (binary.size() < bytes)
      fail(ErrorCode::invalid_argument, where, " has ", bytes,
           " bytes of binary data, but the request ends after ", binary.size());
    HostTensor tensor = HostTensor::from_bytes(info.dtype, std::move(shape), binary.data());
    binary.remove_prefix(bytes);
    return tensor;
  }
  const Json& data = member(given, "data", where);
  // An element takes at least two bytes of JSON, so the shape can't request much more memory than
  // the request has.
  if (data.kind != Json::Kind::list)
    fail(ErrorCode::invalid_argument, "\"data\" of ", where, " is not a list");
  if (count_of(shape, where) > 0 && data.length() == 0)
    fail(ErrorCode::invalid_argument, where, " has no elements");
  if (data.items.empty() && data.length() != count_of(shape, where))
    fail(ErrorCode::invalid_argument, where, " has ", data.length(), " elements, its shape has ",
         count_of(shape, where));
  HostTensor tensor(info.dtype, std::move(shape));
  Elements(tensor, where).fill(data);
  return tensor;
}

bool is_true(const Json* value) {
  return value != nullptr && value->kind == Json::Kind::boolean && value->boolean;
}

void append_elements(std::string& out, const HostTensor& tensor) {
  out += '[';
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    if (k > 0) out += ',';
    if (tensor.dtype() == DType::boolean)
      out += tensor.get_int(k) != 0 ? "true" : "false";
    else if (tensor.dtype() == DType::f32)
      append_number(out, static_cast<float>(tensor.get(k)));
    else if (is_float(tensor.dtype()))
      append_number(out, tensor.get(k));
    else
      out += std::to_string(tensor.get_int(k));
  }
  out += ']';
}

std::string shape_json(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::int64_t size : shape) out += (out.size() > 1 ? "," : "") + std::to_string(size);
  return out + "]";
}

std::string infos_json(const std::vector<deploy::TensorInfo>& infos) {
  std::string out = "[";
  for (const deploy::TensorInfo& info : infos) {
    std::vector<std::int64_t> shape;
    for (Dim size : info.shape) shape.push_back(size.as_const().value_or(-1));
    out += str(out.size() > 1 ? "," : "", "{\"name\":", quoted(info.name),
               ",\"datatype\":", quoted(datatype_of(info)), ",\"shape\":", shape_json(shape), "}");
  }
  return out + "]";
}

}  // namespace

std::string datatype_of(const deploy::TensorInfo& info) {
  if (info.type == "uint16") return "UINT16";
  if (info.type == "uint32") return "UINT32";
  if (info.type == "uint64") return "UINT64";
  for (const auto& [dtype, name] : kNames)
    if (dtype == info.dtype) return name;
  fail(ErrorCode::unsupported, "the protocol has no name for ", info.dtype);
}

InferRequest parse_request(std::string_view body, std::size_t json_size,
                           const std::vector<deploy::TensorInfo>& inputs,
                           const std::vector<deploy::TensorInfo>& outputs) {
  if (json_size > body.size())
    fail(ErrorCode::invalid_argument, "Inference-Header-Content-Length is ", json_size,
         ", the request has ", body.size(), " bytes");
  const Json json = parse_json(body.substr(0, json_size));
  std::string_view binary = body.substr(json_size);
  if (json.kind != Json::Kind::object)
    fail(ErrorCode::invalid_argument, "the request is not a JSON object");
  InferRequest request;
  if (const Json* id = json.find("id"); id != nullptr && id->kind == Json::Kind::text)
    request.id = id->text;
  if (const Json* timeout = parameter(json, "timeout"); timeout != nullptr && timeout->is_number())
    request.timeout_ms = std::max<std::int64_t>(1, timeout->integer / 1000);  // microseconds
  const Json& given = member(json, "inputs", "the request");
  std::vector<std::optional<HostTensor>> tensors(inputs.size());
  for (const Json& input : given.items) {
    const std::size_t k = index_of(inputs, text_member(input, "name", "an input"), "input");
    if (tensors[k])
      fail(ErrorCode::invalid_argument, "input '", inputs[k].name, "' is given twice");
    tensors[k] = tensor_of(input, inputs[k], binary);
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!tensors[k]) fail(ErrorCode::invalid_argument, "input '", inputs[k].name, "' is missing");
    request.inputs.push_back(std::move(*tensors[k]));
  }
  const bool all_binary = is_true(parameter(json, "binary_data_output"));
  const Json* wanted = json.find("outputs");
  if (wanted == nullptr || wanted->items.empty()) {
    for (std::size_t k = 0; k < outputs.size(); ++k) request.outputs.push_back({k, all_binary});
    return request;
  }
  for (const Json& output : wanted->items) {
    const Json* binary_data = parameter(output, "binary_data");
    request.outputs.push_back(
        {index_of(outputs, text_member(output, "name", "an output"), "output"),
         binary_data == nullptr ? all_binary : is_true(binary_data)});
  }
  return request;
}

InferResponse write_response(const std::string& model, const std::string& version,
                             const InferRequest& request, const std::vector<HostTensor>& results,
                             const std::vector<deploy::TensorInfo>& outputs) {
  InferResponse response;
  std::string& out = response.body;
  out = str("{\"model_name\":", quoted(model), ",\"model_version\":", quoted(version));
  if (!request.id.empty()) out += ",\"id\":" + quoted(request.id);
  out += ",\"outputs\":[";
  bool first = true;
  for (const WantedOutput& wanted : request.outputs) {
    const HostTensor& tensor = results[wanted.index];
    const deploy::TensorInfo& info = outputs[wanted.index];
    out +=
        str(first ? "" : ",", "{\"name\":", quoted(info.name),
            ",\"datatype\":", quoted(datatype_of(info)), ",\"shape\":", shape_json(tensor.shape()));
    first = false;
    if (wanted.binary) {
      out += str(",\"parameters\":{\"binary_data_size\":", tensor.bytes(), "}}");
    } else {
      out += ",\"data\":";
      append_elements(out, tensor);
      out += '}';
    }
  }
  out += "]}";
  response.json_size = out.size();
  for (const WantedOutput& wanted : request.outputs)
    if (wanted.binary)
      out.append(reinterpret_cast<const char*>(results[wanted.index].data()),
                 results[wanted.index].bytes());
  return response;
}

std::string metadata_json(const std::string& model, const std::vector<std::string>& versions,
                          const std::vector<deploy::TensorInfo>& inputs,
                          const std::vector<deploy::TensorInfo>& outputs) {
  std::string list;
  for (const std::string& version : versions) list += (list.empty() ? "" : ",") + quoted(version);
  return str("{\"name\":", quoted(model), ",\"versions\":[", list,
             "],\"platform\":\"gex\",\"inputs\":", infos_json(inputs),
             ",\"outputs\":", infos_json(outputs), "}");
}

std::string error_json(const std::string& message) { return "{\"error\":" + quoted(message) + "}"; }

}  // namespace gex::serve
