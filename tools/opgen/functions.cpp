#include <algorithm>

#include "opgen.hpp"

namespace gex::opgen {
namespace {

struct IsEmpty {
  template <class T>
  bool operator()(const std::vector<T>& list) const {
    return list.empty();
  }
  bool operator()(const Dim&) const { return true; }
  bool operator()(const TensorPtr&) const { return true; }
  template <class T>
  bool operator()(const T&) const {
    return false;
  }
};

bool is_plain(const OpDef& op) {
  return !op.has(Trait::control) && !op.has(Trait::effect) && op.step == StepKind::none;
}

Function function_of(const OpDef& op) {
  Function function{&op, {}, op.has(Trait::elementwise) || op.problem != nullptr};
  for (const AttrField& field : op.attrs)
    function.attributes.push_back({&field, std::visit(IsEmpty{}, field.default_value)});
  std::stable_partition(function.attributes.begin(), function.attributes.end(),
                        [](const Attribute& attribute) { return attribute.required; });
  return function;
}

}  // namespace

bool Function::takes_builder() const {
  return std::none_of(op->inputs.begin(), op->inputs.end(), [](const InputSpec& input) {
    return input.arity != InputSpec::Arity::optional;
  });
}
bool Function::is_variadic(std::size_t input) const {
  return op->inputs[input].arity == InputSpec::Arity::variadic;
}
bool Function::is_optional(std::size_t input) const {
  return op->inputs[input].arity == InputSpec::Arity::optional;
}

std::vector<Function> all_functions() {
  std::vector<Function> functions;
  for (const OpDef* op : all_ops())
    if (is_plain(*op)) functions.push_back(function_of(*op));
  return functions;
}

}  // namespace gex::opgen
