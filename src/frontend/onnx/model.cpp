#include "frontend/onnx/model.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/error.hpp"
#include "base/file_problem.hpp"
#include "frontend/onnx/wire.hpp"

namespace gex::onnx {
namespace {

constexpr int kDeepest = 64;  // subgraphs in subgraphs

GraphProto parse_graph_proto(std::string_view bytes, int depth);

TypeProto parse_type(std::string_view bytes, int depth);

TypeProto parse_tensor_type(std::string_view bytes, TypeProto::Kind kind) {
  TypeProto type;
  type.kind = kind;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) type.elem = static_cast<Elem>(r.integer());
    if (r.field() != 2) continue;
    type.shape.emplace();
    WireReader dims(r.bytes());
    while (dims.next()) {
      if (dims.field() != 1) continue;
      TypeProto::Size size;
      WireReader d(dims.bytes());
      while (d.next()) {
        if (d.field() == 1) size.value = d.integer();
        if (d.field() == 2) size.symbol = d.name();
      }
      type.shape->push_back(std::move(size));
    }
  }
  return type;
}

TypeProto parse_inner(std::string_view bytes, TypeProto::Kind kind, int depth) {
  TypeProto type;
  type.kind = kind;
  WireReader r(bytes);
  while (r.next())
    if (r.field() == 1 && kind != TypeProto::Kind::map)
      type.inner = std::make_shared<TypeProto>(parse_type(r.bytes(), depth + 1));
  return type;
}

TypeProto parse_type(std::string_view bytes, int depth) {
  if (depth > kDeepest) fail(ErrorCode::parse_error, "types nested too deeply");
  TypeProto type;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) type = parse_tensor_type(r.bytes(), TypeProto::Kind::tensor);
    if (r.field() == 4) type = parse_inner(r.bytes(), TypeProto::Kind::sequence, depth);
    if (r.field() == 5) type = parse_inner(r.bytes(), TypeProto::Kind::map, depth);
    if (r.field() == 8) type = parse_tensor_type(r.bytes(), TypeProto::Kind::sparse);
    if (r.field() == 9) type = parse_inner(r.bytes(), TypeProto::Kind::optional, depth);
  }
  return type;
}

ValueInfo parse_value_info(std::string_view bytes) {
  ValueInfo info;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) info.name = r.name();
    if (r.field() == 2) info.type = parse_type(r.bytes(), 0);
  }
  return info;
}

std::pair<std::string, std::string> parse_entry(std::string_view bytes) {
  std::pair<std::string, std::string> entry;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) entry.first = r.name();
    if (r.field() == 2) entry.second = r.name();
  }
  return entry;
}

SparseTensorProto parse_sparse(std::string_view bytes) {
  SparseTensorProto sparse;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) sparse.values = parse_tensor(r.bytes());
    if (r.field() == 2) sparse.indices = parse_tensor(r.bytes());
    if (r.field() == 3) r.integers(sparse.dims);
  }
  return sparse;
}

AttributeProto parse_attribute(std::string_view bytes, int depth) {
  AttributeProto a;
  WireReader r(bytes);
  while (r.next()) {
    switch (r.field()) {
      case 1:
        a.name = r.name();
        break;
      case 2:
        a.f = static_cast<double>(r.real());
        break;
      case 3:
        a.i = r.integer();
        break;
      case 4:
        a.s = r.text();
        break;
      case 5:
        a.tensor = std::make_shared<TensorProto>(parse_tensor(r.bytes()));
        break;
      case 6:
        a.graph = std::make_shared<GraphProto>(parse_graph_proto(r.bytes(), depth + 1));
        break;
      case 7: {
        std::vector<float> floats;
        r.fixed_numbers(floats);
        a.floats.insert(a.floats.end(), floats.begin(), floats.end());
        break;
      }
      case 8:
        r.integers(a.ints);
        break;
      case 9:
        a.strings.push_back(r.text());
        break;
      case 10:
        a.tensors.push_back(parse_tensor(r.bytes()));
        break;
      case 14:
        a.type = std::make_shared<TypeProto>(parse_type(r.bytes(), 0));
        break;
      case 20:
        a.kind = r.integer();
        break;
      case 21:
        a.reference = r.name();
        break;
      case 22:
        a.sparse = std::make_shared<SparseTensorProto>(parse_sparse(r.bytes()));
        break;
      default:
        break;
    }
  }
  return a;
}

NodeProto parse_node(std::string_view bytes, int depth) {
  NodeProto node;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) node.inputs.push_back(r.name());
    if (r.field() == 2) node.outputs.push_back(r.name());
    if (r.field() == 3) node.name = r.name();
    if (r.field() == 4) node.op = r.name();
    if (r.field() == 5) node.attributes.push_back(parse_attribute(r.bytes(), depth));
    if (r.field() == 7) node.domain = r.name();
    if (r.field() == 8) node.overload = r.name();
  }
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

GraphProto parse_graph_proto(std::string_view bytes, int depth) {
  if (depth > kDeepest) fail(ErrorCode::parse_error, "graphs nested too deeply");
  GraphProto graph;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) graph.nodes.push_back(parse_node(r.bytes(), depth));
    if (r.field() == 2) graph.name = r.name();
    if (r.field() == 5) graph.initialisers.push_back(parse_tensor(r.bytes()));
    if (r.field() == 11) graph.inputs.push_back(parse_value_info(r.bytes()));
    if (r.field() == 12) graph.outputs.push_back(parse_value_info(r.bytes()));
    if (r.field() == 13) graph.values.push_back(parse_value_info(r.bytes()));
    if (r.field() == 15) graph.sparse_initialisers.push_back(parse_sparse(r.bytes()));
  }
  return graph;
}

void parse_opset(std::string_view bytes, std::map<std::string, std::int64_t>& opsets) {
  std::string domain;
  std::int64_t version = 0;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) domain = r.name();
    if (r.field() == 2) version = r.integer();
  }
  opsets[domain == "ai.onnx" ? "" : domain] = version;
}

FunctionProto parse_function(std::string_view bytes) {
  FunctionProto f;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) f.name = r.name();
    if (r.field() == 4) f.inputs.push_back(r.name());
    if (r.field() == 5) f.outputs.push_back(r.name());
    if (r.field() == 7) f.nodes.push_back(parse_node(r.bytes(), 0));
    if (r.field() == 9) parse_opset(r.bytes(), f.opsets);
    if (r.field() == 10) f.domain = r.name();
    if (r.field() == 11) f.attributes.push_back(parse_attribute(r.bytes(), 0));
    if (r.field() == 13) f.overload = r.name();
  }
  if (f.domain == "ai.onnx") f.domain.clear();
  return f;
}

std::uint64_t whole_number(const TensorProto& tensor, const std::string& key) {
  const auto found = tensor.external.find(key);
  if (found == tensor.external.end()) return 0;
  std::uint64_t value = 0;
  const std::string& text = found->second;
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end)
    fail(ErrorCode::parse_error, "tensor '", tensor.name, "': external ", key, " is '", text,
         "', expected a number of bytes");
  return value;
}

// A file of external data must be in the model's folder or below it.
std::string external_path(const ModelProto& model, const TensorProto& tensor) {
  const auto found = tensor.external.find("location");
  if (found == tensor.external.end() || found->second.empty())
    fail(ErrorCode::parse_error, "tensor '", tensor.name, "': external data without a location");
  const std::filesystem::path location(found->second);
  bool inside = location.is_relative();
  for (const auto& part : location) inside = inside && part != "..";
  if (!inside)
    fail(ErrorCode::invalid_argument, "tensor '", tensor.name, "': external data in '",
         found->second, "', which is outside of the model's folder");
  if (model.folder.empty())
    fail(ErrorCode::invalid_argument, "tensor '", tensor.name,
         "' is in another file; load the model from its path instead of from memory");
  std::error_code error;
  const auto folder = std::filesystem::weakly_canonical(model.folder, error);
  const auto full = std::filesystem::weakly_canonical(folder / location, error);
  const auto relative = full.lexically_relative(folder);
  if (relative.empty() || *relative.begin() == "..")
    fail(ErrorCode::invalid_argument, "tensor '", tensor.name, "': external data in '",
         full.string(), "', which is outside of the model's folder");
  return full.string();
}

}  // namespace

TensorProto parse_tensor(std::string_view bytes) {
  TensorProto t;
  WireReader r(bytes);
  while (r.next()) {
    switch (r.field()) {
      case 1:
        r.integers(t.dims);
        break;
      case 2:
        t.elem = static_cast<Elem>(r.integer());
        break;
      case 4:
        r.fixed_numbers(t.floats);
        break;
      case 5:
      case 7:
      case 11:
        r.integers(t.ints);
        break;
      case 6:
        t.strings.push_back(r.text());
        break;
      case 8:
        t.name = r.name();
        break;
      case 9:
        t.raw = r.bytes();
        t.has_raw = true;
        break;
      case 10:
        r.fixed_numbers(t.doubles);
        break;
      case 13:
        t.external.insert(parse_entry(r.bytes()));
        break;
      case 14:
        t.is_external = r.integer() == 1;
        break;
      default:
        break;
    }
  }
  return t;
}

Bytes own_bytes(std::string bytes) {
  struct Holder {
    std::string text;
    std::string_view view;
  };
  auto holder = std::make_shared<Holder>();
  holder->text = std::move(bytes);
  holder->view = holder->text;
  return {holder, &holder->view};
}

Bytes map_file(const std::string& path) {
  struct Mapping {
    void* memory = MAP_FAILED;
    std::string_view view;
    ~Mapping() {
      if (memory != MAP_FAILED) ::munmap(memory, view.size());
    }
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(ErrorCode::io_error, "can't read ", path, ": ", file_problem(path, errno));
  struct stat info{};
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  auto mapping = std::make_shared<Mapping>();
  const auto size = regular ? static_cast<std::size_t>(info.st_size) : 0;
  if (size > 0) mapping->memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (!regular) fail(ErrorCode::io_error, "'", path, "' is not a regular file");
  if (size > 0 && mapping->memory == MAP_FAILED)
    fail(ErrorCode::io_error, "can't map '", path, "'");
  if (size > 0) mapping->view = {static_cast<const char*>(mapping->memory), size};
  return {mapping, &mapping->view};
}

std::string_view raw_bytes(const ModelProto* model, const TensorProto& tensor) {
  if (!tensor.is_external) return tensor.raw;
  if (model == nullptr)
    fail(ErrorCode::invalid_argument, "tensor '", tensor.name, "' is in another file");
  const std::string path = external_path(*model, tensor);
  Bytes& file = model->mapped[path];
  if (!file) file = map_file(path);
  const std::uint64_t offset = whole_number(tensor, "offset"), size = file->size();
  if (offset > size)
    fail(ErrorCode::parse_error, "tensor '", tensor.name, "' begins at byte ", offset, " of '",
         path, "', which has ", size);
  const std::uint64_t length =
      tensor.external.contains("length") ? whole_number(tensor, "length") : size - offset;
  if (length > size - offset)
    fail(ErrorCode::parse_error, "tensor '", tensor.name, "' takes bytes ", offset, " to ",
         offset + length, " of '", path, "', which has ", size);
  return file->substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
}

std::shared_ptr<const ModelProto> parse_model(Bytes bytes, std::string folder) {
  auto model = std::make_shared<ModelProto>();
  model->bytes = bytes;
  model->folder = std::move(folder);
  WireReader r(*bytes);
  bool has_graph = false;
  while (r.next()) {
    if (r.field() == 1) model->ir_version = r.integer();
    if (r.field() == 2) model->producer = r.name();
    if (r.field() == 7) {
      model->graph = parse_graph_proto(r.bytes(), 0);
      has_graph = true;
    }
    if (r.field() == 8) parse_opset(r.bytes(), model->opsets);
    if (r.field() == 14) model->metadata.insert(parse_entry(r.bytes()));
    if (r.field() == 25) model->functions.push_back(parse_function(r.bytes()));
  }
  if (!has_graph) fail(ErrorCode::parse_error, "not an ONNX model: it has no graph");
  return model;
}

std::shared_ptr<const ModelProto> read_model(const std::string& path) {
  auto folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  try {
    return parse_model(map_file(path), folder.string());
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::parse_error) throw;
    fail(ErrorCode::parse_error, path, ": ", error.what());
  }
}

std::string_view name_of(Elem elem) {
  static constexpr std::string_view names[] = {
      "undefined",      "float",    "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "double",   "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  const auto k = static_cast<std::size_t>(elem);
  return k < std::size(names) ? names[k] : "unknown";
}

}  // namespace gex::onnx
