#pragma once
// Vectors of sizes as hash table keys.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.hpp"

namespace gex::runtime {

using SizeKey = std::vector<std::int64_t>;

struct SizeKeyHash {
  using is_transparent = void;
  std::size_t operator()(std::span<const std::int64_t> key) const {
    return hash_bytes(key.data(), key.size_bytes());
  }
};

struct SizeKeyEqual {
  using is_transparent = void;
  bool operator()(std::span<const std::int64_t> a, std::span<const std::int64_t> b) const {
    return std::ranges::equal(a, b);
  }
};

}  // namespace gex::runtime
