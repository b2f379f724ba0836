#pragma once
// The type of a Value: dtype, symbolic sizes, and strides if they are not dense row-major.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/dim/dim.hpp"
#include "base/dtype.hpp"

namespace gex {

using Shape = std::vector<Dim>;

struct Type {
  enum class Kind : std::uint8_t { tensor, token };  // a token represents order, not data

  Kind kind = Kind::tensor;
  DType dtype = DType::f32;
  Shape shape;
  // In elements; only for values whose memory layout is promised to the outside (graph inputs and
  // outputs, operands and results of calls). nullopt: dense row-major.
  std::optional<std::vector<Dim>> strides;

  static Type tensor(DType dtype, Shape shape) {
    return {Kind::tensor, dtype, std::move(shape), {}};
  }
  static Type token() { return {Kind::token, DType::boolean, {}, {}}; }
  bool is_token() const { return kind == Kind::token; }
  int rank() const { return static_cast<int>(shape.size()); }
  Dim numel() const { return product(shape); }
  Dim bytes() const { return numel() * Dim(static_cast<std::int64_t>(size_of(dtype))); }

  bool operator==(const Type&) const = default;
  std::string text() const;  // "f32[s0, 128]", "f32[4, 8]{1, 4}" with strides, "token"
};

std::vector<Dim> dense_strides(const Shape& shape);
std::string text_of(const Shape& shape);  // "[s0, 128]"
inline std::ostream& operator<<(std::ostream& out, const Type& t) { return out << t.text(); }

// PyTorch's broadcasting of two shapes, right-aligned. Sizes that can't be proved equal are assumed
// equal if neither can be 1 (the front end guards them). UserError(shape_mismatch) names both.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op_name);

}  // namespace gex
