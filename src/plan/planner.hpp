#pragma once
// Assigns every value an offset in one arena so that values alive at the same time never overlap.
// Several strategies are tried and the smallest arena wins; a lower bound tells how far it is from
// the optimum. Lifetimes are fixed at construction, only sizes change between keys.

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
  by_blame,  // repeatedly; each round first places the values that ended above the lower bound
  apart,     // no memory is shared; only on request, to find out-of-bounds writes
};
// The strategies that plan() tries.
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
  // Values with an unused interval get offset 0 and no memory.
  explicit MemoryPlanner(std::vector<Interval> intervals);

  // The smallest result of all strategies; by_blame runs only if the others are not within 1/64 of
  // the lower bound, because it takes as long as several of them.
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
  // Values alive at the same time as value i: conflicts_[row_[i] .. row_[i + 1]). Empty if there
  // are too many to store; then only by_start runs.
  std::vector<std::int32_t> row_, conflicts_;
};

}  // namespace gex::plan
