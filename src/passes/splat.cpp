#include "passes/splat.hpp"

#include "ops/attributes.hpp"

namespace gex::passes {

std::optional<double> splat(const Value* v) {
  const Node* node = v->producer();
  while (node != nullptr && node->op().has(Trait::view)) {
    v = node->input(0);
    node = v->producer();
  }
  if (node == nullptr) return std::nullopt;
  if (node->is("full")) return node->as<ops::Full>().value;
  if (node->is("constant")) {
    const HostTensor& tensor = *node->as<ops::Constant>().value;
    if (tensor.numel() == 1) return tensor.get(0);
  }
  return std::nullopt;
}

}  // namespace gex::passes
