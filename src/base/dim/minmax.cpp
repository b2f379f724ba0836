// min and max: flattened, sorted, without redundant operands.
#include <algorithm>

#include "base/dim/node.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;

void flatten(Kind kind, Dim d, std::vector<Dim>& out) {
  if (d.kind() != kind) {
    out.push_back(d);
    return;
  }
  for (Dim operand : d.operands()) flatten(kind, operand, out);
}

Dim extreme(Kind kind, Dim a, Dim b) {
  if (a == b) return a;
  std::vector<Dim> all;
  flatten(kind, a, all);
  flatten(kind, b, all);
  std::ranges::sort(all, content_less);
  auto duplicates = std::ranges::unique(all);
  all.erase(duplicates.begin(), duplicates.end());
  // x is redundant if another y always wins; of two equal ones the later is removed.
  auto wins = [&](Dim y, Dim x) {
    return kind == Kind::min ? known_le(y, x) == true : known_le(x, y) == true;
  };
  std::vector<Dim> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j < all.size() && !beaten; ++j) {
      beaten = j != i && wins(all[j], all[i]) && (j < i || !wins(all[i], all[j]));
    }
    if (!beaten) kept.push_back(all[i]);
  }
  Dim result = kept.back();
  for (std::size_t i = kept.size() - 1; i-- > 0;) result = DimFactory::atom(kind, kept[i], result);
  return result;
}

}  // namespace

Dim min(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::min, a, b, [&] { return extreme(Kind::min, a, b); });
}

Dim max(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::max, a, b, [&] { return extreme(Kind::max, a, b); });
}

}  // namespace gex
