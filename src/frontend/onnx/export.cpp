#include "frontend/onnx/export.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "frontend/onnx/model.hpp"
#include "frontend/onnx/wire_writer.hpp"
#include "ops/core/attributes.hpp"

namespace gex::onnx {
namespace {

constexpr std::int64_t kOpset = 18, kIrVersion = 9;

Elem elem_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return Elem::f64;
    case DType::f32:
      return Elem::f32;
    case DType::f16:
      return Elem::f16;
    case DType::bf16:
      return Elem::bf16;
    case DType::i64:
      return Elem::i64;
    case DType::i32:
      return Elem::i32;
    case DType::i16:
      return Elem::i16;
    case DType::i8:
      return Elem::i8;
    case DType::u8:
      return Elem::u8;
    case DType::boolean:
      return Elem::boolean;
  }
  return Elem::undefined;
}

Message tensor_message(const std::string& name, const HostTensor& tensor) {
  Message t;
  for (const std::int64_t d : tensor.shape()) t.number(1, d);
  t.number(2, static_cast<std::int64_t>(elem_of(tensor.dtype())));
  if (!name.empty()) t.bytes(8, name);
  t.bytes(9, {reinterpret_cast<const char*>(tensor.data()), tensor.bytes()});
  return t;
}

Message info_message(const std::string& name, const Type& type) {
  Message shape;
  for (const Dim d : type.shape) {
    Message dim;
    if (const auto n = d.as_const())
      dim.number(1, *n);
    else
      dim.bytes(2, d.text());
    shape.message(1, dim);
  }
  Message tensor, wrapped, info;
  tensor.number(1, static_cast<std::int64_t>(elem_of(type.dtype))).message(2, shape);
  wrapped.message(1, tensor);
  return info.bytes(1, name).message(2, wrapped);
}

Message int_attribute(const char* name, std::int64_t value) {
  Message a;
  return a.bytes(1, name).number(3, value).number(20, 2);
}
Message ints_attribute(const char* name, const ops::Ints& values) {
  Message a;
  a.bytes(1, name);
  for (const std::int64_t v : values) a.number(8, v);
  return a.number(20, 7);
}
Message text_attribute(const std::string& name, const std::string& value) {
  Message a;
  return a.bytes(1, name).bytes(4, value).number(20, 3);
}

// Ops with the same operands and no attributes on both sides.
const std::map<std::string, const char*, std::less<>>& plain_ops() {
  static const std::map<std::string, const char*, std::less<>> names{
      {"add", "Add"},           {"sub", "Sub"},        {"mul", "Mul"},
      {"minimum", "Min"},       {"maximum", "Max"},    {"neg", "Neg"},
      {"abs", "Abs"},           {"sign", "Sign"},      {"exp", "Exp"},
      {"log", "Log"},           {"sqrt", "Sqrt"},      {"reciprocal", "Reciprocal"},
      {"sin", "Sin"},           {"cos", "Cos"},        {"tan", "Tan"},
      {"asin", "Asin"},         {"acos", "Acos"},      {"atan", "Atan"},
      {"sinh", "Sinh"},         {"cosh", "Cosh"},      {"tanh", "Tanh"},
      {"asinh", "Asinh"},       {"acosh", "Acosh"},    {"atanh", "Atanh"},
      {"sigmoid", "Sigmoid"},   {"erf", "Erf"},        {"floor", "Floor"},
      {"ceil", "Ceil"},         {"round", "Round"},    {"relu", "Relu"},
      {"is_nan", "IsNaN"},      {"is_inf", "IsInf"},   {"eq", "Equal"},
      {"lt", "Less"},           {"le", "LessOrEqual"}, {"gt", "Greater"},
      {"ge", "GreaterOrEqual"}, {"where", "Where"},    {"pow", "Pow"}};
  return names;
}

class Exporter {
 public:
  explicit Exporter(const Graph& graph) : graph_(graph) {}

  Exported run() {
    for (const auto& input : graph_.inputs()) {
      name_of(input.get());
      graph_message_.message(11, info_message(name_of(input.get()), input->type()));
    }
    for (const Node& node : graph_.nodes()) add(node);
    std::set<std::string> seen;
    for (const Value* output : graph_.outputs()) {
      // A value that is an output twice, or also an input, needs separate names.
      std::string name = name_of(output);
      if (output->is_input() || !seen.insert(name).second)
        name = emit("Identity", {name_of(output)});
      seen.insert(name);
      graph_message_.message(12, info_message(name, output->type()));
    }
    graph_message_.bytes(2, graph_.name());
    Message own, foreign, model;
    own.bytes(1, "").number(2, kOpset);
    foreign.bytes(1, "gex").number(2, 1);
    model.number(1, kIrVersion).bytes(2, "gex").message(7, graph_message_).message(8, own);
    if (!foreign_.empty()) model.message(8, foreign);
    return {model.text(), {foreign_.begin(), foreign_.end()}};
  }

 private:
  std::string fresh() { return str("v", next_++); }

  const std::string& name_of(const Value* value) {
    std::string& name = names_[value];
    if (!name.empty()) return name;
    name = value->is_input() && !value->name().empty() ? value->name() : fresh();
    while (!used_.insert(name).second) name = fresh();
    return name;
  }

  void node_message(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes,
                    const std::string& domain = "") {
    Message n;
    for (const auto& i : inputs) n.bytes(1, i);
    for (const auto& o : outputs) n.bytes(2, o);
    n.bytes(3, str(op, "_", next_node_++)).bytes(4, op);
    for (const Message& a : attributes) n.message(5, a);
    if (!domain.empty()) n.bytes(7, domain);
    graph_message_.message(1, n);
  }
  std::string emit(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Message>& attributes = {}) {
    std::string name = fresh();
    while (!used_.insert(name).second) name = fresh();
    node_message(op, inputs, {name}, attributes);
    return name;
  }
  // The node's only result.
  bool give(const Node& node, const std::string& op, const std::vector<std::string>& inputs,
            const std::vector<Message>& attributes = {}) {
    node_message(op, inputs, {name_of(node.output())}, attributes);
    return true;
  }
  std::string constant(const HostTensor& tensor) {
    const std::string name = fresh();
    graph_message_.message(5, tensor_message(name, tensor));
    return name;
  }
  std::string integers(const ops::Ints& values) {
    return constant(HostTensor::of_i64({static_cast<std::int64_t>(values.size())}, values));
  }
  std::string in(const Node& node, std::size_t k) { return name_of(node.input(k)); }

  static std::optional<ops::Ints> numbers(const ops::Dims& dims) {
    ops::Ints values;
    for (const Dim d : dims) {
      if (!d.is_const()) return std::nullopt;
      values.push_back(d.constant());
    }
    return values;
  }

  void add(const Node& node) {
    if (node.num_outputs() == 1 && node.subgraphs().empty() && known(node)) return;
    foreign_.insert(node.op().name);
    std::vector<std::string> inputs, outputs;
    for (const Value* input : node.inputs())
      inputs.push_back(input == nullptr ? "" : name_of(input));
    for (std::size_t k = 0; k < node.num_outputs(); ++k) outputs.push_back(name_of(node.output(k)));
    std::vector<Message> attributes;
    for (std::size_t k = 0; k < node.attrs().size(); ++k)
      attributes.push_back(text_attribute(node.op().attrs[k].name, attr_text(node.attrs()[k])));
    node_message(node.op().name, inputs, outputs, attributes, "gex");
  }

  bool known(const Node& node) {
    const std::string& op = node.op().name;
    if (const auto found = plain_ops().find(op); found != plain_ops().end()) {
      std::vector<std::string> inputs;
      for (std::size_t k = 0; k < node.inputs().size(); ++k) inputs.push_back(in(node, k));
      return give(node, found->second, inputs);
    }
    using Handler = bool (Exporter::*)(const Node&);
    static const std::map<std::string, Handler, std::less<>> handlers{
        {"constant", &Exporter::add_constant},
        {"full", &Exporter::add_full},
        {"cast", &Exporter::add_cast},
        {"reshape", &Exporter::add_reshape},
        {"expand", &Exporter::add_expand},
        {"transpose", &Exporter::add_transpose},
        {"slice", &Exporter::add_slice},
        {"cat", &Exporter::add_cat},
        {"pad", &Exporter::add_pad},
        {"matmul", &Exporter::add_matmul},
        {"conv2d", &Exporter::add_conv},
        {"softmax", &Exporter::add_softmax},
        {"log_softmax", &Exporter::add_softmax},
        {"div", &Exporter::add_div},
        {"iota", &Exporter::add_iota},
        {"index", &Exporter::add_index},
        {"bit_and", &Exporter::add_logic},
        {"bit_or", &Exporter::add_logic},
        {"bit_not", &Exporter::add_logic},
        {"silu", &Exporter::add_silu},
        {"reduce_sum", &Exporter::add_reduce},
        {"reduce_mean", &Exporter::add_reduce},
        {"reduce_max", &Exporter::add_reduce},
        {"reduce_min", &Exporter::add_reduce},
        {"argmax", &Exporter::add_arg},
        {"argmin", &Exporter::add_arg}};
    const auto found = handlers.find(op);
    return found != handlers.end() && (this->*found->second)(node);
  }

  bool add_constant(const Node& node) {
    graph_message_.message(5,
                           tensor_message(name_of(node.output()), *node.as<ops::Constant>().value));
    return true;
  }
  bool add_full(const Node& node) {
    const auto a = node.as<ops::Full>();
    const auto shape = numbers(a.shape);
    if (!shape) return false;
    const std::string value = constant(HostTensor::scalar(a.dtype, a.value));
    return give(node, "Expand", {value, integers(*shape)});
  }
  bool add_cast(const Node& node) {
    const DType t = node.as<ops::Cast>().dtype;
    return give(node, "Cast", {in(node, 0)}, {int_attribute("to", static_cast<int>(elem_of(t)))});
  }
  // At most one unknown size, derived from the others.
  bool add_reshape(const Node& node) {
    ops::Ints shape;
    int open = 0;
    for (const Dim d : node.as<ops::ToShape>().shape) {
      open += d.is_const() ? 0 : 1;
      shape.push_back(d.is_const() ? d.constant() : -1);
    }
    if (open > 1) return false;
    return give(node, "Reshape", {in(node, 0), integers(shape)}, {int_attribute("allowzero", 1)});
  }
  bool add_expand(const Node& node) {
    const auto shape = numbers(node.as<ops::ToShape>().shape);
    return shape && give(node, "Expand", {in(node, 0), integers(*shape)});
  }
  bool add_transpose(const Node& node) {
    return give(node, "Transpose", {in(node, 0)},
                {ints_attribute("perm", node.as<ops::Transpose>().perm)});
  }
  bool add_slice(const Node& node) {
    const auto a = node.as<ops::Slice>();
    const Shape& s = node.input(0)->type().shape;
    ops::Ints starts, ends, axes, steps;
    for (std::size_t d = 0; d < s.size(); ++d) {
      if (a.starts[d] == Dim(0) && a.steps[d] == 1 && a.sizes[d] == s[d]) continue;
      if (!a.starts[d].is_const() || !a.sizes[d].is_const() || a.steps[d] < 1) return false;
      starts.push_back(a.starts[d].constant());
      ends.push_back(starts.back() + a.sizes[d].constant() * a.steps[d]);
      axes.push_back(static_cast<std::int64_t>(d));
      steps.push_back(a.steps[d]);
    }
    return give(node, "Slice",
                {in(node, 0), integers(starts), integers(ends), integers(axes), integers(steps)});
  }
  bool add_cat(const Node& node) {
    std::vector<std::string> inputs;
    for (std::size_t k = 0; k < node.inputs().size(); ++k) inputs.push_back(in(node, k));
    return give(node, "Concat", inputs, {int_attribute("axis", node.as<ops::Axis>().axis)});
  }
  bool add_pad(const Node& node) {
    const auto a = node.as<ops::Pad>();
    auto low = numbers(a.low), high = numbers(a.high);
    if (!low || !high) return false;
    low->insert(low->end(), high->begin(), high->end());
    const std::string value = constant(HostTensor::scalar(node.output()->type().dtype, a.value));
    return give(node, "Pad", {in(node, 0), integers(*low), value});
  }
  bool add_matmul(const Node& node) {
    const bool widens = node.output()->type().dtype != node.input(0)->type().dtype;
    return !widens && give(node, "MatMul", {in(node, 0), in(node, 1)});
  }
  bool add_conv(const Node& node) {
    const auto a = node.as<ops::Conv>();
    if (a.wide && is_low_float(node.input(0)->type().dtype)) return false;
    ops::Ints pads = a.padding;
    pads.insert(pads.end(), a.padding.begin(), a.padding.end());
    return give(node, "Conv", {in(node, 0), in(node, 1)},
                {ints_attribute("strides", a.stride), ints_attribute("pads", pads),
                 ints_attribute("dilations", a.dilation), int_attribute("group", a.groups)});
  }
  bool add_softmax(const Node& node) {
    return give(node, node.is("softmax") ? "Softmax" : "LogSoftmax", {in(node, 0)},
                {int_attribute("axis", node.as<ops::Axis>().axis)});
  }
  bool add_div(const Node& node) {
    return gex::is_float(node.output()->type().dtype) &&
           give(node, "Div", {in(node, 0), in(node, 1)});
  }
  bool add_silu(const Node& node) {
    return give(node, "Mul", {in(node, 0), emit("Sigmoid", {in(node, 0)})});
  }
  bool add_iota(const Node& node) {
    const auto size = node.as<ops::OneDim>().size.as_const();
    if (!size || *size > 4096) return false;
    HostTensor values(DType::i64, {*size});
    for (std::int64_t k = 0; k < *size; ++k) values.set_int(k, k);
    return give(node, "Identity", {constant(values)});
  }
  bool add_index(const Node& node) {
    const auto axes = node.as<ops::Index>().axes;
    if (axes.size() != 1 || node.inputs().size() != 2) return false;
    return give(node, "Gather", {in(node, 0), in(node, 1)}, {int_attribute("axis", axes[0])});
  }
  bool add_logic(const Node& node) {
    const bool truth = node.output()->type().dtype == DType::boolean;
    if (node.is("bit_not")) return give(node, truth ? "Not" : "BitwiseNot", {in(node, 0)});
    const std::string op = node.is("bit_and") ? "And" : "Or";
    return give(node, truth ? op : "Bitwise" + op, {in(node, 0), in(node, 1)});
  }
  // Sums of integers are wider in gex.
  bool add_reduce(const Node& node) {
    static const std::map<std::string, const char*, std::less<>> names{
        {"reduce_sum", "ReduceSum"},
        {"reduce_mean", "ReduceMean"},
        {"reduce_max", "ReduceMax"},
        {"reduce_min", "ReduceMin"}};
    const auto a = node.as<ops::Reduce>();
    std::string x = in(node, 0);
    const DType t = node.output()->type().dtype;
    if (t != node.input(0)->type().dtype)
      x = emit("Cast", {x}, {int_attribute("to", static_cast<int>(elem_of(t)))});
    return give(
        node, names.at(node.op().name), {x, integers(a.axes)},
        {int_attribute("keepdims", a.keepdim ? 1 : 0), int_attribute("noop_with_empty_axes", 1)});
  }
  bool add_arg(const Node& node) {
    const auto a = node.as<ops::Reduce>();
    if (a.axes.size() != 1) return false;
    return give(node, node.is("argmax") ? "ArgMax" : "ArgMin", {in(node, 0)},
                {int_attribute("axis", a.axes[0]), int_attribute("keepdims", a.keepdim ? 1 : 0)});
  }

  const Graph& graph_;
  Message graph_message_;
  std::map<const Value*, std::string> names_;
  std::set<std::string> used_, foreign_;
  int next_ = 0, next_node_ = 0;
};

}  // namespace

Exported export_graph(const Graph& graph) { return Exporter(graph).run(); }

}  // namespace gex::onnx
