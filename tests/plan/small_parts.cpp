// The planner's inner loops against plain code.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/radix_sort.hpp"
#include "plan/tightest_hole.hpp"

namespace gex::plan {
namespace {

std::uint32_t plain_tightest_hole(std::vector<std::uint64_t> around, std::uint32_t size) {
  std::sort(around.begin(), around.end());
  std::uint32_t top = 0, best = 0, best_room = ~std::uint32_t{0};
  bool found = false;
  for (const std::uint64_t value : around) {
    const std::uint32_t begin = begin_of(value);
    const std::uint32_t room = begin > top ? begin - top : 0;
    if (room >= std::max(size, 1U) && room < best_room) {
      best = top;
      best_room = room;
      found = true;
    }
    top = std::max(top, end_of(value));
  }
  return found ? best : top;
}

TEST(TightestHole, finds_the_tightest_hole_for_any_number_of_neighbours) {
  std::mt19937 random(1);
  for (std::size_t count = 0; count < 300; ++count) {
    std::vector<std::uint64_t> around(count);
    for (std::uint64_t& value : around) {
      const std::uint32_t begin = random() % 2000;
      value = pack(begin, begin + random() % 12);
    }
    const std::uint32_t size = random() % 9;
    const std::uint32_t want = plain_tightest_hole(around, size);
    around.resize(words_for(count));
    EXPECT_EQ(tightest_hole_between(around.data(), static_cast<int>(count), size), want) << count;
  }
}

TEST(RadixSort, sorts_by_any_bits_and_is_stable) {
  std::mt19937_64 random(1);
  std::vector<std::int32_t> spare;
  for (const std::uint64_t bits :
       {std::uint64_t{0}, std::uint64_t{0x30}, std::uint64_t{0xffff00}, ~std::uint64_t{0}}) {
    for (const std::int32_t count : {0, 1, 2, 500}) {
      std::vector<std::uint64_t> keys;
      std::vector<std::int32_t> order;
      for (std::int32_t i = 0; i < count; ++i) {
        keys.push_back((random() & bits) | 1);
        if (i % 5 != 0) order.push_back(i);  // not every value is asked for
      }
      std::vector<std::int32_t> want = order;
      std::stable_sort(want.begin(), want.end(), [&](std::int32_t a, std::int32_t b) {
        return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
      });
      sort_descending(keys, order, spare);
      EXPECT_EQ(order, want) << bits << ", " << count;
    }
  }
}

}  // namespace
}  // namespace gex::plan
