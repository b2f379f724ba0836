// The generator's vector math in f32 against double libm: at most 4 ulp over the whole range. By
// default every 1009th bit pattern; GEX_MATH_STRIDE=1 takes all 2^32 of them.

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"

namespace gex::codegen {
namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

std::uint64_t stride() {
  const char* text = std::getenv("GEX_MATH_STRIDE");
  return text ? std::strtoull(text, nullptr, 10) : 1009;
}

// Distance from the true value in units of the last place of an f32 of that size. Infinity counts
// as the next number after the largest.
double ulp_error(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isnan(got)) return INFINITY;
  auto finite = [](double v) { return std::isinf(v) ? std::copysign(0x1p128, v) : v; };
  double w = finite(want), g = finite(got);
  if (std::fabs(w) > 0x1p128) w = std::copysign(0x1p128, w);
  int exponent = w == 0 ? -126 : std::max(std::ilogb(w), -126);
  return std::fabs(g - w) / std::ldexp(1.0, std::min(exponent, 127) - 23);
}

program::Callable function_of(const std::string& name, bool binary) {
  std::string text = binary ? "kernel f(a: in f32[n], b: in f32[n], y: out f32[n]) grid(i < n) {\n"
                              "stage { p = load a[i]\n q = load b[i]\n r = " +
                                  name + " p, q\n store y[i] = r } }"
                            : "kernel f(a: in f32[n], y: out f32[n]) grid(i < n) {\n"
                              "stage { p = load a[i]\n r = " +
                                  name + " p\n store y[i] = r } }";
  auto kernel = loop::parse_kernel(text);
  return generator().compile({&kernel, 1}, {})[0];
}

struct Worst {
  double error = 0;
  float a = 0, b = 0, got = 0;
  double want = 0;
};

std::vector<float> apply(const program::Callable& code, const std::vector<float>& a,
                         const std::vector<float>& b) {
  std::vector<float> y(a.size());
  std::vector<void*> buffers = {const_cast<float*>(a.data()), const_cast<float*>(b.data()),
                                y.data()};
  if (b.empty()) buffers.erase(buffers.begin() + 1);
  auto n = static_cast<std::int64_t>(a.size());
  code(buffers.data(), &n, 0, n, nullptr);
  return y;
}

Worst sweep(const char* name, Unary reference) {
  auto code = function_of(name, false);
  Worst worst;
  constexpr std::uint64_t kBlock = 1 << 16;
  std::uint64_t at = 0, step = stride();
  std::vector<float> a(kBlock);
  while (at < (1ull << 32)) {
    a.clear();
    for (; a.size() < kBlock && at < (1ull << 32); at += step)
      a.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(at)));
    auto y = apply(code, a, {});
    for (std::size_t i = 0; i < a.size(); ++i) {
      double want = reference(a[i]);
      double error = ulp_error(y[i], want);
      if (error > worst.error) worst = {error, a[i], 0, y[i], want};
    }
  }
  return worst;
}

class MathSweep : public testing::TestWithParam<std::pair<const char*, Unary>> {};

TEST_P(MathSweep, IsWithinFourUlpOfTheTrueValue) {
  Worst w = sweep(GetParam().first, GetParam().second);
  RecordProperty("max_ulp", std::to_string(w.error));
  printf("%s: %.3f ulp at %a\n", GetParam().first, w.error, w.a);
  EXPECT_LE(w.error, 4) << GetParam().first << "(" << w.a << ") = " << w.got << ", not " << w.want;
}

double rsqrt(double x) { return 1 / std::sqrt(x); }
double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

const std::pair<const char*, Unary> kUnary[] = {
    {"exp", std::exp},   {"exp2", std::exp2},   {"expm1", std::expm1}, {"log", std::log},
    {"log2", std::log2}, {"log10", std::log10}, {"log1p", std::log1p}, {"sin", std::sin},
    {"cos", std::cos},   {"tan", std::tan},     {"asin", std::asin},   {"acos", std::acos},
    {"atan", std::atan}, {"sinh", std::sinh},   {"cosh", std::cosh},   {"tanh", std::tanh},
    {"erf", std::erf},   {"rsqrt", rsqrt},      {"sigmoid", sigmoid},
};

INSTANTIATE_TEST_SUITE_P(F32, MathSweep, testing::ValuesIn(kUnary),
                         [](const auto& info) { return std::string(info.param.first); });

const std::vector<float> kSpecial = {
    0.f,
    -0.f,
    1.f,
    -1.f,
    2.f,
    -2.f,
    3.f,
    -3.f,
    0.5f,
    -0.5f,
    1e-45f,
    -1e-45f,
    1.1754944e-38f,
    3.4028235e38f,
    -3.4028235e38f,
    INFINITY,
    -INFINITY,
    NAN,
    1.5f,
    -2.5f,
    16777217.f,
    33554432.f,
    0.99999994f,
    1.0000001f,
    1e-20f,
    1e20f,
    127.f,
};

void check_binary(const char* name, Binary reference) {
  auto code = function_of(name, true);
  std::vector<float> a, b;
  for (float p : kSpecial)
    for (float q : kSpecial) {
      a.push_back(p);
      b.push_back(q);
    }
  // Random bits, random sizes near 1, and pairs whose power stays in range.
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-20, 20), near(0.5, 2);
  for (int i = 0; i < 1000000; ++i) {
    switch (i % 3) {
      case 0:
        a.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
        b.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
        break;
      case 1:
        a.push_back(std::exp2(exponent(random)));
        b.push_back(exponent(random) / 3);
        break;
      default:
        a.push_back(near(random));
        b.push_back(exponent(random) * 6);
    }
  }
  auto y = apply(code, a, b);
  Worst worst;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double want = reference(a[i], b[i]);
    double error = ulp_error(y[i], want);
    if (y[i] == 0 && want == 0 && std::signbit(y[i]) != std::signbit(want)) error = INFINITY;
    if (error > worst.error) worst = {error, a[i], b[i], y[i], want};
  }
  printf("%s: %.3f ulp at %a, %a\n", name, worst.error, worst.a, worst.b);
  EXPECT_LE(worst.error, 4) << name << "(" << worst.a << ", " << worst.b << ") = " << worst.got
                            << ", not " << worst.want;
}

TEST(MathOfTwo, PowIsWithinFourUlp) { check_binary("pow", std::pow); }
TEST(MathOfTwo, Atan2IsWithinFourUlp) { check_binary("atan2", std::atan2); }

TEST(Math, OneElementGivesTheBitsOfAFullVector) {
  for (const auto& [name, unused] : kUnary) {
    auto code = function_of(name, false);
    std::vector<float> a(64);
    std::mt19937 random(3);
    for (float& v : a) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    auto together = apply(code, a, {});
    for (std::size_t i = 0; i < a.size(); ++i) {
      float alone = apply(code, {a[i]}, {})[0];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(alone), std::bit_cast<std::uint32_t>(together[i]))
          << name << "(" << a[i] << ")";
    }
  }
}

}  // namespace
}  // namespace gex::codegen
