#include "frontend/capi/operands.hpp"

#include <algorithm>
#include <optional>

#include "ops/core/build.hpp"

namespace gex::capi {

std::vector<Value*> promoted(Graph& graph, const OpDef& op, std::vector<Value*> operands) {
  if (!op.has(Trait::elementwise) || operands.size() != op.inputs.size()) return operands;
  // A condition selects between the others and is not promoted.
  const auto takes_part = [&](std::size_t k) {
    return operands[k] != nullptr && !operands[k]->type().is_token() &&
           op.inputs[k].name != "condition";
  };
  std::optional<DType> common;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!takes_part(k)) continue;
    const DType dtype = operands[k]->type().dtype;
    common = common ? promote(*common, dtype) : dtype;
  }
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (takes_part(k)) operands[k] = ops::cast(graph, operands[k], *common);
  return operands;
}

void count_axes_from_start(const OpDef& op, const std::vector<Value*>& operands,
                           std::vector<std::pair<std::string, AttrValue>>& attrs) {
  const bool known = !operands.empty() && operands[0] != nullptr && !operands[0]->type().is_token();
  if (!known) return;
  const std::int64_t rank = operands[0]->type().rank();
  const auto from_start = [&](std::int64_t& axis) {
    if (axis < 0 && axis >= -rank) axis += rank;
  };
  const bool folds = std::any_of(op.attrs.begin(), op.attrs.end(),
                                 [](const AttrField& field) { return field.name == "keepdim"; });
  for (auto& [name, value] : attrs) {
    if (auto* axis = std::get_if<std::int64_t>(&value); axis != nullptr && name == "axis")
      from_start(*axis);
    auto* axes = std::get_if<std::vector<std::int64_t>>(&value);
    if (axes == nullptr || (name != "axes" && name != "perm")) continue;
    for (std::int64_t& axis : *axes) from_start(axis);
    if (folds && name == "axes") std::sort(axes->begin(), axes->end());
  }
}

}  // namespace gex::capi
