#include "plan/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.hpp"
#include "plan/checker.hpp"

namespace gex::plan {
namespace {

TEST(Planner, textbook_case_reaches_the_lower_bound) {
  const std::vector<Interval> lives = {{1, 2}, {2, 4}, {3, 4}, {4, 5}, {5, 6}};
  const std::vector<std::int64_t> bytes = {1024, 2048, 1024, 512, 4096};
  const Placement placement = MemoryPlanner(lives).plan(bytes);
  EXPECT_EQ(placement.total, 4608);
  EXPECT_EQ(placement.lower_bound, 4608);
  EXPECT_EQ(find_overlap(lives, bytes, placement.offsets, placement.total), std::nullopt);
}

TEST(Planner, values_that_meet_at_one_position_do_not_share) {
  const std::vector<Interval> lives = {{0, 3}, {3, 5}, {4, 6}};
  const std::vector<std::int64_t> bytes = {100, 100, 100};
  for (Strategy strategy : kStrategies) {
    const Placement placement = MemoryPlanner(lives).plan(bytes, strategy);
    EXPECT_EQ(placement.total, 256) << name_of(strategy);
    EXPECT_NE(placement.offsets[0], placement.offsets[1]);
    EXPECT_EQ(placement.offsets[0], placement.offsets[2]);
  }
}

TEST(Planner, unused_and_empty_values_take_no_room) {
  const std::vector<Interval> lives = {{}, {0, 3}, {1, 2}};
  const std::vector<std::int64_t> bytes = {4096, 64, 0};
  for (Strategy strategy : kStrategies)
    EXPECT_EQ(MemoryPlanner(lives).plan(bytes, strategy).total, 64);
  EXPECT_EQ(MemoryPlanner().plan({}).total, 0);
}

TEST(Planner, more_memory_than_can_be_addressed_is_an_error) {
  const std::vector<Interval> lives = {{0, 1}};
  const std::vector<std::int64_t> bytes = {std::int64_t{1} << 40};
  EXPECT_THROW(MemoryPlanner(lives).plan(bytes), UserError);
}

struct Case {
  std::vector<Interval> lives;
  std::vector<std::int64_t> bytes;
};

// Mostly short lifetimes, a few long ones, sizes over several magnitudes with repeats: like a
// model.
Case random_case(unsigned seed, int count, int longest) {
  std::mt19937 random(seed);
  Case out;
  for (int i = 0; i < count; ++i) {
    const int first = i / 2;
    const int length =
        random() % 16 == 0 ? static_cast<int>(random() % 50) : static_cast<int>(random() % longest);
    out.lives.push_back({first, first + length});
    out.bytes.push_back(random() % 3 == 0
                            ? std::int64_t{65536}
                            : static_cast<std::int64_t>(random() % (1U << (random() % 20))));
  }
  std::shuffle(out.lives.begin(), out.lives.end(), random);
  return out;
}

TEST(Planner, random_lifetimes_never_overlap_under_any_strategy) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Case random =
        random_case(seed, 1 + static_cast<int>(seed), 1 + static_cast<int>(seed % 9));
    const MemoryPlanner planner(random.lives);
    std::int64_t smallest = -1;
    for (Strategy strategy : kStrategies) {
      const Placement placement = planner.plan(random.bytes, strategy);
      ASSERT_EQ(find_overlap(random.lives, random.bytes, placement.offsets, placement.total),
                std::nullopt)
          << name_of(strategy) << " seed " << seed;
      ASSERT_GE(placement.total, placement.lower_bound);
      if (smallest < 0 || placement.total < smallest) smallest = placement.total;
    }
    const Placement best = planner.plan(random.bytes);
    ASSERT_LE(best.total, std::max(smallest, best.lower_bound + best.lower_bound / 64))
        << "seed " << seed;
    ASSERT_EQ(find_overlap(random.lives, random.bytes, best.offsets, best.total), std::nullopt);
  }
}

TEST(Planner, many_neighbours_never_overlap_under_any_strategy) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const Case random = random_case(seed, 400, 150);
    const MemoryPlanner planner(random.lives);
    for (Strategy strategy : kStrategies) {
      const Placement placement = planner.plan(random.bytes, strategy);
      ASSERT_EQ(find_overlap(random.lives, random.bytes, placement.offsets, placement.total),
                std::nullopt)
          << name_of(strategy) << " seed " << seed;
      ASSERT_LE(planner.plan(random.bytes).total,
                std::max(placement.total, placement.lower_bound + placement.lower_bound / 64));
    }
  }
}

TEST(Planner, values_that_are_kept_apart_share_no_byte) {
  const std::vector<Interval> lives = {{0, 1}, {}, {2, 3}, {4, 5}};
  const std::vector<std::int64_t> bytes = {100, 100, 64, 1};
  const MemoryPlanner planner(lives);
  EXPECT_EQ(planner.plan(bytes).total, 128);
  const Placement apart = planner.plan(bytes, Strategy::apart);
  EXPECT_EQ(apart.total, 256);
  EXPECT_EQ(apart.lower_bound, 128);
  EXPECT_EQ(apart.offsets, (std::vector<std::int64_t>{0, 0, 128, 192}));
}

TEST(Planner, blame_reaches_bounds_that_single_orders_miss) {
  int better = 0, at_bound = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Case random = random_case(seed, 60, 8);
    const MemoryPlanner planner(random.lives);
    std::int64_t others = -1;
    for (Strategy strategy : {Strategy::by_start, Strategy::by_size, Strategy::by_area}) {
      const std::int64_t total = planner.plan(random.bytes, strategy).total;
      if (others < 0 || total < others) others = total;
    }
    const Placement blamed = planner.plan(random.bytes, Strategy::by_blame);
    ASSERT_EQ(find_overlap(random.lives, random.bytes, blamed.offsets, blamed.total), std::nullopt);
    better += blamed.total < others ? 1 : 0;
    at_bound += others > blamed.lower_bound && blamed.total == blamed.lower_bound ? 1 : 0;
  }
  std::printf("blame is smaller for %d of 200, and then at the bound for %d\n", better, at_bound);
  EXPECT_GT(better, 20);
  EXPECT_GT(at_bound, 5);
}

TEST(Planner, lower_bound_is_the_largest_sum_of_live_bytes) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Case random = random_case(seed, 60, 6);
    std::int64_t most = 0;
    for (int t = 0; t < 120; ++t) {
      std::int64_t live = 0;
      for (std::size_t i = 0; i < random.lives.size(); ++i)
        if (random.lives[i].first <= t && t <= random.lives[i].last)
          live += (random.bytes[i] + 63) / 64 * 64;
      most = std::max(most, live);
    }
    EXPECT_EQ(MemoryPlanner(random.lives).plan(random.bytes).lower_bound, most);
  }
}

TEST(Planner, the_same_sizes_give_the_same_plan) {
  const Case random = random_case(3, 500, 6);
  const MemoryPlanner planner(random.lives);
  EXPECT_EQ(planner.plan(random.bytes).offsets, planner.plan(random.bytes).offsets);
}

TEST(Planner, two_thousand_values_come_close_to_the_lower_bound) {
  const Case random = random_case(7, 2000, 5);
  const MemoryPlanner planner(random.lives);
  const auto start = std::chrono::steady_clock::now();
  const Placement placement = planner.plan(random.bytes);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  const double ratio =
      static_cast<double>(placement.total) / static_cast<double>(placement.lower_bound);
  std::printf("planned 2000 values in %.0f us, arena %.3f of the lower bound\n", took.count(),
              ratio);
  EXPECT_LE(ratio, 1.05);
}

// Few values that the simple orders place 6 to 14 % above the bound, as models had them: first and
// last position, and units of kAlignment.
TEST(Planner, finds_the_bound_where_simple_orders_miss_it) {
  struct Value {
    int first, last;
    std::int64_t units;
  };
  const std::vector<Value> programs[] = {
      {{0, 1, 128},   {1, 2, 128},   {3, 9, 128},   {4, 10, 128},  {5, 17, 128},  {6, 8, 1},
       {6, 8, 1},     {6, 7, 1},     {9, 45, 128},  {10, 46, 128}, {11, 12, 256}, {13, 31, 64},
       {14, 16, 1},   {14, 16, 1},   {14, 15, 1},   {17, 18, 128}, {18, 19, 128}, {20, 21, 128},
       {21, 21, 128}, {22, 22, 512}, {24, 25, 128}, {26, 29, 128}, {27, 30, 128}, {28, 33, 128},
       {29, 43, 128}, {30, 44, 128}, {31, 32, 256}, {33, 34, 128}, {34, 35, 128}, {36, 37, 128},
       {37, 37, 128}, {38, 38, 512}, {40, 41, 128}, {41, 41, 2}},
      {{0, 2, 1},    {0, 2, 1},     {0, 1, 1},    {3, 15, 24},  {3, 15, 24},   {4, 27, 96},
       {4, 5, 96},   {4, 26, 96},   {5, 14, 192}, {6, 15, 48},  {7, 9, 1},     {7, 9, 1},
       {7, 8, 1},    {10, 12, 1},   {10, 12, 1},  {10, 11, 1},  {13, 22, 96},  {14, 24, 96},
       {15, 19, 96}, {16, 22, 168}, {17, 30, 1},  {18, 22, 2},  {18, 21, 1},   {18, 21, 1},
       {18, 20, 1},  {23, 24, 32},  {24, 25, 96}, {25, 27, 96}, {26, 27, 384}, {27, 28, 96},
       {28, 29, 96}},
      {{0, 2, 1},    {0, 2, 1},    {0, 1, 1},     {3, 9, 12},   {3, 9, 12},
       {4, 21, 96},  {4, 5, 96},   {5, 18, 288},  {6, 10, 96},  {7, 11, 96},
       {8, 20, 96},  {9, 15, 96},  {12, 19, 168}, {13, 27, 1},  {14, 19, 2},
       {14, 17, 1},  {14, 17, 1},  {14, 16, 1},   {18, 19, 96}, {20, 21, 96},
       {21, 24, 96}, {22, 23, 96}, {23, 24, 192}, {24, 25, 96}, {25, 26, 96}},
  };
  for (const std::vector<Value>& values : programs) {
    std::vector<Interval> lives;
    std::vector<std::int64_t> bytes;
    for (const Value& value : values) {
      lives.push_back({value.first, value.last});
      bytes.push_back(value.units * kAlignment);
    }
    const MemoryPlanner planner(lives);
    for (Strategy simple : {Strategy::by_start, Strategy::by_size, Strategy::by_area})
      EXPECT_GT(planner.plan(bytes, simple).total, planner.plan(bytes).total);
    const Placement placement = planner.plan(bytes);
    EXPECT_EQ(placement.total, placement.lower_bound);
    EXPECT_EQ(find_overlap(lives, bytes, placement.offsets, placement.total), std::nullopt);
  }
}

TEST(Checker, sees_overlap_misalignment_and_overflow) {
  const std::vector<Interval> lives = {{0, 2}, {2, 3}};
  const std::vector<std::int64_t> bytes = {128, 64};
  const auto check = [&](std::int64_t a, std::int64_t b, std::int64_t total) {
    const std::vector<std::int64_t> offsets = {a, b};
    return find_overlap(lives, bytes, offsets, total).value_or("fine");
  };
  EXPECT_EQ(check(0, 128, 192), "fine");
  EXPECT_NE(check(0, 64, 192).find("both alive at position 2"), std::string::npos);
  EXPECT_NE(check(64, 64, 192).find("both alive"), std::string::npos);
  EXPECT_NE(check(0, 130, 256).find("multiple"), std::string::npos);
  EXPECT_NE(check(0, 128, 128).find("arena of 128"), std::string::npos);
}

}  // namespace
}  // namespace gex::plan
