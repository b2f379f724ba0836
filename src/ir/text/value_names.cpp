#include "ir/text/value_names.hpp"

#include "ir/text/text.hpp"

namespace gex {

ValueNames::ValueNames(const Graph& graph) {
  for (const auto& input : graph.inputs()) define(*input);
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.num_outputs(); ++i) define(*node.output(i));
}

const std::string& ValueNames::of(const Value& value) const {
  static const std::string elsewhere = "<of another graph>";
  const auto it = names_.find(&value);
  return it == names_.end() ? elsewhere : it->second;
}

void ValueNames::define(const Value& value) {
  std::string name = value.name().empty() ? std::to_string(next_++) : unique(value.name());
  names_.emplace(&value, std::move(name));
}

std::string ValueNames::unique(std::string name) {
  for (char& c : name)
    if (!is_identifier(std::string{'_', c})) c = '_';
  if (!is_identifier(name)) name.insert(name.begin(), '_');
  while (!taken_.insert(name).second) name = name + "_" + std::to_string(++copies_[name]);
  return name;
}

}  // namespace gex
