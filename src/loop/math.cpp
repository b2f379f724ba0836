// Names, arities and typing of the scalar primitives.

#include <array>

#include "loop/functions.hpp"
#include "loop/scalar.hpp"

namespace gex::loop {
namespace {

enum class Result : std::uint8_t { same, boolean, i64 };
struct PrimInfo {
  std::string_view name;
  int arity;
  Result result;
};
constexpr PrimInfo kPrims[] = {
#define GEX_PRIM(name, arity, result, doc) {#name, arity, Result::result},
#include "loop/math.def"
};

const PrimInfo& info(Prim prim) { return kPrims[static_cast<std::size_t>(prim)]; }

}  // namespace

int arity_of(Prim prim) { return info(prim).arity; }
std::string_view name_of(Prim prim) { return info(prim).name; }

std::optional<Prim> prim_from_name(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kPrims); ++i)
    if (kPrims[i].name == name) return static_cast<Prim>(i);
  return std::nullopt;
}

bool accepts(Prim prim, DType d) {
  switch (prim) {
    case Prim::select:
    case Prim::add:
    case Prim::mul:
    case Prim::min:
    case Prim::max:
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
    case Prim::gt:
    case Prim::ge:
      return true;
    case Prim::sub:
    case Prim::floordiv:
    case Prim::mod:
    case Prim::truncdiv:
    case Prim::fmod:
    case Prim::pow:
    case Prim::neg:
    case Prim::abs:
    case Prim::sign:
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
      return d != DType::boolean;
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::bit_not:
      return !is_float(d);
    case Prim::shl:
    case Prim::shr:
      return is_int(d);
    case Prim::philox:
      return d == DType::i64;
    default:
      return is_float(d);
  }
}

std::optional<DType> result_dtype(Prim prim, std::span<const DType> operands) {
  if (static_cast<int>(operands.size()) != arity_of(prim)) return std::nullopt;
  auto values = operands;
  if (prim == Prim::select) {
    if (operands[0] != DType::boolean) return std::nullopt;
    values = operands.subspan(1);
  }
  for (DType d : values)
    if (d != values[0] || !accepts(prim, d)) return std::nullopt;
  switch (info(prim).result) {
    case Result::same:
      return values[0];
    case Result::boolean:
      return DType::boolean;
    case Result::i64:
      return DType::i64;
  }
  return std::nullopt;
}

bool is_function(Prim prim) {
  switch (prim) {
    case Prim::pow:
    case Prim::atan2:
    case Prim::exp:
    case Prim::exp2:
    case Prim::expm1:
    case Prim::log:
    case Prim::log2:
    case Prim::log10:
    case Prim::log1p:
    case Prim::sin:
    case Prim::cos:
    case Prim::tan:
    case Prim::asin:
    case Prim::acos:
    case Prim::atan:
    case Prim::sinh:
    case Prim::cosh:
    case Prim::tanh:
    case Prim::sigmoid:
    case Prim::erf:
      return true;
    default:
      return false;
  }
}

bool is_exact(Prim prim) {
  return !is_function(prim) && prim != Prim::rsqrt && prim != Prim::floordiv && prim != Prim::mod;
}

bool is_commutative(Prim prim, DType operand) {
  switch (prim) {
    case Prim::add:
    case Prim::mul:
    case Prim::eq:
    case Prim::ne:
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
      return true;
    case Prim::min:
    case Prim::max:  // for +0 and -0 backends may return the first
      return !is_float(operand);
    default:
      return false;
  }
}

}  // namespace gex::loop
