#pragma once
// EsTensorLike: what ops accept as a tensor.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/es/node.hpp"

namespace gex::es {

// A holder, nothing (an absent optional input), or numbers that become a constant.
class EsTensorLike {
 public:
  EsTensorLike(std::nullptr_t = nullptr) {}                                    // NOLINT
  EsTensorLike(const EsTensorHolder& holder) : holder_(holder) {}              // NOLINT
  EsTensorLike(Tensor tensor) : constant_(std::move(tensor)), exact_(true) {}  // NOLINT
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  EsTensorLike(T number) : constant_(Of({}, std::vector<T>{number})) {}  // NOLINT
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  EsTensorLike(const std::vector<T>& values)  // NOLINT
      : constant_(Of({static_cast<std::int64_t>(values.size())}, values)) {}

  const EsTensorHolder& holder() const { return holder_; }
  bool is_constant() const { return constant_.has_value(); }
  // The holder, or a new constant in the graph of `building`. Numbers take the dtype of `beside` if
  // it can hold their kind; otherwise they are i64, f32 or bool.
  EsTensorHolder In(const detail::BuildingPtr& building, std::optional<DType> beside) const {
    if (!constant_) return holder_;
    return detail::AddConstant(building, *constant_, DTypeBeside(beside));
  }

 private:
  template <class T>
  static Tensor Of(std::vector<std::int64_t> shape, const std::vector<T>& values) {
    using Element =
        std::conditional_t<std::is_same_v<T, bool>, bool,
                           std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>>;
    return Tensor::Of<Element>(std::move(shape),
                               std::vector<Element>(values.begin(), values.end()));
  }
  DType DTypeBeside(std::optional<DType> beside) const {
    const DType own = constant_->dtype();
    if (exact_ || own == DType::boolean) return own;
    if (own == DType::i64) return !beside || *beside == DType::boolean ? DType::i64 : *beside;
    return beside && IsFloat(*beside) ? *beside : DType::f32;
  }

  EsTensorHolder holder_;
  std::optional<Tensor> constant_;
  bool exact_ = false;  // keep the dtype of the tensor
};

namespace detail {

// Adds a node in the graph of its operands. `alike`: numbers take the dtype of the tensors.
inline std::vector<EsTensorHolder> Op(const std::string& op,
                                      const std::vector<EsTensorLike>& operands, const Attrs& attrs,
                                      std::optional<std::size_t> result_count, bool alike) {
  BuildingPtr building;
  std::optional<DType> dtype;
  for (const EsTensorLike& operand : operands) {
    if (operand.holder().empty()) continue;
    if (!building) building = Access::BuildingOf(operand.holder());
    if (!dtype || *dtype == DType::boolean) dtype = operand.holder().dtype();
  }
  if (!building)
    throw Error(GEX_INVALID_ARGUMENT,
                op + ": no operand is a tensor, so its graph is unknown; make one of "
                     "them with CreateConst");
  if (!alike) dtype.reset();
  std::vector<EsTensorHolder> inputs;
  for (const EsTensorLike& operand : operands) inputs.push_back(operand.In(building, dtype));
  return AddNode(building, op, inputs, attrs, result_count);
}

}  // namespace detail

}  // namespace gex::es
