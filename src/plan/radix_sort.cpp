#include "plan/radix_sort.hpp"

#include <array>
#include <bit>
#include <utility>

namespace gex::plan {

// One byte at a time, over the bits that differ.
void sort_descending(std::span<const std::uint64_t> keys, std::vector<std::int32_t>& order,
                     std::vector<std::int32_t>& spare) {
  constexpr int kBits = 8, kMost = 64 / kBits;
  constexpr std::uint64_t kMask = (1 << kBits) - 1;
  std::uint64_t all_or = 0, all_and = ~std::uint64_t{0};
  for (std::int32_t i : order) {
    all_or |= keys[static_cast<std::size_t>(i)];
    all_and &= keys[static_cast<std::size_t>(i)];
  }
  const std::uint64_t differs = order.empty() ? 0 : all_or ^ all_and;
  std::array<int, kMost> shifts;
  int digits = 0;
  for (int shift = std::countr_zero(differs); shift < 64; shift += kBits)
    if ((differs >> shift & kMask) != 0) shifts[static_cast<std::size_t>(digits++)] = shift;
  // All digits are counted in one pass: separate passes would stall on repeated digits.
  std::array<std::array<std::int32_t, kMask + 1>, kMost> counts;
  const auto used = std::span(counts).first(static_cast<std::size_t>(digits));
  for (auto& count : used) count.fill(0);
  for (std::int32_t i : order)
    for (std::size_t d = 0; d < used.size(); ++d)
      ++used[d][keys[static_cast<std::size_t>(i)] >> shifts[d] & kMask];
  spare.resize(order.size());
  for (std::size_t d = 0; d < used.size(); ++d) {
    std::int32_t before = 0;
    for (std::size_t digit = used[d].size(); digit-- > 0;)
      before += std::exchange(used[d][digit], before);
    for (std::int32_t i : order) {
      const std::size_t digit = keys[static_cast<std::size_t>(i)] >> shifts[d] & kMask;
      spare[static_cast<std::size_t>(used[d][digit]++)] = i;
    }
    order.swap(spare);
  }
}

}  // namespace gex::plan
