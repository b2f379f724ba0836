#pragma once
// Gears: upper sizes that one Capture serves for all smaller ones. What a run computes never
// depends on the gear: sizes are those of the call, only the places in the arena are the gear's.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/dim/dim.hpp"
#include "runtime/capture/gear_options.hpp"
#include "runtime/device.hpp"
#include "runtime/session/image.hpp"

namespace gex::runtime {

class Gears {
 public:
  // UserError if a ladder has no rows, one of other length than its symbols, a size below 1, or the
  // same row twice.
  // `sizes_only`: values that no memory depends on are left out of the key, unless it is to be
  // exact. `rule`: what the device adds to the policy.
  Gears(const Image& image, GearOptions options, bool sizes_only, GearRule rule = {});

  // What tells Captures apart: a key without the values that no memory depends on.
  void keep_sizes(std::span<std::int64_t> key) const;
  bool matters(std::size_t symbol) const { return matters_[symbol]; }
  // Rounds the sizes up. `captures`: made so far. UserError for a size that is refused.
  void round_up(std::span<std::int64_t> key, std::int64_t captures) const;

 private:
  struct Rows {
    std::vector<std::size_t> symbols;  // input symbols
    const std::vector<std::vector<std::int64_t>>* sizes;
  };
  void round_up(const Rows& rows, std::span<std::int64_t> key) const;
  void round_up_by_policy(std::span<std::int64_t> key, std::int64_t captures) const;
  bool is_exact(std::size_t symbol) const { return !rule_.exact.empty() && rule_.exact[symbol]; }

  const GearOptions options_;
  const GearRule rule_;
  std::vector<bool> matters_;     // by input symbol
  std::vector<DimRange> ranges_;  // by input symbol
  std::vector<Rows> listed_;
};

}  // namespace gex::runtime
