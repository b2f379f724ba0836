#include "serve/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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
  return shape.integers;
}

class Elements {
 public:
  Elements(HostTensor& tensor, const deploy::TensorInfo& info, const std::string& where)
      : tensor_(tensor), range_(range_of(info)), where_(where) {}

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
    if (is_float(tensor_.dtype())) return tensor_.set(k, static_cast<double>(value));
    check_in_range(value, range_, where_);
    tensor_.set_int(k, value);
  }
  void number(double value) {
    if (!is_float(tensor_.dtype()))
      fail(ErrorCode::invalid_argument, where_, " takes integers, got ", value);
    tensor_.set(place(), value);
  }
  HostTensor& tensor_;
  IntegerRange range_;
  const std::string& where_;
  std::int64_t at_ = 0;
};

HostTensor tensor_of(const Json& given, const deploy::TensorInfo& info, std::string_view& binary) {
  const std::string where = "input '" + info.name + "'";
  const std::string& datatype = text_member(given, "datatype", where);
  std::vector<std::int64_t> shape = shape_of(given, where);
  const std::size_t count = checked_count(info, datatype, shape),
                    bytes = count * size_of(info.dtype);
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
  if (count > 0 && data.length() == 0) fail(ErrorCode::invalid_argument, where, " has no elements");
  if (data.items.empty() && data.length() != count)
    fail(ErrorCode::invalid_argument, where, " has ", data.length(), " elements, its shape has ",
         count);
  HostTensor tensor(info.dtype, std::move(shape));
  Elements(tensor, info, where).fill(data);
  return tensor;
}

bool is_true(const Json* value) {
  return value != nullptr && value->kind == Json::Kind::boolean && value->boolean;
}

// The memory of uint16 is i16, that of uint32 i32.
std::int64_t widened(const deploy::TensorInfo& info, std::int64_t value) {
  return info.type == "uint16"   ? static_cast<std::uint16_t>(value)
         : info.type == "uint32" ? static_cast<std::int64_t>(static_cast<std::uint32_t>(value))
                                 : value;
}

void append_elements(std::string& out, const deploy::TensorInfo& info, const HostTensor& tensor) {
  out += '[';
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    if (k > 0) out += ',';
    if (tensor.dtype() == DType::boolean)
      out += tensor.get_int(k) != 0 ? "true" : "false";
    else if (tensor.dtype() == DType::f32)
      append_number(out, static_cast<float>(tensor.get(k)));
    else if (is_float(tensor.dtype()))
      append_number(out, tensor.get(k));
    else if (info.type == "uint64")
      out += std::to_string(static_cast<std::uint64_t>(tensor.get_int(k)));
    else
      out += std::to_string(widened(info, tensor.get_int(k)));
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

// Null is as good as nothing.
const Json* optional_member(const Json& object, const std::string& name) {
  const Json* found = object.find(name);
  return found == nullptr || found->kind == Json::Kind::null ? nullptr : found;
}

// In microseconds, as in the protocol. 0: the request has no time limit.
std::int64_t timeout_of(const Json& request) {
  const Json* timeout = parameter(request, "timeout");
  if (timeout == nullptr) return 0;
  if (timeout->kind != Json::Kind::integer || timeout->integer < 0)
    fail(ErrorCode::invalid_argument, "\"timeout\" is not a number of microseconds");
  return timeout->integer == 0 ? 0 : std::max<std::int64_t>(1, timeout->integer / 1000);
}

}  // namespace

std::string datatype_of(const deploy::TensorInfo& info) {
  if (info.type == "string")
    fail(ErrorCode::unsupported, "'", info.name, "' is a tensor of strings: these can't be served");
  if (info.type == "uint16") return "UINT16";
  if (info.type == "uint32") return "UINT32";
  if (info.type == "uint64") return "UINT64";
  for (const auto& [dtype, name] : kNames)
    if (dtype == info.dtype) return name;
  fail(ErrorCode::unsupported, "the protocol has no name for ", info.dtype);
}

std::size_t index_of(const std::vector<deploy::TensorInfo>& infos, const std::string& name,
                     const char* what) {
  std::string known;
  for (std::size_t k = 0; k < infos.size(); ++k) {
    if (infos[k].name == name) return k;
    known += (known.empty() ? "" : ", ") + infos[k].name;
  }
  fail(ErrorCode::invalid_argument, "the model has no ", what, " '", name, "'; it has: ", known);
}

std::size_t checked_count(const deploy::TensorInfo& info, std::string_view datatype,
                          const std::vector<std::int64_t>& shape) {
  if (datatype != datatype_of(info))
    fail(ErrorCode::type_mismatch, "input '", info.name, "' takes ", datatype_of(info), ", got ",
         datatype);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t count = 1;
  for (std::int64_t size : shape) {
    if (size < 0) fail(ErrorCode::invalid_argument, "input '", info.name, "' has a negative size");
    if (size != 0 && count > kMost / size)
      fail(ErrorCode::invalid_argument, "input '", info.name, "' has too many elements");
    count *= size;
  }
  return static_cast<std::size_t>(count);
}

IntegerRange range_of(const deploy::TensorInfo& info) {
  constexpr std::pair<const char*, IntegerRange> kRanges[] = {
      {"BOOL", {0, 1}},
      {"INT8", {-128, 127}},
      {"UINT8", {0, 255}},
      {"INT16", {-32768, 32767}},
      {"UINT16", {0, 65535}},
      {"INT32", {-2147483648LL, 2147483647LL}},
      {"UINT32", {0, 4294967295LL}},
      {"UINT64", {0, std::numeric_limits<std::int64_t>::max()}}};  // JSON's integers end there
  const std::string datatype = datatype_of(info);
  for (const auto& [name, range] : kRanges)
    if (datatype == name) return range;
  return {};
}

void check_in_range(std::int64_t value, const IntegerRange& range, const std::string& where) {
  if (value < range.lowest || value > range.highest)
    fail(ErrorCode::invalid_argument, where, " takes integers from ", range.lowest, " to ",
         range.highest, ", got ", value);
}

void InputList::put(std::size_t k, HostTensor tensor) {
  if (tensors_[k]) fail(ErrorCode::invalid_argument, "input '", infos_[k].name, "' is given twice");
  tensors_[k] = std::move(tensor);
}

std::vector<HostTensor> InputList::in_order() {
  std::vector<HostTensor> list;
  for (std::size_t k = 0; k < infos_.size(); ++k) {
    if (!tensors_[k]) fail(ErrorCode::invalid_argument, "input '", infos_[k].name, "' is missing");
    list.push_back(std::move(*tensors_[k]));
  }
  return list;
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
  if (const Json* id = optional_member(json, "id")) {
    if (id->kind != Json::Kind::text) fail(ErrorCode::invalid_argument, "\"id\" is not a string");
    request.id = id->text;
  }
  request.timeout_ms = timeout_of(json);
  const Json& given = member(json, "inputs", "the request");
  InputList tensors(inputs);
  for (const Json& input : given.items) {
    const std::size_t k = index_of(inputs, text_member(input, "name", "an input"), "input");
    tensors.put(k, tensor_of(input, inputs[k], binary));
  }
  request.inputs = tensors.in_order();
  const bool all_binary = is_true(parameter(json, "binary_data_output"));
  const Json* wanted = optional_member(json, "outputs");
  if (wanted != nullptr && wanted->kind != Json::Kind::list)
    fail(ErrorCode::invalid_argument, "\"outputs\" is not a list");
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
      append_elements(out, info, tensor);
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
