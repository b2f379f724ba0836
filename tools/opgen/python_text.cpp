#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "frontend/capi/spelling.hpp"
#include "opgen.hpp"

namespace gex::opgen {
namespace {

struct TypeOf {
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(std::int64_t) const { return "int"; }
  std::string operator()(double) const { return "float"; }
  std::string operator()(const std::string&) const { return "str"; }
  std::string operator()(DType) const { return "DTypeLike"; }
  std::string operator()(const Dim&) const { return "Size"; }
  std::string operator()(const std::vector<std::int64_t>&) const { return "Sequence[int]"; }
  std::string operator()(const std::vector<double>&) const { return "Sequence[float]"; }
  std::string operator()(const std::vector<Dim>&) const { return "Sequence[Size]"; }
  std::string operator()(const std::vector<std::string>&) const { return "Sequence[str]"; }
  std::string operator()(const TensorPtr&) const { return "TensorLike"; }
};

struct ValueOf {
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(double value) const {
    if (std::isfinite(value)) return attr_text(value);
    return str("float(\"", std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf", "\")");
  }
  std::string operator()(DType value) const {
    return str("DType.", value == DType::boolean ? "boolean" : name_of(value));
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string text;
    for (const T& value : list) text += (*this)(value) + ", ";
    return "(" + text.substr(0, text.size() - (list.size() > 1 ? 2 : 1)) + ")";
  }
  template <class T>
  std::string operator()(const T& value) const {
    return attr_text(AttrValue(value));
  }
};

// How an argument is passed to the builder.
struct GivenAs {
  const std::string& name;
  std::string operator()(DType) const { return "to_dtype(" + name + ")"; }
  template <class T>
  std::string operator()(const std::vector<T>&) const {
    return "list(" + name + ")";
  }
  std::string operator()(double) const { return "float(" + name + ")"; }
  template <class T>
  std::string operator()(const T&) const {
    return name;
  }
};

std::string safe(const std::string& name) {
  static const std::vector<std::string> words = {
      "and",  "as",     "assert", "def",    "del",   "else",  "for",      "from",  "global", "if",
      "in",   "is",     "lambda", "not",    "or",    "pass",  "print",    "raise", "return", "try",
      "with", "import", "while",  "except", "class", "break", "continue", "yield"};
  return std::find(words.begin(), words.end(), name) == words.end() ? name : name + "_";
}

std::string parameters_of(const Function& function) {
  std::vector<std::string> parameters;
  if (function.takes_builder()) parameters.push_back("owner_builder: EsGraphBuilder");
  const std::size_t inputs = function.op->inputs.size();
  // Only trailing optional inputs may be omitted.
  std::size_t first_default = inputs;
  while (first_default > 0 && function.is_optional(first_default - 1)) --first_default;
  for (std::size_t k = 0; k < inputs; ++k) {
    std::string text = safe(function.op->inputs[k].name) + ": ";
    text += function.is_variadic(k)   ? "Sequence[TensorLike]"
            : function.is_optional(k) ? "TensorLike | None"
                                      : "TensorLike";
    parameters.push_back(text + (k >= first_default ? " = None" : ""));
  }
  if (!function.attributes.empty()) parameters.push_back("*");
  for (const Attribute& attribute : function.attributes) {
    const AttrValue& value = attribute.field->default_value;
    std::string text = safe(attribute.field->name) + ": " + std::visit(TypeOf{}, value);
    parameters.push_back(attribute.required ? text : text + " = " + std::visit(ValueOf{}, value));
  }
  std::string text;
  for (const std::string& parameter : parameters) text += "    " + parameter + ",\n";
  return text;
}

std::string text_of(const Function& function) {
  const OpDef& op = *function.op;
  const std::string output = capi::es_name(op.name) + "Output";
  std::string text, result = "TensorHolder", before = "", after = "[0]";
  if (op.outputs.empty()) {
    result = "list[TensorHolder]";
    after.clear();
  } else if (op.outputs.size() > 1) {
    result = output;
    before = output + "(*";
    after = ")";
    text += "class " + output + "(NamedTuple):\n";
    for (const std::string& name : op.outputs) text += "    " + safe(name) + ": TensorHolder\n";
    text += "\n\n";
  }
  text += str("def ", safe(op.name), "(\n", parameters_of(function), ") -> ", result, ":\n");
  text += "    \"\"\"" + op.doc + "\"\"\"\n    attrs: dict[str, object] = {\n";
  for (const Attribute& attribute : function.attributes) {
    const std::string name = safe(attribute.field->name);
    text += str("        \"", attribute.field->name,
                "\": ", std::visit(GivenAs{name}, attribute.field->default_value), ",\n");
  }
  std::string operands;
  for (std::size_t k = 0; k < op.inputs.size(); ++k)
    operands += str(k ? ", " : "", function.is_variadic(k) ? "*" : "", safe(op.inputs[k].name));
  text +=
      str("    }\n    return ", before, "apply(\n        \"", op.name, "\", [", operands,
          "], attrs, ", op.outputs.empty() ? "None" : std::to_string(op.outputs.size()),
          ", alike=", function.alike ? "True" : "False",
          function.takes_builder() ? ", owner_builder=owner_builder" : "", "\n    )", after, "\n");
  return text;
}

}  // namespace

std::string python_text(const std::vector<Function>& functions) {
  std::string text =
      "\"\"\"Generated by gex_opgen from the op definitions: one function per op.\"\"\"\n\n"
      "from __future__ import annotations\n\n"
      "from collections.abc import Sequence\n"
      "from typing import NamedTuple\n\n"
      "from gex._gex import DType\n"
      "from gex.es.builder import EsGraphBuilder\n"
      "from gex.es.holder import TensorHolder, TensorLike, apply\n"
      "from gex.es.literals import DTypeLike, Size, to_dtype\n\n"
      "__all__ = [\n";
  for (const Function& function : functions) {
    if (function.op->outputs.size() > 1)
      text += "    \"" + capi::es_name(function.op->name) + "Output\",\n";
    text += "    \"" + safe(function.op->name) + "\",\n";
  }
  text += "]\n";
  for (const Function& function : functions) text += "\n\n" + text_of(function);
  return text;
}

}  // namespace gex::opgen
