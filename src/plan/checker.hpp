#pragma once
// Checks a placement: offsets are aligned and inside the arena, and no two values alive at the same
// time share a byte. Shares no code with the planner that it checks.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plan/lifetimes.hpp"

namespace gex::plan {

// Describes the first error, or returns nothing. `names` are used for values; without them numbers.
std::optional<std::string> find_overlap(std::span<const Interval> intervals,
                                        std::span<const std::int64_t> bytes,
                                        std::span<const std::int64_t> offsets, std::int64_t total,
                                        std::span<const std::string> names = {});

}  // namespace gex::plan
