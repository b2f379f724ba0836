#include <cmath>

#include "base/error.hpp"
#include "frontend/capi/spelling.hpp"
#include "opgen.hpp"

namespace gex::opgen {
namespace {

struct TypeOf {
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(std::int64_t) const { return "std::int64_t"; }
  std::string operator()(double) const { return "double"; }
  std::string operator()(const std::string&) const { return "const std::string&"; }
  std::string operator()(DType) const { return "DType"; }
  std::string operator()(const Dim&) const { return "const Size&"; }
  std::string operator()(const std::vector<std::int64_t>&) const {
    return "const std::vector<std::int64_t>&";
  }
  std::string operator()(const std::vector<double>&) const { return "const std::vector<double>&"; }
  std::string operator()(const std::vector<Dim>&) const { return "const Shape&"; }
  std::string operator()(const std::vector<std::string>&) const {
    return "const std::vector<std::string>&";
  }
  std::string operator()(const TensorPtr&) const { return "const Tensor&"; }
};

struct ValueOf {
  std::string operator()(double value) const {
    if (std::isnan(value)) return "std::numeric_limits<double>::quiet_NaN()";
    if (std::isinf(value))
      return str(value < 0 ? "-" : "", "std::numeric_limits<double>::infinity()");
    return attr_text(value);
  }
  std::string operator()(DType value) const {
    return str("DType::", value == DType::boolean ? "boolean" : name_of(value));
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string text;
    for (const T& value : list) text += (text.empty() ? "" : ", ") + (*this)(value);
    return "{" + text + "}";
  }
  template <class T>
  std::string operator()(const T& value) const {
    return attr_text(AttrValue(value));
  }
};

std::string safe(const std::string& name) {
  for (const char* word : {"default", "new", "delete", "operator", "template", "float", "double",
                           "int", "bool", "long", "short", "signed", "unsigned", "union", "switch"})
    if (name == word) return name + "_";
  return name;
}

struct Parameter {
  std::string declaration, default_value;  // no default: empty
};

std::vector<Parameter> parameters_of(const Function& function) {
  std::vector<Parameter> parameters;
  if (function.takes_builder()) parameters.push_back({"EsGraphBuilder& builder", ""});
  for (std::size_t k = 0; k < function.op->inputs.size(); ++k) {
    const std::string name = safe(function.op->inputs[k].name);
    if (function.is_variadic(k))
      parameters.push_back({"const std::vector<EsTensorLike>& " + name, ""});
    else
      parameters.push_back(
          {"const EsTensorLike& " + name, function.is_optional(k) ? "nullptr" : ""});
  }
  for (const Attribute& attribute : function.attributes) {
    const AttrValue& value = attribute.field->default_value;
    parameters.push_back({std::visit(TypeOf{}, value) + " " + safe(attribute.field->name),
                          attribute.required ? "" : std::visit(ValueOf{}, value)});
  }
  // C++ requires defaults on all parameters after the first default.
  bool may = true;
  for (std::size_t k = parameters.size(); k-- > 0;) {
    if (parameters[k].default_value.empty()) may = false;
    if (!may) parameters[k].default_value.clear();
  }
  return parameters;
}

std::string operands_of(const Function& function) {
  std::string text;
  for (std::size_t k = 0; k < function.op->inputs.size(); ++k) {
    if (function.is_variadic(k)) continue;
    text += (text.empty() ? "" : ", ") + safe(function.op->inputs[k].name);
  }
  return "{" + text + "}";
}

std::string attributes_of(const Function& function) {
  std::string text;
  for (const Attribute& attribute : function.attributes) {
    const std::string& name = attribute.field->name;
    text += str(text.empty() ? "" : ", ", "{\"", name, "\", ", safe(name), "}");
  }
  return "{" + text + "}";
}

std::string call_of(const Function& function) {
  const std::size_t outputs = function.op->outputs.size();
  const std::string count = outputs == 0 ? "std::nullopt" : std::to_string(outputs);
  const std::string& name = function.op->name;
  std::string operands = operands_of(function);
  std::string text;
  if (!function.op->inputs.empty() && function.is_variadic(function.op->inputs.size() - 1)) {
    const std::string rest = safe(function.op->inputs.back().name);
    text += str("  std::vector<EsTensorLike> operands", operands, ";\n",
                "  operands.insert(operands.end(), ", rest, ".begin(), ", rest, ".end());\n");
    operands = "operands";
  }
  if (function.takes_builder())
    return str(text, "  auto results = builder.ApplyMany(\"", name, "\", {}, ",
               attributes_of(function), ", ", count, ");\n");
  return str(text, "  auto results = detail::Op(\"", name, "\", ", operands, ", ",
             attributes_of(function), ", ", count, ", ", function.alike ? "true" : "false", ");\n");
}

std::string text_of(const Function& function) {
  const OpDef& op = *function.op;
  const std::string name = capi::es_name(op.name);
  std::string text, result = "EsTensorHolder", give = "results[0]";
  if (op.outputs.empty()) {
    result = "std::vector<EsTensorHolder>";
    give = "results";
  } else if (op.outputs.size() > 1) {
    result = name + "Output";
    give.clear();
    text += "struct " + result + " {\n";
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      text += "  EsTensorHolder " + safe(op.outputs[k]) + ";\n";
      give += str(k ? ", " : "", "results[", k, "]");
    }
    text += "};\n";
    give = "{" + give + "}";
  }
  text += "// " + op.doc + "\ninline " + result + " " + name + "(";
  const char* separator = "";
  for (const Parameter& parameter : parameters_of(function)) {
    text += separator + parameter.declaration;
    if (!parameter.default_value.empty()) text += " = " + parameter.default_value;
    separator = ", ";
  }
  return text + ") {\n" + call_of(function) + "  return " + give + ";\n}\n";
}

}  // namespace

std::string cpp_text(const std::vector<Function>& functions) {
  std::string text =
      "#pragma once\n"
      "// Generated by gex_opgen from the op definitions: one function per op.\n\n"
      "#include <cstdint>\n#include <limits>\n#include <optional>\n#include <string>\n"
      "#include <vector>\n\n"
      "#include \"gex/es/builder.hpp\"\n#include \"gex/es/like.hpp\"\n\n"
      "namespace gex::es {\n\n";
  for (const Function& function : functions) text += text_of(function) + "\n";
  return text + "}  // namespace gex::es\n";
}

}  // namespace gex::opgen
