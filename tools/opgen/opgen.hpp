#pragma once
// What both languages need to know about an op's function.

#include <string>
#include <vector>

#include "ir/op_def.hpp"

namespace gex::opgen {

struct Attribute {
  const AttrField* field;
  bool required;  // its default is no value that an op could use: an empty list, a size
};

struct Function {
  const OpDef* op;
  std::vector<Attribute> attributes;  // required ones first
  bool alike;                         // plain numbers take the dtype of the tensors beside them

  bool takes_builder() const;  // no input that tells the graph
  bool is_variadic(std::size_t input) const;
  bool is_optional(std::size_t input) const;
};

// Ops with tensors alone: no control flow (written by hand), no effects, no calls of the host.
std::vector<Function> all_functions();

std::string cpp_text(const std::vector<Function>& functions);
std::string python_text(const std::vector<Function>& functions);

}  // namespace gex::opgen
