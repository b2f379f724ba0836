#pragma once
// Gives every value an offset in one arena so that values alive together never overlap. Several
// strategies run side by side and the smallest arena wins; a lower bound says how far from the best
// possible it is. Lifetimes are fixed at construction, only sizes change from key to key.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/lifetimes.hpp"

namespace gex::plan {

inline constexpr std::int64_t kAlignment = 64;

enum class Strategy : std::uint8_t {
  by_start,  // in order of birth, lowest hole that fits
  by_size,   // largest first, tightest hole that fits
  by_area,   // largest size * lifetime first, tightest hole that fits
  by_blame,  // again and again, each time with those first that stood too high the last time
  apart,     // no two values share a byte: only where it is asked for, to find who writes where
};
// Those that compete.
inline constexpr Strategy kStrategies[] = {Strategy::by_start, Strategy::by_size, Strategy::by_area,
                                           Strategy::by_blame};
std::string_view name_of(Strategy strategy);

struct Placement {
  std::vector<std::int64_t> offsets;  // by value, multiples of kAlignment
  std::int64_t total = 0;             // bytes of the arena
  std::int64_t lower_bound = 0;       // largest sum of bytes alive at one position
  Strategy strategy = Strategy::by_start;
};

class MemoryPlanner {
 public:
  MemoryPlanner() = default;
  // Values whose interval is unused get offset 0 and no room.
  explicit MemoryPlanner(std::vector<Interval> intervals);

  // The smallest of all strategies; by_blame runs only where the others are not within 1/64 of the
  // lower bound, since it takes as long as several of them.
  Placement plan(std::span<const std::int64_t> bytes) const;
  Placement plan(std::span<const std::int64_t> bytes, Strategy strategy) const;
  std::span<const Interval> intervals() const { return intervals_; }

 private:
  struct Scratch;
  void place(Strategy strategy, Scratch& scratch) const;
  void place_by_start(Scratch& scratch) const;
  void place_apart(Scratch& scratch) const;
  void place_in_order(Scratch& scratch) const;
  void place_by_blame(Scratch& scratch) const;
  void sort_by_keys(Scratch& scratch) const;
  std::int64_t lower_bound(const Scratch& scratch) const;

  std::vector<Interval> intervals_;
  std::vector<std::int32_t> by_first_;  // used values, sorted
  std::vector<std::int32_t> events_;    // births i and deaths ~i in order, up to the last birth
  // Who is alive together with value i: conflicts_[row_[i] .. row_[i + 1]). Empty when there are
  // too many to keep; then only by_start runs.
  std::vector<std::int32_t> row_, conflicts_;
};

}  // namespace gex::plan
