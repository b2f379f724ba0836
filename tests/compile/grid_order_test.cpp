// The order of grid axes: neighbouring points of the last one are neighbours in memory.

#include "lower/grid_order.hpp"

#include <gtest/gtest.h>

namespace gex::lower {
namespace {

std::string axes_of(std::string_view text) {
  loop::Kernel kernel = loop::parse_kernel(text);
  order_grid(kernel);
  std::string names;
  for (const loop::Range& r : kernel.grid) names += r.name();
  return names;
}

TEST(GridOrder, ChannelsThatAreLastInMemoryAreLast) {
  EXPECT_EQ(axes_of("kernel k(x: in f32[2, 64, 9, 8]{4608, 1, 512, 64},"
                    "y: out f32[2, 64, 9, 8]{4608, 1, 512, 64})"
                    "grid(n < 2, c < 64, h < 9, w < 8) { stage {"
                    "v = load x[n, c, h, w]\n store y[n, c, h, w] = v } }"),
            "nhwc");
}

TEST(GridOrder, StaysWhereAnotherOrderIsNoBetter) {
  // A change of layout: one of both is apart along any axis.
  EXPECT_EQ(axes_of("kernel k(x: in f32[2, 64, 9, 8]{4608, 1, 512, 64}, y: out f32[2, 64, 9, 8])"
                    "grid(n < 2, c < 64, h < 9, w < 8) { stage {"
                    "v = load x[n, c, h, w]\n store y[n, c, h, w] = v } }"),
            "nchw");
  EXPECT_EQ(axes_of("kernel k(x: in f32[8, 9], y: out f32[8, 9]) grid(i < 8, j < 9) { stage {"
                    "v = load x[i, j]\n store y[i, j] = v } }"),
            "ij");
}

TEST(GridOrder, ShortAxesDoNotFillVectors) {
  EXPECT_EQ(axes_of("kernel k(x: in f32[3, 90]{1, 3}, y: out f32[3, 90]{1, 3})"
                    "grid(c < 3, w < 90) { stage {"
                    "v = load x[c, w]\n store y[c, w] = v } }"),
            "cw");
}

}  // namespace
}  // namespace gex::lower
