#include "frontend/capi/promote.hpp"

#include <optional>

#include "ops/build.hpp"

namespace gex::capi {

std::vector<Value*> promoted(Graph& graph, const OpDef& op, std::vector<Value*> operands) {
  if (!op.has(Trait::elementwise) || operands.size() != op.inputs.size()) return operands;
  // A condition chooses between the others and takes no part.
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

}  // namespace gex::capi
