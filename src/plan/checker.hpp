#pragma once
// Proves a placement: aligned, inside the arena, and no two values alive together share a byte.
// Shares no code with the planner that it judges.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plan/lifetimes.hpp"

namespace gex::plan {

// What is wrong, in words, or nothing. Values are called by `names`, or by number without them.
std::optional<std::string> find_overlap(std::span<const Interval> intervals,
                                        std::span<const std::int64_t> bytes,
                                        std::span<const std::int64_t> offsets, std::int64_t total,
                                        std::span<const std::string> names = {});

}  // namespace gex::plan
