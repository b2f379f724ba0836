#pragma once
// + - * / on tensors and numbers, and Assign.

#include <type_traits>
#include <vector>

#include "gex/es/like.hpp"

namespace gex::es {

namespace detail {

inline EsTensorHolder Binary(const char* op, const EsTensorLike& a, const EsTensorLike& b) {
  return Op(op, {a, b}, {}, 1, true)[0];
}

// An empty holder is an absent input for ops, but not a valid operand.
inline const EsTensorHolder& Operand(const EsTensorHolder& holder) {
  Access::BuildingOf(holder);
  return holder;
}

template <class T>
const T& Operand(const T& number) {
  return number;
}

inline bool IsWhole(const EsTensorHolder& holder) { return !IsFloat(holder.dtype()); }
template <class T>
bool IsWhole(const T&) {
  return std::is_integral_v<T>;
}
template <class T>
bool IsWhole(const std::vector<T>&) {
  return std::is_integral_v<T>;
}

// Integers divide as in C++: towards zero, and % is the remainder with the sign of a. FloorDiv and
// Mod behave as in Python.
template <class A, class B>
EsTensorHolder Divide(const A& a, const B& b) {
  return Binary(IsWhole(a) && IsWhole(b) ? "trunc_div" : "div", a, b);
}

template <class T>
inline constexpr bool kIsHolder = std::is_same_v<T, EsTensorHolder>;
template <class T>
inline constexpr bool kIsNumbers = std::is_arithmetic_v<T>;
template <class T>
inline constexpr bool kIsNumbers<std::vector<T>> = std::is_arithmetic_v<T>;

// Two tensors, or a tensor and a number or a vector of numbers.
template <class A, class B>
using IfOperands = std::enable_if_t<
    (kIsHolder<A> && (kIsHolder<B> || kIsNumbers<B>)) || (kIsNumbers<A> && kIsHolder<B>), int>;

}  // namespace detail

// Shapes broadcast; operands of two dtypes are cast to the wider one. A plain number takes the
// tensor's dtype if that can hold its kind.
template <class A, class B, detail::IfOperands<A, B> = 0>
EsTensorHolder operator+(const A& a, const B& b) {
  return detail::Binary("add", detail::Operand(a), detail::Operand(b));
}
template <class A, class B, detail::IfOperands<A, B> = 0>
EsTensorHolder operator-(const A& a, const B& b) {
  return detail::Binary("sub", detail::Operand(a), detail::Operand(b));
}
template <class A, class B, detail::IfOperands<A, B> = 0>
EsTensorHolder operator*(const A& a, const B& b) {
  return detail::Binary("mul", detail::Operand(a), detail::Operand(b));
}
template <class A, class B, detail::IfOperands<A, B> = 0>
EsTensorHolder operator/(const A& a, const B& b) {
  return detail::Divide(detail::Operand(a), detail::Operand(b));
}
template <class A, class B, detail::IfOperands<A, B> = 0>
EsTensorHolder operator%(const A& a, const B& b) {
  return detail::Binary("fmod", detail::Operand(a), detail::Operand(b));
}
inline EsTensorHolder operator-(const EsTensorHolder& x) {
  return detail::Op("neg", {detail::Operand(x)}, {}, 1, true)[0];
}

// The variable holds `value` after each run. Nodes with a control edge from the result see it at
// once.
inline EsTensorHolder Assign(const EsTensorHolder& variable, const EsTensorLike& value) {
  const detail::BuildingPtr& building = detail::Access::BuildingOf(variable);
  const EsTensorHolder from = value.In(building, variable.dtype());
  gex_value assigned = GEX_NO_VALUE;
  detail::Check(gex_graph_assign(building->open(), variable.value(), from.value(), &assigned));
  return detail::Access::Holder(building, assigned);
}

}  // namespace gex::es
