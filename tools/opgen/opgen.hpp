#pragma once
// Properties of an op's function that both languages need.

#include <string>
#include <vector>

#include "ir/op_def.hpp"

namespace gex::opgen {

struct Attribute {
  const AttrField* field;
  bool required;  // its default is not usable by an op: an empty list, a size
};

struct Function {
  const OpDef* op;
  std::vector<Attribute> attributes;  // required ones first
  bool alike;                         // plain numbers take the dtype of the tensor operands

  bool takes_builder() const;  // no input determines the graph
  bool is_variadic(std::size_t input) const;
  bool is_optional(std::size_t input) const;
};

// Ops with tensors only: no control flow (written by hand), no effects, no host calls.
std::vector<Function> all_functions();

std::string cpp_text(const std::vector<Function>& functions);
std::string python_text(const std::vector<Function>& functions);

}  // namespace gex::opgen
