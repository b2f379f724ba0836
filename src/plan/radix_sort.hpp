#pragma once
// Values in the order of their keys, without comparisons: their outcome is what a processor can't
// guess.

#include <cstdint>
#include <span>
#include <vector>

namespace gex::plan {

// Descending by keys[value]; values with equal keys stay in their order. `spare` is room.
void sort_descending(std::span<const std::uint64_t> keys, std::vector<std::int32_t>& order,
                     std::vector<std::int32_t>& spare);

}  // namespace gex::plan
