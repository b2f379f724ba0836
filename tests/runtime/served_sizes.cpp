// The sizes that a Capture remembers: bounded, and the right ones.

#include "runtime/capture/served_sizes.hpp"

#include <gtest/gtest.h>

#include "runtime/capture/capture.hpp"

namespace gex::runtime {
namespace {

const auto kGeneric = std::make_shared<const CodeTable>();

SizeKey key(std::size_t size) { return {static_cast<std::int64_t>(size)}; }

std::shared_ptr<Served> call(ServedSizes& sizes, std::size_t size) {
  std::shared_ptr<Served> served = sizes.find(key(size));
  return served ? served : sizes.admit(key(size), kGeneric);
}

// Sizes 0 to 63 have specialised code.
void fill_with_code(ServedSizes& sizes) {
  for (std::size_t size = 0; size < ServedSizes::kWithOwnCode; ++size) {
    const std::shared_ptr<Served> served = call(sizes, size);
    ASSERT_TRUE(sizes.reserve_own_code(*served));
    served->code =
        std::make_shared<const CodeTable>(CodeTable{std::vector<program::Callable>(1), {}});
  }
}

TEST(ServedSizes, find_returns_admitted_sizes) {
  ServedSizes sizes;
  EXPECT_EQ(sizes.find(key(7)), nullptr);
  const auto served = sizes.admit(key(7), kGeneric);
  EXPECT_EQ(served->code, kGeneric);
  sizes.admit(key(8), kGeneric);
  EXPECT_EQ(sizes.find(key(7)), served);
  EXPECT_EQ(sizes.find(key(9)), nullptr);
}

TEST(ServedSizes, beyond_the_limit_the_least_recently_used_are_evicted) {
  ServedSizes sizes;
  for (std::size_t size = 0; size < ServedSizes::kCounted; ++size) call(sizes, size);
  const auto oldest = sizes.find(key(0));
  const auto next = sizes.find(key(1));
  call(sizes, 1000);  // 2 is evicted
  EXPECT_EQ(sizes.find(key(2)), nullptr);
  EXPECT_EQ(sizes.find(key(0)), oldest);
  EXPECT_EQ(sizes.find(key(1)), next);
}

TEST(ServedSizes, sizes_with_code_are_not_evicted_for_one_off_sizes) {
  ServedSizes sizes;
  fill_with_code(sizes);
  for (std::size_t size = 1000; size < 1000 + 2 * ServedSizes::kCounted; ++size) call(sizes, size);
  for (std::size_t size = 0; size < ServedSizes::kWithOwnCode; ++size) {
    const auto served = sizes.find(key(size));
    ASSERT_NE(served, nullptr);
    EXPECT_NE(served->code, kGeneric);
  }
}

TEST(ServedSizes, code_in_use_is_kept) {
  ServedSizes sizes;
  fill_with_code(sizes);
  // 100 sizes in rotation: 36 have no specialised code.
  for (int round = 0; round < 50; ++round)
    for (std::size_t size = 0; size < 100; ++size) {
      const auto served = call(sizes, size);
      if (served->has_own_code) continue;
      EXPECT_FALSE(sizes.reserve_own_code(*served)) << size;
    }
  for (std::size_t size = 0; size < 100; ++size)
    EXPECT_EQ(call(sizes, size)->has_own_code, size < ServedSizes::kWithOwnCode);
}

TEST(ServedSizes, unused_code_is_replaced) {
  ServedSizes sizes;
  fill_with_code(sizes);
  const auto oldest = sizes.find(key(0));
  for (std::size_t size = 1; size < ServedSizes::kWithOwnCode; ++size) sizes.find(key(size));
  const auto other = call(sizes, 100);
  EXPECT_FALSE(sizes.reserve_own_code(*other));
  for (std::int64_t n = 0; n < ServedSizes::kUnused; ++n) sizes.find(key(100));
  EXPECT_TRUE(sizes.reserve_own_code(*other));
  EXPECT_TRUE(other->has_own_code);
  EXPECT_FALSE(oldest->has_own_code);
  EXPECT_EQ(oldest->code, kGeneric);
}

TEST(ServedSizes, evicted_sizes_get_no_code) {
  ServedSizes sizes;
  const auto forgotten = call(sizes, 0);
  for (std::size_t size = 1; size <= ServedSizes::kCounted; ++size) call(sizes, size);
  EXPECT_FALSE(sizes.reserve_own_code(*forgotten));
  EXPECT_TRUE(sizes.reserve_own_code(*call(sizes, 1)));
}

}  // namespace
}  // namespace gex::runtime
