// Strided memory: extents and copies.
#include <gtest/gtest.h>

#include "base/strided_copy.hpp"

namespace gex {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(StridedCopy, dense_strides) {
  EXPECT_EQ(dense_strides_of(Sizes{}), (Sizes{}));
  EXPECT_EQ(dense_strides_of(Sizes{2, 3, 4}), (Sizes{12, 4, 1}));
  EXPECT_EQ(dense_strides_of(Sizes{3, 0}), (Sizes{1, 1}));  // as PyTorch's
}

TEST(StridedCopy, extent_is_one_past_the_last_element) {
  EXPECT_EQ(extent_of(Sizes{}, Sizes{}), 1);
  EXPECT_EQ(extent_of(Sizes{2, 3}, Sizes{3, 1}), 6);
  EXPECT_EQ(extent_of(Sizes{2, 3}, Sizes{1, 2}), 6);
  EXPECT_EQ(extent_of(Sizes{2, 3}, Sizes{10, 1}), 13);
  EXPECT_EQ(extent_of(Sizes{5, 3}, Sizes{0, 1}), 3);
  EXPECT_EQ(extent_of(Sizes{5, 0}, Sizes{1, 1}), 0);
}

TEST(StridedCopy, copies_to_dense_memory) {
  const std::int32_t memory[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto* data = reinterpret_cast<const std::byte*>(memory);
  HostTensor transposed = dense_copy(DType::i32, Sizes{2, 3}, Sizes{1, 3}, data);
  EXPECT_EQ(transposed.shape(), (Sizes{2, 3}));
  for (std::int64_t row = 0; row < 2; ++row)
    for (std::int64_t column = 0; column < 3; ++column)
      EXPECT_EQ(transposed.get_int(row * 3 + column), row + column * 3);
  EXPECT_EQ(dense_copy(DType::i32, Sizes{2, 0}, Sizes{1, 1}, nullptr).numel(), 0);
  EXPECT_EQ(dense_copy(DType::i32, Sizes{}, Sizes{}, data + 4).get_int(0), 1);
}

}  // namespace
}  // namespace gex
