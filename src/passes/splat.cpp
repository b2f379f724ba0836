#include "passes/splat.hpp"

#include <cstring>

#include "ops/core/attributes.hpp"

namespace gex::passes {
namespace {

// Larger constants are not inspected: they are weights.
constexpr std::int64_t kMostElements = 4096;

bool all_equal(const HostTensor& tensor) {
  const std::size_t size = size_of(tensor.dtype());
  for (std::int64_t k = 1; k < tensor.numel(); ++k)
    if (std::memcmp(tensor.data(), tensor.data() + static_cast<std::size_t>(k) * size, size) != 0)
      return false;
  return true;
}

// The element that all elements equal, in the constant's dtype.
std::optional<HostTensor> element_of(const Node& node) {
  const DType dtype = node.output()->type().dtype;
  if (node.is("full")) return HostTensor::scalar(dtype, node.as<ops::Full>().value);
  if (!node.is("constant")) return std::nullopt;
  const HostTensor& tensor = *node.as<ops::Constant>().value;
  if (tensor.numel() == 0 || tensor.numel() > kMostElements || !all_equal(tensor))
    return std::nullopt;
  return HostTensor::from_bytes(dtype, {}, tensor.data());
}

}  // namespace

std::optional<double> splat(const Value* v) {
  const Node* node = v->producer();
  while (node != nullptr && node->op().has(Trait::view)) {
    v = node->input(0);
    node = v->producer();
  }
  if (node == nullptr) return std::nullopt;
  if (node->is("full")) return node->as<ops::Full>().value;
  if (std::optional<HostTensor> element = element_of(*node)) return element->get(0);
  return std::nullopt;
}

std::optional<HostTensor> constant_value(const Value& v) {
  const Node* node = v.producer();
  if (node == nullptr) return std::nullopt;
  if (node->is("constant")) return *node->as<ops::Constant>().value;
  if (!node->is("full")) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (Dim size : v.type().shape) {
    if (!size.is_const()) return std::nullopt;
    shape.push_back(size.constant());
  }
  HostTensor tensor(v.type().dtype, std::move(shape));
  const double value = node->as<ops::Full>().value;
  for (std::int64_t k = 0; k < tensor.numel(); ++k) tensor.set(k, value);
  return tensor;
}

bool same_constant(const Node& a, const Node& b) {
  const Type &one = a.output()->type(), &other = b.output()->type();
  if (one.dtype != other.dtype || one.shape != other.shape) return false;
  if (a.is("constant") && b.is("constant"))
    return *a.as<ops::Constant>().value == *b.as<ops::Constant>().value;
  const std::optional<HostTensor> x = element_of(a), y = element_of(b);
  return x && y && *x == *y;
}

}  // namespace gex::passes
