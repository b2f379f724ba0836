#include "loop/scalar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "loop/philox.hpp"

namespace gex::loop {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, KnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::int64_t ints(Prim p, DType d, std::int64_t a, std::int64_t b = 0, std::int64_t c = 0) {
  return normalise(d, prim_function(p, d)({.i = a}, {.i = b}, {.i = c})).i;
}
double floats(Prim p, DType d, double a, double b = 0) {
  return normalise(d, prim_function(p, d)({.f = a}, {.f = b}, {.f = 0})).f;
}

TEST(Philox, ThePrimitivePicksAWordAndSplitsKeyAndCounter) {
  for (std::int64_t w = 0; w < 4; ++w) {
    auto words = philox4x32_10({7, 3, 0, 0}, {5, 9});
    EXPECT_EQ(ints(Prim::philox, DType::i64, 5 + (9LL << 32), 7 + (3LL << 32), w + 8), words[w]);
  }
}

TEST(Integers, DivisionNeverTraps) {
  auto lowest = std::numeric_limits<std::int64_t>::min();
  for (Prim p : {Prim::floordiv, Prim::truncdiv, Prim::mod, Prim::fmod}) {
    ints(p, DType::i64, 5, 0);
    ints(p, DType::i64, lowest, 0);
  }
  EXPECT_EQ(ints(Prim::truncdiv, DType::i64, lowest, -1), lowest);
  EXPECT_EQ(ints(Prim::floordiv, DType::i32, -2147483648LL, -1), -2147483648LL);
  EXPECT_EQ(ints(Prim::mod, DType::i64, lowest, -1), 0);
}

TEST(Integers, RoundingOfQuotients) {
  EXPECT_EQ(ints(Prim::floordiv, DType::i64, -7, 2), -4);
  EXPECT_EQ(ints(Prim::truncdiv, DType::i64, -7, 2), -3);
  EXPECT_EQ(ints(Prim::mod, DType::i64, -7, 2), 1);
  EXPECT_EQ(ints(Prim::mod, DType::i64, 7, -2), -1);
  EXPECT_EQ(ints(Prim::fmod, DType::i64, -7, 2), -1);
}

TEST(Integers, WrapInTheirOwnWidth) {
  EXPECT_EQ(ints(Prim::add, DType::i8, 127, 1), -128);
  EXPECT_EQ(ints(Prim::sub, DType::u8, 0, 1), 255);
  EXPECT_EQ(ints(Prim::mul, DType::i32, 65536, 65536), 0);
  EXPECT_EQ(ints(Prim::neg, DType::i16, -32768), -32768);
  EXPECT_EQ(ints(Prim::pow, DType::i32, 3, 20), 3486784401LL - 4294967296LL);
  EXPECT_EQ(ints(Prim::pow, DType::i64, 2, -1), 0);
  EXPECT_EQ(ints(Prim::shl, DType::i32, 1, 40), 0);
  EXPECT_EQ(ints(Prim::shr, DType::i64, -8, 100), -1);
}

TEST(Bools, AddIsOrMulIsAnd) {
  EXPECT_EQ(ints(Prim::add, DType::boolean, 1, 1), 1);
  EXPECT_EQ(ints(Prim::mul, DType::boolean, 1, 0), 0);
  EXPECT_EQ(ints(Prim::bit_not, DType::boolean, 1), 0);
}

TEST(Floats, NaNRules) {
  double nan = NAN;
  EXPECT_TRUE(std::isnan(floats(Prim::max, DType::f32, nan, 1)));
  EXPECT_TRUE(std::isnan(floats(Prim::min, DType::f32, 1, nan)));
  EXPECT_TRUE(std::isnan(floats(Prim::sign, DType::f32, nan)));
  ScalarValue n = {.f = nan}, one = {.f = 1};
  EXPECT_EQ(prim_function(Prim::ne, DType::f32)(n, n, n).i, 1);
  EXPECT_EQ(prim_function(Prim::eq, DType::f32)(n, n, n).i, 0);
  EXPECT_EQ(prim_function(Prim::ge, DType::f32)(n, one, n).i, 0);
}

TEST(Floats, QuotientsAsPythons) {
  EXPECT_EQ(floats(Prim::floordiv, DType::f32, -7, 2), -4);
  EXPECT_EQ(floats(Prim::mod, DType::f32, -7, 2), 1);
  EXPECT_EQ(floats(Prim::mod, DType::f32, 7, -2), -1);
  EXPECT_EQ(floats(Prim::fmod, DType::f32, -7, 2), -1);
  EXPECT_EQ(floats(Prim::truncdiv, DType::f32, -7, 2), -3);
  EXPECT_EQ(floats(Prim::floordiv, DType::f32, 1, 0), INFINITY);
  EXPECT_EQ(floats(Prim::round, DType::f32, 2.5), 2);
  EXPECT_EQ(floats(Prim::round, DType::f32, -1.5), -2);
}

TEST(Floats, LowFloatsRoundThroughF32) {
  EXPECT_EQ(floats(Prim::add, DType::f16, 2048, 1), 2048);
  EXPECT_EQ(floats(Prim::add, DType::bf16, 256, 1), 256);
  EXPECT_EQ(floats(Prim::mul, DType::f16, 60000, 2), INFINITY);
}

TEST(Conversions, TruncateWrapAndTestForZero) {
  auto to = [](double v, DType d) { return convert({.f = v}, DType::f32, d).i; };
  EXPECT_EQ(to(-2.9, DType::i32), -2);
  EXPECT_EQ(to(NAN, DType::boolean), 1);
  EXPECT_EQ(to(0.25, DType::boolean), 1);
  EXPECT_EQ(to(-0.0, DType::boolean), 0);
  to(1e30, DType::i64);  // unspecified, no trap
  to(NAN, DType::i8);
  // 2^24 + 1 + tiny: through double and then f32 it would round down.
  EXPECT_EQ(convert({.i = (1LL << 54) + (1LL << 30) + 1}, DType::i64, DType::f32).f,
            double(float((1LL << 54) + (1LL << 30) + 1)));
}

}  // namespace
}  // namespace gex::loop
