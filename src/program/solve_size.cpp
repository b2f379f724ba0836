#include "program/solve_size.hpp"

#include <vector>

namespace gex::program {

std::optional<SizeOfSymbol> solve_size(Dim size) {
  std::vector<Dim> symbols;
  size.collect_symbols(symbols);
  if (symbols.size() != 1) return std::nullopt;
  const auto parts = affine_in(size, symbols[0]);
  if (!parts) return std::nullopt;
  const auto scale = parts->coefficient.as_const(), rest = parts->rest.as_const();
  if (!scale || *scale <= 0 || !rest) return std::nullopt;
  return SizeOfSymbol{symbols[0], *scale, *rest};
}

}  // namespace gex::program
