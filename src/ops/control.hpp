#pragma once
// Attributes of control flow.

#include <cstdint>

#include "ops/core/attributes.hpp"

namespace gex::ops {

// while: how many of the inputs the body replaces.
struct While {
  std::int64_t carried = 0;
  static constexpr auto fields() { return std::tuple{field("carried", &While::carried)}; }
};

// for: so many of the inputs after start, limit and delta change from turn to turn.
struct For {
  std::int64_t carried = 0;
  static constexpr auto fields() { return std::tuple{field("carried", &For::carried)}; }
};

// bind: nodes behind it may use the symbol in their sizes.
struct Bind {
  Dim symbol = Dim::symbol("u");
  static constexpr auto fields() { return std::tuple{field("symbol", &Bind::symbol)}; }
};

}  // namespace gex::ops
