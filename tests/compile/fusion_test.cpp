// One launch where one is expected, and the interpreter's results from each.

#include "harness.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(1);

HostTensor f32(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f32, std::move(shape), random_source);
}

TEST(Fusion, ElementwiseChainIsOneKernel) {
  Result r = check(R"(symbols s0, s1
graph main(%x: f32[s0, s1], %y: f32[s1]) -> (f32[s0, s1]) {
  %a = add(%x, %y) : f32[s0, s1]
  %b = tanh(%a) : f32[s0, s1]
  %c = mul(%b, %x) : f32[s0, s1]
  return %c
})",
                   {f32({5, 37}), f32({37})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, SoftmaxIsOneKernel) {
  Result r = check(R"(symbols s0, s1
graph main(%x: f32[s0, s1]) -> (f32[s0, s1]) {
  %a = softmax(%x) {axis = 1} : f32[s0, s1]
  return %a
})",
                   {f32({7, 130})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, MatmulAddGeluIsOneKernel) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0, 64], %w: f32[64, 80], %b: f32[80]) -> (f32[s0, 80]) {
  %a = matmul(%x, %w) : f32[s0, 80]
  %c = add(%a, %b) : f32[s0, 80]
  %d = gelu(%c) : f32[s0, 80]
  return %d
})",
                   {f32({33, 64}), f32({64, 80}), f32({80})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, ReshapedMatmulTakesItsEpilogue) {
  Result r = check(R"(symbols s0, s1
graph main(%x: f32[s0, s1, 64], %w: f32[64, 80], %y: f32[s0, s1, 80]) -> (f32[s0, s1, 80]) {
  %f = reshape(%x) {shape = [s0*s1, 64]} : f32[s0*s1, 64]
  %a = matmul(%f, %w) : f32[s0*s1, 80]
  %g = reshape(%a) {shape = [s0, s1, 80]} : f32[s0, s1, 80]
  %c = add(%g, %y) : f32[s0, s1, 80]
  return %c
})",
                   {f32({3, 11, 64}), f32({64, 80}), f32({3, 11, 80})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, NotWhenTheResultHasMoreElementsThanTheContraction) {
  check(R"(symbols s0
graph main(%x: f32[s0, 64], %w: f32[64, 80], %y: f32[2, 80]) -> (f32[2 + s0, 80]) {
  %a = matmul(%x, %w) : f32[s0, 80]
  %c = cat(%a, %y) {axis = 0} : f32[2 + s0, 80]
  return %c
})",
        {f32({33, 64}), f32({64, 80}), f32({2, 80})});
  check(R"(graph main(%x: f32[6, 2], %w: f32[2, 2], %y: f32[1, 2]) -> (f32[7, 2]) {
  %a = matmul(%x, %w) : f32[6, 2]
  %c = cat(%a, %y) {axis = 0} : f32[7, 2]
  return %c
})",
        {f32({6, 2}), f32({2, 2}), f32({1, 2})});
}

TEST(Fusion, PointwiseNormSoftmaxIsOneKernel) {
  Result r = check(R"(symbols s0, s1
graph main(%x: f32[s0, s1], %y: f32[s0, s1], %w: f32[s1], %b: f32[s1]) -> (f32[s0, s1]) {
  %one = full() {dtype = f32, value = 1.0, shape = []} : f32[]
  %a = mul(%x, %y) : f32[s0, s1]
  %c = add(%a, %one) : f32[s0, s1]
  %d = gelu(%c) : f32[s0, s1]
  %e = sigmoid(%y) : f32[s0, s1]
  %f = mul(%d, %e) : f32[s0, s1]
  %z = sub(%f, %x) : f32[s0, s1]
  %q = mul(%z, %z) : f32[s0, s1]
  %v = reduce_mean(%q) {axes = [1], keepdim = true} : f32[s0, 1]
  %h = add(%v, %one) : f32[s0, 1]
  %r = rsqrt(%h) : f32[s0, 1]
  %n = mul(%z, %r) : f32[s0, s1]
  %o = mul(%n, %w) : f32[s0, s1]
  %p = add(%o, %b) : f32[s0, s1]
  %s = softmax(%p) {axis = 1} : f32[s0, s1]
  return %s
})",
                   {f32({9, 70}), f32({9, 70}), f32({70}), f32({70})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

// Sums of shifted parts, as the gradient of a convolution is, are stored before they are reduced.
TEST(Fusion, NotWhenAReductionWouldReadManyPaddedParts) {
  const auto graph = [](int parts) {
    std::string text = "graph main(%x: f32[6, 40]) -> (f32[6, 48]) {\n";
    for (int k = 0; k < parts; ++k)
      text +=
          str("  %p", k, " = pad(%x) {low = [0, ", k, "], high = [0, ", 8 - k, "]} : f32[6, 48]\n");
    std::string sum = "%p0";
    for (int k = 1; k < parts; ++k) {
      text += str("  %a", k, " = add(", sum, ", %p", k, ") : f32[6, 48]\n");
      sum = str("%a", k);
    }
    return text + str("  %s = softmax(", sum, ") {axis = 1} : f32[6, 48]\n  return %s\n}");
  };
  Result few = check(graph(3), {f32({6, 40})});
  EXPECT_EQ(few.launches, 1) << few.compiled.report.kernel_text;
  Result many = check(graph(6), {f32({6, 40})});
  EXPECT_EQ(many.launches, 2) << many.compiled.report.kernel_text;
}

TEST(Fusion, NotWhenAReductionNeedsAnotherRow) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0, 16]) -> (f32[16]) {
  %a = reduce_sum(%x) {axes = [1], keepdim = true} : f32[s0, 1]
  %b = mul(%x, %a) : f32[s0, 16]
  %c = reduce_sum(%b) {axes = [0]} : f32[16]
  return %c
})",
                   {f32({9, 16})});
  EXPECT_EQ(r.launches, 2) << r.compiled.report.kernel_text;
  bool said = false;
  for (const std::string& remark : r.compiled.report.remarks)
    said |= remark.find("different axes of [s0, 16]") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(Ties, AccumulationIsWrittenInPlace) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0], %acc: f32[s0]) -> (f32[s0]) ties(0 -> 1) {
  %a = add(%acc, %x) : f32[s0]
  return %a
})",
                   {f32({40}), f32({40})});
  EXPECT_EQ(r.launches, 1) << program::print(*r.compiled.program);
}

TEST(Ties, ValueReadAfterwardsIsCopiedLast) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0], %acc: f32[s0]) -> (f32[s0], f32[]) ties(0 -> 1) {
  %a = add(%acc, %x) : f32[s0]
  %b = reduce_sum(%acc) {axes = [0]} : f32[]
  return %a, %b
})",
                   {f32({40}), f32({40})});
  EXPECT_EQ(r.outputs.size(), 1u);
}

}  // namespace
}  // namespace gex::test
