#include <gtest/gtest.h>

#include "base/dim.hpp"
#include "base/error.hpp"

namespace gex {
namespace {

TEST(Dim, SumsAreCanonical) {
  Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  EXPECT_EQ((a + b) - b, a);
  EXPECT_EQ(2 * (a + 1), 2 * a + 2);
}

TEST(Dim, LinearIndexOfAReshapeComesBack) {
  Dim A = Dim::symbol("A"), B = Dim::symbol("B"), C = Dim::symbol("C");
  Dim i = Dim::index("i", A), j = Dim::index("j", B), k = Dim::index("k", C);
  Dim linear = i * B * C + j * C + k;
  EXPECT_EQ(floordiv(i * B + j, B), i);
  EXPECT_EQ(mod(i * B + j, B), j);
  EXPECT_EQ(mod(linear, C), k);
  EXPECT_EQ(mod(floordiv(linear, C), B), j);
  EXPECT_EQ(floordiv(linear, B * C), i);
  EXPECT_EQ(floordiv(mod(linear, B * C), C), j);
}

}  // namespace
}  // namespace gex
