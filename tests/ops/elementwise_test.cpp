#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/half.hpp"
#include "run.hpp"

namespace gex {
namespace {

using namespace test;
using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

HostTensor unary(const char* op, const HostTensor& x) {
  return run_one([&](Graph& g, auto& v) { return ops::apply(g, op, {v[0]}); }, {x});
}
HostTensor binary(const char* op, const HostTensor& a, const HostTensor& b) {
  return run_one([&](Graph& g, auto& v) { return ops::apply(g, op, {v[0], v[1]}); }, {a, b});
}

TEST(Elementwise, BroadcastsFromTheRight) {
  const auto r = binary("add", f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30}));
  EXPECT_EQ(r.shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(values(r), (Values{11, 21, 31, 12, 22, 32}));
}

TEST(Elementwise, WorksOnScalarsAndEmptyTensors) {
  EXPECT_EQ(values(binary("mul", f32({}, {3}), f32({}, {4}))), (Values{12}));
  const auto r = binary("add", f32({0, 3}, {}), f32({3}, {1, 2, 3}));
  EXPECT_EQ(r.shape(), (std::vector<std::int64_t>{0, 3}));
}

TEST(Elementwise, RejectsShapesThatDoNotBroadcastNamingBoth) {
  try {
    binary("add", f32({2}, {1, 2}), f32({3}, {1, 2, 3}));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::shape_mismatch);
    EXPECT_NE(std::string(e.what()).find("[2]"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("[3]"), std::string::npos) << e.what();
  }
}

TEST(Elementwise, RejectsMixedDtypes) {
  EXPECT_THROW(binary("add", f32({1}, {1}), i64({1}, {1})), UserError);
  EXPECT_THROW(unary("exp", i64({1}, {1})), UserError);
}

TEST(Elementwise, DivisionAndRemainderFollowPython) {
  const auto a = i64({4}, {7, -7, 7, -7}), b = i64({4}, {2, 2, -2, -2});
  EXPECT_EQ(values(binary("floor_div", a, b)), (Values{3, -4, -4, 3}));
  EXPECT_EQ(values(binary("trunc_div", a, b)), (Values{3, -3, -3, 3}));
  EXPECT_EQ(values(binary("mod", a, b)), (Values{1, 1, -1, -1}));
  EXPECT_EQ(values(binary("fmod", a, b)), (Values{1, -1, 1, -1}));
}

TEST(Elementwise, MinimumAndMaximumKeepNan) {
  EXPECT_TRUE(std::isnan(binary("maximum", f32({1}, {kNan}), f32({1}, {1})).get(0)));
  EXPECT_TRUE(std::isnan(binary("minimum", f32({1}, {1}), f32({1}, {kNan})).get(0)));
  EXPECT_TRUE(std::isnan(unary("relu", f32({1}, {kNan})).get(0)));
}

struct Reference {
  const char* op;
  double (*f)(double);
  double low, high;
};
class UnaryReference : public testing::TestWithParam<Reference> {};

TEST_P(UnaryReference, MatchesDoublePrecision) {
  const auto& p = GetParam();
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const HostTensor x = random_tensor(dtype, {101}, p.low, p.high);
    const HostTensor y = unary(p.op, x);
    ASSERT_EQ(y.dtype(), dtype);
    const double eps = dtype == DType::f64   ? 1e-14
                       : dtype == DType::f32 ? 4e-7
                       : dtype == DType::f16 ? 6e-4
                                             : 4.5e-3;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double expected = p.f(x.get(i));
      EXPECT_NEAR(y.get(i), expected, eps * std::max(std::abs(expected), 0.5))
          << p.op << " of " << x.get(i) << " as " << dtype;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Functions, UnaryReference,
    testing::Values(
        Reference{"exp", [](double x) { return std::exp(x); }, -3, 3},
        Reference{"log", [](double x) { return std::log(x); }, 0.1, 9},
        Reference{"tanh", [](double x) { return std::tanh(x); }, -3, 3},
        Reference{"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5},
        Reference{"erf", [](double x) { return std::erf(x); }, -3, 3},
        Reference{"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.1, 9},
        Reference{"silu", [](double x) { return x / (1 + std::exp(-x)); }, -5, 5},
        Reference{"gelu", [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }, -3,
                  3},
        Reference{"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, -3, 3},
        Reference{"hardswish", [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; },
                  -5, 5}),
    [](const auto& info) { return std::string(info.param.op); });

TEST(Elementwise, CompoundOpsOnBf16RoundOnce) {
  const HostTensor x = random_tensor(DType::bf16, {257}, -4, 4);
  const HostTensor y = unary("gelu", x);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const auto v = static_cast<float>(x.get(i));
    const double wide = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    EXPECT_NEAR(y.get(i), wide, std::abs(wide) * 0.00392 + 1e-6);  // half an ulp of bf16
  }
}

TEST(Compare, ResultIsBoolAndNanIsUnequal) {
  const auto a = f32({3}, {1, 2, kNan}), b = f32({3}, {1, 3, kNan});
  const auto eq = binary("eq", a, b);
  EXPECT_EQ(eq.dtype(), DType::boolean);
  EXPECT_EQ(values(eq), (Values{1, 0, 0}));
  EXPECT_EQ(values(binary("ne", a, b)), (Values{0, 1, 1}));
  EXPECT_EQ(values(binary("lt", a, b)), (Values{0, 1, 0}));
}

TEST(Compare, WhereChoosesAndBroadcasts) {
  const auto r = run_one([](Graph& g, auto& v) { return ops::where(g, v[0], v[1], v[2]); },
                         {tensor(DType::boolean, {2, 1}, {1, 0}), f32({2}, {1, 2}), f32({}, {9})});
  EXPECT_EQ(values(r), (Values{1, 2, 9, 9}));
}

TEST(Cast, ConvertsAsTorchDoes) {
  auto to = [](const HostTensor& x, DType d) {
    return values(run_one([&](Graph& g, auto& v) { return ops::cast(g, v[0], d); }, {x}));
  };
  EXPECT_EQ(to(f32({3}, {1.9, -1.9, 0.4}), DType::i32), (Values{1, -1, 0}));
  EXPECT_EQ(to(f32({3}, {0, -0.5, kInf}), DType::boolean), (Values{0, 1, 1}));
  EXPECT_EQ(to(f32({1}, {1.00390625}), DType::bf16), (Values{1.0}));  // tie to even
  EXPECT_EQ(to(i64({1}, {257}), DType::u8), (Values{1}));
}

Type bf16_type() { return Type::tensor(DType::bf16, {Dim(1)}); }

TEST(AtenRows, ScalarsOfBf16ArithmeticStayUnrounded) {
  // Rounded to bf16 first, the scalar would be 1 and the product 200.
  const auto r = run_aten("aten.mul.Tensor", [](auto& v) { return args(v[0], 1.00390625); },
                          {bf16_type()}, {tensor(DType::bf16, {1}, {200})});
  EXPECT_EQ(r.at(0).get(0), 201);
}

TEST(AtenRows, AddScalesByAlphaWithOneRounding) {
  const auto r =
      run_aten("aten.add.Tensor", [](auto& v) { return args(v[0], v[1], 3); },
               {Type::tensor(DType::f32, {Dim(2)})}, {f32({2}, {1, 2}), f32({2}, {10, 20})});
  EXPECT_EQ(values(r.at(0)), (Values{31, 62}));
}

TEST(AtenRows, IntegersDivideAsFloats) {
  const auto r = run_aten("aten.div.Tensor", [](auto& v) { return args(v[0], 4); },
                          {Type::tensor(DType::f32, {Dim(2)})}, {i64({2}, {1, 2})});
  EXPECT_EQ(values(r.at(0)), (Values{0.25, 0.5}));
}

TEST(AtenRows, ComparisonPromotesIntegersToFloat) {
  const auto r = run_aten("aten.lt.Scalar", [](auto& v) { return args(v[0], 1.5); },
                          {Type::tensor(DType::boolean, {Dim(2)})}, {i64({2}, {1, 2})});
  EXPECT_EQ(values(r.at(0)), (Values{1, 0}));
}

TEST(AtenRows, LargeIntegerScalarsAreExact) {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  const auto r = run_aten(
      "aten.eq.Scalar", [&](auto& v) { return args(v[0], big); },
      {Type::tensor(DType::boolean, {Dim(2)})},
      [&] {
        HostTensor t(DType::i64, {2});
        t.set_int(0, big);
        t.set_int(1, big - 1);
        return Tensors{t};
      }());
  EXPECT_EQ(values(r.at(0)), (Values{1, 0}));
}

}  // namespace
}  // namespace gex
