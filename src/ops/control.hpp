#pragma once
// Attributes of control flow.

#include <cstdint>

#include "ops/core/attributes.hpp"

namespace gex::ops {

// while: the number of inputs that the body replaces.
struct While {
  std::int64_t carried = 0;
  static constexpr auto fields() { return std::tuple{field("carried", &While::carried)}; }
};

// for: the number of inputs after start, limit and delta that change from iteration to iteration.
struct For {
  std::int64_t carried = 0;
  static constexpr auto fields() { return std::tuple{field("carried", &For::carried)}; }
};

// bind: later nodes may use the symbol in their sizes.
struct Bind {
  Dim symbol = Dim::symbol("u");
  static constexpr auto fields() { return std::tuple{field("symbol", &Bind::symbol)}; }
};

}  // namespace gex::ops
