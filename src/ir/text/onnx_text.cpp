#include "ir/text/onnx_text.hpp"

#include "ir/text/text.hpp"
#include "ir/text/value_names.hpp"

namespace gex {
namespace {

// TensorProto.DataType.
int element_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1;
    case DType::u8:
      return 2;
    case DType::i8:
      return 3;
    case DType::i16:
      return 5;
    case DType::i32:
      return 6;
    case DType::i64:
      return 7;
    case DType::boolean:
      return 9;
    case DType::f16:
      return 10;
    case DType::f64:
      return 11;
    case DType::bf16:
      return 16;
  }
  GEX_CHECK(false, "a dtype without a number");
}

// A string of protobuf's text format: bytes that are not plain characters in octal.
std::string quoted(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 32 && byte < 127) {
      out += c;
    } else {
      out += '\\';
      for (int shift = 6; shift >= 0; shift -= 3)
        out += static_cast<char>('0' + (byte >> shift) % 8);
    }
  }
  return out + '"';
}

class OnnxPrinter {
 public:
  std::string print(const Graph& graph) {
    field("ir_version", "8");
    field("producer_name", quoted("gex"));
    block("graph", [&] { print_graph(graph); });
    block("opset_import", [&] {
      field("domain", quoted("gex"));
      field("version", "1");
    });
    return std::move(out_);
  }

 private:
  void field(std::string_view name, std::string_view value) {
    out_.append(static_cast<std::size_t>(indent_), ' ').append(name).append(": ").append(value);
    out_ += '\n';
  }
  template <class Body>
  void block(std::string_view name, Body&& body) {
    out_.append(static_cast<std::size_t>(indent_), ' ').append(name).append(" {\n");
    indent_ += 2;
    body();
    indent_ -= 2;
    out_.append(static_cast<std::size_t>(indent_), ' ').append("}\n");
  }

  void print_graph(const Graph& graph) {
    const ValueNames names(graph);
    for (const Node& node : graph.nodes()) block("node", [&] { print_node(node, names); });
    field("name", quoted(graph.name()));
    for (const auto& input : graph.inputs()) print_value("input", *input, names);
    for (const Value* output : graph.outputs()) print_value("output", *output, names);
    for (const Node& node : graph.nodes())
      for (std::size_t k = 0; k < node.num_outputs(); ++k)
        print_value("value_info", *node.output(k), names);
  }

  void print_node(const Node& node, const ValueNames& names) {
    for (const Value* input : node.inputs())
      field("input", quoted(input == nullptr ? "" : names.of(*input)));
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      field("output", quoted(names.of(*node.output(k))));
    if (node.num_outputs() > 0) field("name", quoted(names.of(*node.output(0))));
    field("op_type", quoted(node.op().name));
    field("domain", quoted("gex"));
    for (std::size_t k = 0; k < node.attrs().size(); ++k)
      print_attribute(node.op().attrs[k].name, node.attrs()[k]);
    for (const auto& [name, value] : node.labels()) print_attribute("label." + name, value);
    for (std::size_t k = 0; k < node.subgraphs().size(); ++k) {
      block("attribute", [&] {
        field("name", quoted(str("region_", k)));
        block("g", [&] { print_graph(*node.subgraphs()[k]); });
        field("type", "GRAPH");
      });
    }
    if (!node.location().empty()) field("doc_string", quoted(node.location()));
  }

  void print_value(std::string_view kind, const Value& value, const ValueNames& names) {
    block(kind, [&] {
      field("name", quoted(names.of(value)));
      if (value.type().is_token()) return;
      block("type", [&] { block("tensor_type", [&] { print_tensor_type(value.type()); }); });
    });
  }

  void print_tensor_type(const Type& type) {
    field("elem_type", str(element_type(type.dtype)));
    block("shape", [&] {
      for (Dim size : type.shape) {
        block("dim", [&] {
          if (size.as_const()) {
            field("dim_value", str(size));
          } else {
            field("dim_param", quoted(str(size)));
          }
        });
      }
    });
  }

  void print_attribute(const std::string& name, const AttrValue& value) {
    block("attribute", [&] {
      field("name", quoted(name));
      std::visit([&](const auto& v) { print_attr_value(v); }, value);
    });
  }

  void print_attr_value(bool value) { print_attr_value(std::int64_t{value}); }
  void print_attr_value(std::int64_t value) {
    field("i", str(value));
    field("type", "INT");
  }
  void print_attr_value(double value) {
    field("f", text_of_real(value));
    field("type", "FLOAT");
  }
  void print_attr_value(const std::string& value) {
    field("s", quoted(value));
    field("type", "STRING");
  }
  void print_attr_value(DType value) { print_attr_value(std::string(name_of(value))); }
  void print_attr_value(Dim value) {
    if (const auto number = value.as_const()) {
      print_attr_value(*number);
    } else {
      print_attr_value(str(value));
    }
  }
  void print_attr_value(const std::vector<std::int64_t>& values) {
    for (std::int64_t value : values) field("ints", str(value));
    field("type", "INTS");
  }
  void print_attr_value(const std::vector<double>& values) {
    for (double value : values) field("floats", text_of_real(value));
    field("type", "FLOATS");
  }
  void print_attr_value(const std::vector<std::string>& values) {
    for (const std::string& value : values) field("strings", quoted(value));
    field("type", "STRINGS");
  }
  void print_attr_value(const std::vector<Dim>& values) {
    std::vector<std::int64_t> numbers;
    std::vector<std::string> texts;
    for (Dim value : values) {
      texts.push_back(str(value));
      if (const auto number = value.as_const()) numbers.push_back(*number);
    }
    if (numbers.size() == values.size()) {
      print_attr_value(numbers);
    } else {
      print_attr_value(texts);
    }
  }
  void print_attr_value(const TensorPtr& tensor) {
    block("t", [&] {
      for (std::int64_t size : tensor->shape()) field("dims", str(size));
      field("data_type", str(element_type(tensor->dtype())));
      const std::size_t bytes =
          static_cast<std::size_t>(tensor->numel()) * size_of(tensor->dtype());
      field("raw_data", quoted({reinterpret_cast<const char*>(tensor->data()), bytes}));
    });
    field("type", "TENSOR");
  }

  // Like the graph's own text form, except for the names of non-finite numbers.
  static std::string text_of_real(double value) {
    if (value != value) return "nan";
    if (value - value != 0) return value > 0 ? "inf" : "-inf";
    return attr_text(AttrValue(value));
  }

  std::string out_;
  int indent_ = 0;
};

}  // namespace

std::string print_onnx(const Graph& graph) { return OnnxPrinter().print(graph); }

}  // namespace gex
