// Operands computed by prologues: one launch fewer, the interpreter's results.

#include "harness.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(3);

HostTensor f32(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f32, std::move(shape), random_source);
}

TEST(Prologue, LeftOperandOfAProduct) {
  for (const std::int64_t rows : {1, 7, 150}) {
    Result r = check(R"(symbols s0
graph main(%x: f32[s0, 300], %s: f32[300], %w: f32[300, 80]) -> (f32[s0, 80]) {
  %a = mul(%x, %s) : f32[s0, 300]
  %b = relu(%a) : f32[s0, 300]
  %c = matmul(%b, %w) : f32[s0, 80]
  return %c
})",
                     {f32({rows, 300}), f32({300}), f32({300, 80})});
    EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
  }
}

TEST(Prologue, TransposedLeftOperandWithAnEpilogue) {
  Result r = check(
      R"(graph main(%x: f32[300, 50], %y: f32[300, 50], %w: f32[300, 80], %b: f32[80]) -> (f32[50, 80]) {
  %a = add(%x, %y) : f32[300, 50]
  %t = transpose(%a) {perm = [1, 0]} : f32[50, 300]
  %c = matmul(%t, %w) : f32[50, 80]
  %d = add(%c, %b) : f32[50, 80]
  %e = gelu(%d) : f32[50, 80]
  return %e
})",
      {f32({300, 50}), f32({300, 50}), f32({300, 80}), f32({80})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Prologue, WeightsOfEightBits) {
  for (const std::int64_t rows : {1, 30}) {
    Result r = check(R"(symbols s0
graph main(%x: f32[s0, 300], %q: i8[200, 300], %s: f32[200, 1]) -> (f32[s0, 200]) {
  %f = cast(%q) {dtype = f32} : f32[200, 300]
  %w = mul(%f, %s) : f32[200, 300]
  %t = transpose(%w) {perm = [1, 0]} : f32[300, 200]
  %c = matmul(%x, %t) : f32[s0, 200]
  return %c
})",
                     {f32({rows, 300}), random_tensor(DType::i8, {200, 300}, random_source, -3, 3),
                      f32({200, 1})},
                     1e-4);
    EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
  }
}

TEST(Prologue, BothOperandsOfABatchedProduct) {
  Result r = check(
      R"(graph main(%x: f32[2, 3, 40, 20], %y: f32[3, 20, 50], %z: f32[3, 20, 50]) -> (f32[2, 3, 40, 50]) {
  %a = relu(%x) : f32[2, 3, 40, 20]
  %b = sub(%y, %z) : f32[3, 20, 50]
  %c = matmul(%a, %b) : f32[2, 3, 40, 50]
  return %c
})",
      {f32({2, 3, 40, 20}), f32({3, 20, 50}), f32({3, 20, 50})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

// As if stored: the operand is bf16, so its elements are rounded to it.
TEST(Prologue, ElementsAreRoundedToTheirDtype) {
  const std::string text =
      R"(graph main(%x: bf16[40, 64], %y: bf16[40, 64], %w: bf16[64, 48]) -> (f32[40, 48]) {
  %a = mul(%x, %y) : bf16[40, 64]
  %c = matmul(%a, %w) : bf16[40, 48]
  %d = cast(%c) {dtype = f32} : f32[40, 48]
  return %d
})";
  const std::vector<HostTensor> inputs = {random_tensor(DType::bf16, {40, 64}, random_source),
                                          random_tensor(DType::bf16, {40, 64}, random_source),
                                          random_tensor(DType::bf16, {64, 48}, random_source)};
  Result together = check(text, inputs, 2e-2);
  EXPECT_EQ(together.launches, 1);
  CompileOptions apart;
  apart.fuse = false;
  Result separate = check(text, inputs, 2e-2, apart);
  EXPECT_GT(separate.launches, 1);
  EXPECT_EQ(largest_error(together.outputs[0], separate.outputs[0]), 0);
}

TEST(Prologue, ImagesOfAConvolution) {
  for (const char* geometry :
       {"stride = [1, 1], padding = [1, 1]", "stride = [2, 2], padding = [1, 1]"}) {
    const bool halved = geometry[10] == '2';
    const std::string out = halved ? "[s0, 24, 8, 10]" : "[s0, 24, 15, 19]";
    Result r = check(
        "symbols s0\ngraph main(%x: f32[s0, 12, 15, 19], %s: f32[12, 1, 1], %b: f32[12, 1, 1], "
        "%w: f32[24, 12, 3, 3]) -> (f32" +
            out +
            ") {\n"
            "  %a = mul(%x, %s) : f32[s0, 12, 15, 19]\n"
            "  %c = add(%a, %b) : f32[s0, 12, 15, 19]\n"
            "  %d = relu(%c) : f32[s0, 12, 15, 19]\n"
            "  %y = conv2d(%d, %w) {" +
            geometry + ", dilation = [1, 1], groups = 1} : f32" + out +
            "\n"
            "  %z = relu(%y) : f32" +
            out +
            "\n"
            "  return %z\n}",
        {f32({2, 12, 15, 19}), f32({12, 1, 1}), f32({12, 1, 1}), f32({24, 12, 3, 3})});
    EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
  }
}

TEST(Prologue, QueriesKeysValuesAndMaskOfAttention) {
  for (const std::int64_t queries : {1, 130}) {
    Result r =
        check(R"(symbols s0, s1
graph main(%q: f32[2, 4, s0, 32], %c: f32[s0, 32], %k: f32[2, 2, s1, 32], %d: f32[s1, 32], %v: f32[2, 2, s1, 32], %m: f32[s0, s1], %n: f32[s1], %o: f32[2, 4, s0, 32]) -> (f32[2, 4, s0, 32]) {
  %a = mul(%q, %c) : f32[2, 4, s0, 32]
  %b = mul(%k, %d) : f32[2, 2, s1, 32]
  %e = relu(%v) : f32[2, 2, s1, 32]
  %f = add(%m, %n) : f32[s0, s1]
  %g = attention(%a, %b, %e, %f) : f32[2, 4, s0, 32]
  %h = add(%g, %o) : f32[2, 4, s0, 32]
  return %h
})",
              {f32({2, 4, queries, 32}), f32({queries, 32}), f32({2, 2, 70, 32}), f32({70, 32}),
               f32({2, 2, 70, 32}), f32({queries, 70}), f32({70}), f32({2, 4, queries, 32})},
              1e-4);
    EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
  }
}

// A computed bool mask has the dtype of the scores.
TEST(Prologue, MaskOfDoubleAttention) {
  Result r = check(
      R"(graph main(%q: f64[1, 2, 5, 8], %k: f64[1, 2, 6, 8], %v: f64[1, 2, 6, 8], %m: i32[5, 6]) -> (f64[1, 2, 5, 8]) {
  %a = cast(%m) {dtype = bool} : bool[5, 6]
  %g = attention(%q, %k, %v, %a) : f64[1, 2, 5, 8]
  return %g
})",
      {random_tensor(DType::f64, {1, 2, 5, 8}, random_source),
       random_tensor(DType::f64, {1, 2, 6, 8}, random_source),
       random_tensor(DType::f64, {1, 2, 6, 8}, random_source),
       random_tensor(DType::i32, {5, 6}, random_source)},
      1e-12);
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Prologue, NotForAMaskBroadcastOverTheKeys) {
  Result r = check(
      R"(graph main(%q: f32[2, 5, 8], %k: f32[2, 6, 8], %v: f32[2, 6, 8], %m: f32[5, 1]) -> (f32[2, 5, 8]) {
  %a = mul(%m, %m) : f32[5, 1]
  %g = attention(%q, %k, %v, %a) : f32[2, 5, 8]
  return %g
})",
      {f32({2, 5, 8}), f32({2, 6, 8}), f32({2, 6, 8}), f32({5, 1})});
  EXPECT_EQ(r.launches, 2) << r.compiled.report.kernel_text;
}

// A rotary embedding reads its row at other positions than it writes.
TEST(Prologue, RotatedQueries) {
  Result r = check(
      R"(symbols s0
graph main(%q: f32[1, s0, 4, 32], %c: f32[s0, 32], %s: f32[s0, 32], %k: f32[1, 4, s0, 32], %v: f32[1, 4, s0, 32]) -> (f32[1, 4, s0, 32]) {
  %t = transpose(%q) {perm = [0, 2, 1, 3]} : f32[1, 4, s0, 32]
  %lo = slice(%t) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 1], sizes = [1, 4, s0, 16]} : f32[1, 4, s0, 16]
  %hi = slice(%t) {starts = [0, 0, 0, 16], steps = [1, 1, 1, 1], sizes = [1, 4, s0, 16]} : f32[1, 4, s0, 16]
  %neg = neg(%hi) : f32[1, 4, s0, 16]
  %rot = cat(%neg, %lo) {axis = 3} : f32[1, 4, s0, 32]
  %a = mul(%t, %c) : f32[1, 4, s0, 32]
  %b = mul(%rot, %s) : f32[1, 4, s0, 32]
  %e = add(%a, %b) : f32[1, 4, s0, 32]
  %g = attention(%e, %k, %v) : f32[1, 4, s0, 32]
  return %g
})",
      {f32({1, 50, 4, 32}), f32({50, 32}), f32({50, 32}), f32({1, 4, 50, 32}), f32({1, 4, 50, 32})},
      1e-4);
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Prologue, NotIfTheOperandHasOtherUsers) {
  Result r = check(
      R"(graph main(%x: f32[40, 64], %w: f32[64, 48], %u: f32[64, 48]) -> (f32[40, 48], f32[40, 48]) {
  %a = relu(%x) : f32[40, 64]
  %b = matmul(%a, %w) : f32[40, 48]
  %c = matmul(%a, %u) : f32[40, 48]
  return %b, %c
})",
      {f32({40, 64}), f32({64, 48}), f32({64, 48})});
  EXPECT_EQ(r.launches, 3);
}

TEST(Prologue, NotIfItWouldBeComputedTooOften) {
  Result r = check(R"(graph main(%x: f32[20, 64], %w: f32[64, 4000]) -> (f32[20, 4000]) {
  %a = gelu(%x) : f32[20, 64]
  %b = matmul(%a, %w) : f32[20, 4000]
  return %b
})",
                   {f32({20, 64}), f32({64, 4000})}, 1e-4);
  EXPECT_EQ(r.launches, 2);
  EXPECT_NE(r.compiled.report.kernel_text.find("recomputed too often"), std::string::npos)
      << r.compiled.report.kernel_text;
}

TEST(Prologue, NotForManyShortRows) {
  for (const std::int64_t depth : {4, 40}) {
    const std::string k = std::to_string(depth);
    Result r = check("symbols s0\ngraph main(%x: f32[s0, " + k + "], %w: f32[" + k +
                         ", 30]) -> (f32[s0, 30]) {\n  %a = relu(%x) : f32[s0, " + k +
                         "]\n  %b = matmul(%a, %w) : f32[s0, 30]\n  return %b\n}",
                     {f32({50, depth}), f32({depth, 30})});
    EXPECT_EQ(r.launches, depth == 4 ? 2 : 1) << r.compiled.report.kernel_text;
  }
}

// What the prologue reads must not be overwritten by the matmul's result.
// A prologue is called along rows of the image, and would touch a cache line for every element of
// y.
TEST(Prologue, NotForALargeTensorReadAcrossItsRows) {
  for (const std::int64_t channels : {8, 96}) {
    const std::string c = std::to_string(channels);
    Result r = check(
        "graph main(%x: f32[1, " + c + ", 30, 30], %y: f32[1, 30, 30, " + c + "], %w: f32[8, " + c +
            R"(, 2, 2]) -> (f32[1, 8, 15, 15]) {
  %t = transpose(%y) {perm = [0, 3, 1, 2]} : f32[1, )" +
            c + R"(, 30, 30]
  %a = add(%x, %t) : f32[1, )" +
            c + R"(, 30, 30]
  %d = conv2d(%a, %w) {stride = [2, 2]} : f32[1, 8, 15, 15]
  return %d
})",
        {f32({1, channels, 30, 30}), f32({1, 30, 30, channels}), f32({8, channels, 2, 2})}, 1e-4);
    EXPECT_EQ(r.launches, channels == 8 ? 1 : 2) << r.compiled.report.kernel_text;
  }
}

TEST(Prologue, ATiedInputThatItReadsIsNotWrittenInPlace) {
  Result r =
      check(R"(graph main(%x: f32[20, 400], %w: f32[400, 400]) -> (f32[20, 400]) ties(0 -> 0) {
  %a = relu(%x) : f32[20, 400]
  %b = matmul(%a, %w) : f32[20, 400]
  return %b
})",
            {f32({20, 400}), f32({400, 400})}, 1e-4);
  EXPECT_EQ(r.launches, 2) << "a product and a copy";
}

}  // namespace
}  // namespace gex::test
