#pragma once
// Gears: upper bounds of sizes, each served by one Capture for all smaller sizes. Results never
// depend on the gear: a call computes with its own sizes, only the offsets in the arena are those
// of the gear.

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
  // Throws UserError if a ladder has no rows, a row whose length differs from the number of
  // symbols, a size below 1, or a repeated row. `sizes_only`: values that no memory depends on are
  // left out of the key unless the policy is exact. `rule`: constraints of the device.
  Gears(const Image& image, GearOptions options, bool sizes_only, GearRule rule = {});

  // Clears the values of the key that no memory depends on, so that Captures differ only in sizes.
  void keep_sizes(std::span<std::int64_t> key) const;
  bool matters(std::size_t symbol) const { return matters_[symbol]; }
  // Rounds the sizes up to a gear. `captures`: how many exist so far. UserError if a size is not
  // allowed.
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
