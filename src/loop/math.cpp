// Names, arities and typing of the scalar primitives.

#include <array>

#include "loop/functions.hpp"
#include "loop/scalar.hpp"

namespace gex::loop {
namespace {

enum class Result : std::uint8_t { same, boolean, i64 };
enum class Operands : std::uint8_t { any, numbers, floats, bits, integers, i64 };
enum class PrimKind : std::uint8_t { instruction, function, generator };
enum class Rounding : std::uint8_t { exact, own };
enum class Commutes : std::uint8_t { always, integers, never };
struct PrimInfo {
  std::string_view name;
  int arity;
  Result result;
  Operands operands;
  PrimKind kind;
  int cost;
  Rounding rounding;
  Commutes commutes;
};
constexpr PrimInfo kPrims[] = {
#define GEX_PRIM(name, arity, result, operands, kind, cost, rounding, commutes, doc) \
  {#name,          arity, Result::result,     Operands::operands,                    \
   PrimKind::kind, cost,  Rounding::rounding, Commutes::commutes},
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
  switch (info(prim).operands) {
    case Operands::any:
      return true;
    case Operands::numbers:
      return d != DType::boolean;
    case Operands::floats:
      return is_float(d);
    case Operands::bits:
      return !is_float(d);
    case Operands::integers:
      return is_int(d);
    case Operands::i64:
      return d == DType::i64;
  }
  return false;
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

bool is_function(Prim prim) { return info(prim).kind == PrimKind::function; }
int cost_of(Prim prim) { return info(prim).cost; }
bool is_exact(Prim prim) { return info(prim).rounding == Rounding::exact; }

bool is_commutative(Prim prim, DType operand) {
  const Commutes commutes = info(prim).commutes;
  return commutes == Commutes::always || (commutes == Commutes::integers && !is_float(operand));
}

}  // namespace gex::loop
