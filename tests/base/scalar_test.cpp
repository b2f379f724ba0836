// Element types, half conversions, host tensors, errors, hashes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/half.hpp"
#include "base/log.hpp"
#include "base/tensor.hpp"

namespace gex {
namespace {

// A 16-bit format, rounded in double arithmetic only: exact, slow, obviously right.
struct Format {
  int mantissa_bits;
  int max_exponent;
  std::uint16_t (*from)(float);
  float (*to)(std::uint16_t);

  int min_exponent() const { return 1 - max_exponent; }
  double round(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    int exponent = std::max(std::ilogb(x), min_exponent());
    double step = std::ldexp(1.0, exponent - mantissa_bits);
    double rounded = std::nearbyint(x / step) * step;  // the default mode is to nearest even
    double limit = std::ldexp(1.0, max_exponent + 1);
    return std::abs(rounded) >= limit ? std::copysign(HUGE_VAL, x) : rounded;
  }
};

const Format kF16{10, 15, f32_to_f16, f16_to_f32};
const Format kBf16{7, 127, f32_to_bf16, bf16_to_f32};

double decode(const Format& f, std::uint16_t bits) {
  int exponent_mask = 2 * f.max_exponent + 1;
  int exponent = (bits >> f.mantissa_bits) & exponent_mask;
  int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == exponent_mask) return mantissa ? NAN : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, f.min_exponent() - f.mantissa_bits);
  int whole = mantissa + (1 << f.mantissa_bits);
  return sign * std::ldexp(whole, exponent - f.max_exponent - f.mantissa_bits);
}

class Half : public testing::TestWithParam<const Format*> {};
INSTANTIATE_TEST_SUITE_P(Formats, Half, testing::Values(&kF16, &kBf16),
                         [](const auto& info) { return info.param == &kF16 ? "f16" : "bf16"; });

TEST_P(Half, EveryValueDecodesAndComesBack) {
  const Format& f = *GetParam();
  for (int i = 0; i < 65536; ++i) {
    auto bits = static_cast<std::uint16_t>(i);
    double expected = decode(f, bits);
    float got = f.to(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << i;
      ASSERT_TRUE(std::isnan(f.to(f.from(got)))) << i;
      continue;
    }
    ASSERT_EQ(got, expected) << i;
    ASSERT_EQ(std::signbit(got), std::signbit(expected)) << i;
    ASSERT_EQ(f.from(got), bits) << i;
  }
}

TEST_P(Half, RoundsToNearestEvenAroundEveryValue) {
  const Format& f = *GetParam();
  for (int i = 0; i < 65536; ++i) {
    float value = f.to(static_cast<std::uint16_t>(i));
    float next = f.to(static_cast<std::uint16_t>(i + 1));
    if (!std::isfinite(value) || !std::isfinite(next) || i == 0x7fff) continue;
    auto middle = static_cast<float>((double{value} + double{next}) / 2);
    for (float x : {middle, std::nextafterf(middle, value), std::nextafterf(middle, next),
                    std::nextafterf(value, next), std::nextafterf(next, value)}) {
      float got = f.to(f.from(x));
      ASSERT_EQ(got, f.round(x)) << x;
      ASSERT_EQ(std::signbit(got), std::signbit(x)) << x;
    }
  }
}

TEST_P(Half, RandomBitsRoundAsInDoubleArithmetic) {
  const Format& f = *GetParam();
  std::mt19937 random(7);
  for (int i = 0; i < 300000; ++i) {
    auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(f.to(f.from(x))));
    } else {
      ASSERT_EQ(f.to(f.from(x)), f.round(x)) << x;
    }
  }
}

TEST_P(Half, EndsOfTheRange) {
  const Format& f = *GetParam();
  EXPECT_EQ(f.to(f.from(HUGE_VALF)), HUGE_VALF);
  EXPECT_EQ(f.to(f.from(-HUGE_VALF)), -HUGE_VALF);
  EXPECT_EQ(f.to(f.from(std::numeric_limits<float>::max())), HUGE_VALF);
  EXPECT_EQ(f.from(-0.0f), 0x8000);
  auto payload_in_the_lowest_bit = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(f.to(f.from(payload_in_the_lowest_bit))));
}

TEST(DTypes, NamesAndSizes) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    auto d = static_cast<DType>(i);
    names.insert(name_of(d));
    EXPECT_EQ(dtype_from_name(name_of(d)), d);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kDTypeCount));
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(compute_type(DType::bf16), DType::f32);
}

TEST(DTypes, PromotionIsPyTorchsTable) {
  // torch.promote_types(row, column), both in the order of the enum.
  const char* table[] = {
      "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64",         // f64
      "f64 f32 f32 f32 f32 f32 f32 f32 f32 f32",         // f32
      "f64 f32 f16 f32 f16 f16 f16 f16 f16 f16",         // f16
      "f64 f32 f32 bf16 bf16 bf16 bf16 bf16 bf16 bf16",  // bf16
      "f64 f32 f16 bf16 i64 i64 i64 i64 i64 i64",        // i64
      "f64 f32 f16 bf16 i64 i32 i32 i32 i32 i32",        // i32
      "f64 f32 f16 bf16 i64 i32 i16 i16 i16 i16",        // i16
      "f64 f32 f16 bf16 i64 i32 i16 i8 i16 i8",          // i8
      "f64 f32 f16 bf16 i64 i32 i16 i16 u8 u8",          // u8
      "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool",         // bool
  };
  for (int a = 0; a < kDTypeCount; ++a) {
    std::istringstream row(table[a]);
    for (int b = 0; b < kDTypeCount; ++b) {
      std::string expected;
      row >> expected;
      EXPECT_EQ(name_of(promote(static_cast<DType>(a), static_cast<DType>(b))), expected)
          << static_cast<DType>(a) << " with " << static_cast<DType>(b);
    }
  }
}

TEST(HostTensor, HoldsValuesOfEveryDType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    HostTensor t(static_cast<DType>(i), {2, 3});
    EXPECT_EQ(t.numel(), 6);
    EXPECT_EQ(t.bytes(), 6 * size_of(t.dtype()));
    EXPECT_EQ(t.get(5), 0);
    t.set(5, 1);
    t.set_int(4, 1);
    EXPECT_EQ(t.get(5), 1);
    EXPECT_EQ(t.get_int(4), 1);
    EXPECT_EQ(t.get(3), 0);
  }
  EXPECT_EQ(HostTensor::scalar(DType::f16, 65520).get(0), HUGE_VAL);
  EXPECT_EQ(HostTensor::scalar(DType::i32, -2.9).get_int(0), -2);
  EXPECT_EQ(HostTensor::scalar(DType::boolean, 0.5).get_int(0), 1);
  EXPECT_EQ(HostTensor::scalar(DType::i64, NAN).get_int(0), INT64_MIN);
  HostTensor t(DType::f32, {1});
  t.set_int(0, (std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1);  // rounded twice: too small
  EXPECT_EQ(t.get(0), 0x1p54 + 0x1p31);
}

TEST(HostTensor, EqualityAndHashAreByContent) {
  const float values[] = {1, 2, 3, 4};
  HostTensor a = HostTensor::of({2, 2}, values), b = HostTensor::of({2, 2}, values);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a.hash(), HostTensor::of({4}, values).hash());
  b.set(3, 5);
  EXPECT_NE(a, b);
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_EQ(HostTensor::from_bytes(DType::f32, {2, 2}, a.data()), a);
  EXPECT_EQ(HostTensor(), HostTensor(DType::f32, {}));
}

TEST(HostTensor, BadShapesAndCountsAreUserErrors) {
  EXPECT_THROW(HostTensor(DType::f32, {2, -1}), UserError);
  EXPECT_THROW(HostTensor(DType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40}), UserError);
  try {
    HostTensor(DType::f32, {4, std::int64_t{1} << 58});
    FAIL() << "no machine has 2^62 bytes";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_STREQ(
        error.what(),
        "out of memory: 4611686018427387904 bytes for a tensor f32[4, 288230376151711744]");
  }
  EXPECT_EQ(HostTensor(DType::f32, {0, std::int64_t{1} << 40, std::int64_t{1} << 40}).numel(), 0);
  const std::int64_t values[] = {1, 2, 3};
  EXPECT_THROW(HostTensor::of_i64({2}, values), UserError);
  EXPECT_THROW((void)HostTensor::of_i64({3}, values).get(3), InternalError);
}

TEST(Errors, HaveCodeAndLocation) {
  try {
    fail(ErrorCode::shape_mismatch, "sizes ", 3, " and ", 4);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::shape_mismatch);
    EXPECT_STREQ(e.what(), "sizes 3 and 4");
  }
  try {
    GEX_CHECK(1 + 1 == 3, "sum is ", 2);
    FAIL();
  } catch (const InternalError& e) {
    std::string what = e.what();
    EXPECT_NE(what.find("tests/base/scalar_test.cpp:"), std::string::npos) << what;
    EXPECT_NE(what.find("1 + 1 == 3: sum is 2"), std::string::npos) << what;
    EXPECT_EQ(what.find("at /"), std::string::npos) << what;
    EXPECT_EQ(e.code(), ErrorCode::internal);
  }
  EXPECT_STREQ(to_string(ErrorCode::out_of_memory), "out_of_memory");
}

TEST(Log, WritesOnlyMessagesOfTheLevel) {
  set_log_level(LogLevel::info);
  testing::internal::CaptureStderr();
  log(LogArea::code, LogLevel::info, "compiled ", 3, " kernels");
  log(LogArea::code, LogLevel::debug, "not seen");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "gex info: code: compiled 3 kernels\n");
  set_log_level(LogLevel::warning);
}

TEST(Log, LevelsAreSetByArea) {
  EXPECT_TRUE(set_log_levels(" fuse=debug, info,,cache=error").empty());
  EXPECT_EQ(log_level(LogArea::fuse), LogLevel::debug);
  EXPECT_EQ(log_level(LogArea::cache), LogLevel::error);
  for (LogArea other : {LogArea::capture, LogArea::onnx, LogArea::tune})
    EXPECT_EQ(log_level(other), LogLevel::info);
  set_log_level(LogLevel::warning);
  EXPECT_EQ(log_level(LogArea::fuse), LogLevel::warning);
}

TEST(Log, UnknownNamesAreReportedWithTheNearestOneAndTheRestCounts) {
  const std::vector<std::string> problems =
      set_log_levels("fusse=debug,infos,tune=debug,fuse=loud");
  EXPECT_EQ(log_level(LogArea::tune), LogLevel::debug);
  EXPECT_EQ(log_level(LogArea::fuse), LogLevel::warning);
  set_log_level(LogLevel::warning);
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0],
            "GEX_LOG: 'fusse=debug' has no effect: the area must be cache, capture, code, compile, "
            "fuse, onnx, passes, run, serve, torch or tune; did you mean 'fuse'?");
  EXPECT_EQ(problems[1],
            "GEX_LOG: 'infos' has no effect: the level must be error, warning, info or debug; did "
            "you mean 'info'?");
  EXPECT_EQ(problems[2],
            "GEX_LOG: 'fuse=loud' has no effect: the level must be error, warning, info or debug");
}

TEST(Hashes, DependOnEveryByteAndTheLength) {
  std::set<Hash> seen;
  std::string text(40, 'a');
  seen.insert(hash_text(text));
  for (char& c : text) {
    c = 'b';
    EXPECT_TRUE(seen.insert(hash_text(text)).second);
    c = 'a';
  }
  for (std::size_t n = 0; n < 40; ++n) {
    EXPECT_TRUE(seen.insert(hash_text(std::string(n, '\0'))).second);
  }
  EXPECT_NE(hash_text("x", 1), hash_text("x", 2));
}

}  // namespace
}  // namespace gex
