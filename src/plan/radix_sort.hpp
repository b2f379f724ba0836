#pragma once
// Sorts values by key without comparisons, which avoids mispredicted branches.

#include <cstdint>
#include <span>
#include <vector>

namespace gex::plan {

// Descending by keys[value], stable. `spare` is scratch memory.
void sort_descending(std::span<const std::uint64_t> keys, std::vector<std::int32_t>& order,
                     std::vector<std::int32_t>& spare);

}  // namespace gex::plan
