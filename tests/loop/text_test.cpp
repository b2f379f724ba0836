#include <cmath>

#include "kernel_test.hpp"
#include "loop/builder.hpp"
#include "loop/combines.hpp"

namespace gex::loop {
namespace {

std::string parse_error(const std::string& text) {
  try {
    parse_kernel(text);
  } catch (const UserError& e) {
    return str(to_string(e.code()), ": ", e.what());
  }
  return "no error";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Text, PrintsOneCanonicalForm) {
  Kernel k = parse_kernel(R"(
kernel scale(x: in f32[s0, s1]{s1, 1}, y: out f32[s0, s1]) grid(i < s0, j < s1) {
  stage { v = load x[i, j]   r = mul(v, 2)   store y[i, j] = r } })");
  EXPECT_EQ(print(k), R"(symbols s0, s1
kernel scale(x: in f32[s0, s1]{s1, 1}, y: out f32[s0, s1]) grid(i < s0, j < s1) {
  stage {
    v0 = load x[i, j] : f32
    v1 = const 2 : f32
    v2 = mul v0, v1 : f32
    store y[i, j] = v2
  }
}
)");
}

TEST(Text, AKernelMayHaveTheLabelOfFusedOps) {
  const std::string text =
      "symbols n\nkernel exp+reduce_sum+...(y: out f32[n]) grid(i < n) {\n  stage {\n"
      "    v0 = const 1 : f32\n    store y[i] = v0\n  }\n}\n";
  EXPECT_EQ(parse_kernel(text).name, "exp+reduce_sum+...");
  EXPECT_EQ(print(parse_kernel(text)), text);
  expect_contains(
      parse_error(
          "kernel a-b(y: out f32[1]) grid(i < 1) { stage { v = const 1 : f32 store y[i] = v } }"),
      "identifiers with +");
  expect_contains(parse_error("kernel (y: out f32[1]) grid() { }"), "a kernel name");
}

TEST(Text, ConstantsKeepTheirBits) {
  Kernel k;
  k.name = "k";
  Stage& stage = k.stages.emplace_back();
  ScalarBuilder s(stage.exprs);
  for (DType d : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (double v : {0.0, -0.0, 0.1, 1e-45, 5e-324, 1e300, 3.4028234663852886e38, double(INFINITY),
                     -double(INFINITY), double(NAN), 1.0 / 3})
      s.constant(d, v);
  for (std::int64_t v : {INT64_MIN, INT64_MAX, std::int64_t{-1}}) s.constant_int(DType::i64, v);
  s.constant_int(DType::boolean, 1);
  s.constant_int(DType::boolean, 0);
  EXPECT_EQ(parse_kernel(print(k)), k) << print(k);
}

TEST(Text, KeepsSymbolRangesValueRangesAndStoreFlags) {
  Kernel k = parse_kernel(R"(symbols n in [2, 4096], m in [1, inf]
kernel k(ids: in i64[n], y: inout f32[m]) grid(i < n) {
  stage scatter domain(j < 2) {
    id = load ids[i] : i64 in [0, 15]
    one = const 1 : f32
    ok = lt(id, index(m))
    store y[id] = one mode max if ok shared ordered
  }
})");
  std::string text = print(k);
  expect_contains(text, "symbols n in [2, 4096], m in [1, inf]");
  expect_contains(text, ": i64 in [0, 15]");
  expect_contains(text, "mode max if v3 shared ordered");
  EXPECT_EQ(parse_kernel(text), k);
  EXPECT_EQ(k.symbols()[0].range(), (DimRange{2, 4096}));
  EXPECT_TRUE(k.ordered());
}

const char* kReduction = R"(
kernel k(x: in f32[n], y: out f32[]) {
  stage reduce(i < n) {
    v = load x[i]
    acc a: f32 = 0 <- v
    combine {
      l = lhs a
      r = rhs a
      lr = %s l, r
      yield lr
    }
    s = acc a
    store y[] = s
  }
})";

TEST(Text, ACombineThatHasANamePrintsAsThatName) {
  std::string text = kReduction;
  Kernel sum = parse_kernel(text.replace(text.find("%s"), 2, "add"));
  expect_contains(print(sum), "combine sum\n");
  EXPECT_EQ(parse_kernel(print(sum)), sum);
}

TEST(Text, ACombineWithoutANamePrintsInFull) {
  std::string text = kReduction;
  Kernel odd = parse_kernel(text.replace(text.find("%s"), 2, "atan2"));
  expect_contains(print(odd), "yield v2");
  EXPECT_EQ(parse_kernel(print(odd)), odd);
}

TEST(Text, SeveralNamedCombinesStandSideBySide) {
  Kernel k = parse_kernel(R"(
kernel k(x: in f32[n], y: out f32[], z: out i64[]) {
  stage reduce(i < n) {
    v = load x[i]
    at = index i
    acc s: f32 = 0 <- v
    acc best: f32 = -inf <- v
    acc where: i64 = 0 <- at
    combine sum, argmax
    r = acc s
    w = acc where
    store y[] = r
    store z[] = w
  }
})");
  expect_contains(print(k), "combine sum, argmax\n");
  EXPECT_EQ(parse_kernel(print(k)), k);
}

TEST(Text, ErrorsNameThePlaceAndWhatWasExpected) {
  expect_contains(parse_error("kernel k(x: in f33[4]) {}"), "parse_error: loop text 1:19");
  expect_contains(parse_error("kernel k(x: in f33[4]) {}"), "f33");
  expect_contains(parse_error("kernel k() { stage { a = mul b, c } }"), "got 'b'");
  expect_contains(parse_error("kernel k() {\n  stage { store z[] = 1 }\n}"), "2:");
  expect_contains(parse_error("kernel k(x: in f32[4]) grid(i < q) {}"), "q");
  expect_contains(parse_error("kernel k() { stage { a = const 1.5 : i64 } }"), "whole number");
  expect_contains(parse_error("kernel k() { stage { a = const 1 : f32  a = const 2 : f32 } }"),
                  "got 'a' again");
  expect_contains(parse_error("kernel k() {"), "the end of the text");
}

}  // namespace
}  // namespace gex::loop
