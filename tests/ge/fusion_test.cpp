// Acceptance cases on fusion: number of launches, and unchanged values.

#include "../compile/harness.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(32);

HostTensor f32(std::vector<std::int64_t> shape, double low = -2, double high = 2) {
  return random_tensor(DType::f32, std::move(shape), random_source, low, high);
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

const char* kConvNormRelu =
    R"(graph main(%x: f32[2, 4, 9, 9], %w: f32[8, 4, 3, 3], %g: f32[8], %b: f32[8], %m: f32[8], %v: f32[8]) -> (f32[2, 8, 9, 9]) {
  %c = conv2d(%x, %w) {padding = [1, 1]} : f32[2, 8, 9, 9]
  %n = batch_norm(%c, %g, %b, %m, %v) : f32[2, 8, 9, 9]
  %y = relu(%n) : f32[2, 8, 9, 9]
  return %y
})";

std::vector<HostTensor> conv_norm_inputs() {
  return {f32({2, 4, 9, 9}), f32({8, 4, 3, 3}), f32({8}), f32({8}), f32({8}), f32({8}, 0.5, 2)};
}

TEST(GeCase, N32_ConvolutionNormAndReluAreOneLaunch) {
  EXPECT_EQ(check(kConvNormRelu, conv_norm_inputs(), 1e-5).launches, 1);
}

// With statistics in the graph the norm is arithmetic on the weights.
TEST(GeCase, N32_AConstantNormGoesIntoTheWeights) {
  const std::string text = R"(graph main(%x: f32[1, 1, 4, 4]) -> (f32[1, 2, 4, 4]) {
  %w = constant() {value = f32[2, 1, 1, 1](3.0, -2.0)} : f32[2, 1, 1, 1]
  %g = constant() {value = f32[2](1.5, 0.5)} : f32[2]
  %b = constant() {value = f32[2](0.25, -1.0)} : f32[2]
  %m = constant() {value = f32[2](0.5, 1.0)} : f32[2]
  %v = constant() {value = f32[2](2.0, 0.75)} : f32[2]
  %c = conv2d(%x, %w) : f32[1, 2, 4, 4]
  %n = batch_norm(%c, %g, %b, %m, %v) : f32[1, 2, 4, 4]
  %y = relu(%n) : f32[1, 2, 4, 4]
  return %y
})";
  Result r = check(text, {f32({1, 1, 4, 4})}, 1e-5);
  EXPECT_EQ(r.launches, 1);
  EXPECT_EQ(count(r.compiled.report.graph_text, "rsqrt("), 0) << r.compiled.report.graph_text;
  // The convolution's result has another reader, so it stays unchanged.
  std::string shared = text;
  shared.replace(shared.find("-> (f32[1, 2, 4, 4])"), 20, "-> (f32[1, 2, 4, 4], f32[1, 2, 4, 4])");
  shared.replace(shared.find("return %y"), 9, "return %y, %c");
  Result kept = check(shared, {f32({1, 1, 4, 4})}, 1e-5);
  EXPECT_EQ(count(kept.compiled.report.graph_text, "f32[2, 1, 1, 1](3.0, -2.0)"), 1)
      << kept.compiled.report.graph_text;
}

TEST(GeCase, N34_AttentionIsOneLaunch) {
  Result r = check(
      R"(graph main(%q: f32[1, 4, 8, 16], %k: f32[1, 4, 8, 16], %v: f32[1, 4, 8, 16]) -> (f32[1, 4, 8, 16]) {
  %kt = transpose(%k) {perm = [0, 1, 3, 2]} : f32[1, 4, 16, 8]
  %s = matmul(%q, %kt) : f32[1, 4, 8, 8]
  %four = full() {dtype = f32, value = 4.0, shape = []} : f32[]
  %d = div(%s, %four) : f32[1, 4, 8, 8]
  %p = softmax(%d) {axis = 3} : f32[1, 4, 8, 8]
  %y = matmul(%p, %v) : f32[1, 4, 8, 16]
  return %y
})",
      {f32({1, 4, 8, 16}), f32({1, 4, 8, 16}), f32({1, 4, 8, 16})});
  EXPECT_EQ(count(r.compiled.report.graph_text, "attention("), 1) << r.compiled.report.graph_text;
  EXPECT_EQ(r.launches, 1);
}

// By addition or by where, with a row that sees nothing: NaN, as without the passes.
TEST(GeCase, N34_AttentionWithAMaskIsOneLaunchAndKeepsNan) {
  const auto text = [](const std::string& masked, const char* mask) {
    return str("graph main(%q: f32[3, 8, 16], %k: f32[3, 16, 8], %v: f32[3, 8, 16], %m: ", mask,
               R"() -> (f32[3, 8, 16]) {
  %s = matmul(%q, %k) : f32[3, 8, 8]
  %scale = full() {value = 0.25} : f32[]
  %inf = full() {value = -inf} : f32[]
  %d = mul(%s, %scale) : f32[3, 8, 8]
  %h = )",
               masked, R"( : f32[3, 8, 8]
  %p = softmax(%h) {axis = 2} : f32[3, 8, 8]
  %y = matmul(%p, %v) : f32[3, 8, 16]
  return %y
})");
  };
  HostTensor added(DType::f32, {8, 8}), seen(DType::boolean, {8, 8});
  for (std::int64_t k = 0; k < 64; ++k) {
    const bool visible = k / 8 != 5 && k % 3 != 0;
    added.set(k, visible ? 0.5 : -std::numeric_limits<double>::infinity());
    seen.set(k, visible ? 1 : 0);
  }
  const std::vector<HostTensor> qkv = {f32({3, 8, 16}), f32({3, 16, 8}), f32({3, 8, 16})};
  const auto is_one_launch = [&](const std::string& graph, const HostTensor& mask) {
    std::vector<HostTensor> inputs = qkv;
    inputs.push_back(mask);
    const Result r = check(graph, inputs);
    EXPECT_EQ(r.launches, 1) << r.compiled.report.graph_text;
    EXPECT_TRUE(std::isnan(r.outputs[0].get(5 * 16)));
  };
  is_one_launch(text("add(%d, %m)", "f32[8, 8]"), added);
  is_one_launch(text("where(%m, %d, %inf)", "bool[8, 8]"), seen);
}

// A dropout between the weights and the values is not part of attention: it must not get lost.
TEST(GeCase, N34_DroppedOutWeightsStayDroppedOut) {
  HostTensor mask(DType::f32, {1, 4, 8, 8});
  for (std::int64_t k = 0; k < mask.numel(); ++k) mask.set(k, k % 3 == 0 ? 0 : 1.5);
  Result r = check(
      R"(graph main(%q: f32[1, 4, 8, 16], %k: f32[1, 4, 16, 8], %v: f32[1, 4, 8, 16], %m: f32[1, 4, 8, 8]) -> (f32[1, 4, 8, 16]) {
  %s = matmul(%q, %k) : f32[1, 4, 8, 8]
  %p = softmax(%s) {axis = 3} : f32[1, 4, 8, 8]
  %d = mul(%p, %m) : f32[1, 4, 8, 8]
  %y = matmul(%d, %v) : f32[1, 4, 8, 16]
  return %y
})",
      {f32({1, 4, 8, 16}), f32({1, 4, 16, 8}), f32({1, 4, 8, 16}), mask});
  EXPECT_EQ(count(r.compiled.report.graph_text, "attention("), 0) << r.compiled.report.graph_text;
}

// Dropped out by random numbers of a seed: the same ones at every level, and the seed decides.
TEST(GeCase, N34_DropoutBetweenWeightsAndValuesIsThatOfItsSeed) {
  const std::string text =
      R"(graph main(%q: f32[1, 4, 8, 16], %k: f32[1, 4, 16, 8], %v: f32[1, 4, 8, 16], %seed: i64[]) -> (f32[1, 4, 8, 16]) {
  %s = matmul(%q, %k) : f32[1, 4, 8, 8]
  %p = softmax(%s) {axis = 3} : f32[1, 4, 8, 8]
  %d, %kept = dropout(%p, %seed) : f32[1, 4, 8, 8], bool[1, 4, 8, 8]
  %y = matmul(%d, %v) : f32[1, 4, 8, 16]
  return %y
})";
  std::vector<HostTensor> inputs = {f32({1, 4, 8, 16}), f32({1, 4, 16, 8}), f32({1, 4, 8, 16}),
                                    HostTensor(DType::i64, {})};
  std::vector<HostTensor> of_seed;
  for (const std::int64_t seed : {7, 8, 7}) {
    inputs[3].set_int(0, seed);
    const Result r = check(text, inputs);
    EXPECT_EQ(count(r.compiled.report.graph_text, "attention("), 0) << r.compiled.report.graph_text;
    of_seed.push_back(r.outputs[0]);
  }
  EXPECT_EQ(of_seed[0], of_seed[2]);
  EXPECT_NE(of_seed[0], of_seed[1]);
}

TEST(GeCase, N45_ABroadcastChainIsOneKernelWithFusionAndThreeWithout) {
  const std::string text = R"(graph main(%a: f32[128], %b: f32[2560, 128]) -> (f32[2560, 128]) {
  %x = abs(%a) : f32[128]
  %y = add(%x, %b) : f32[2560, 128]
  %z = relu(%y) : f32[2560, 128]
  return %z
})";
  const std::vector<HostTensor> inputs = {f32({128}), f32({2560, 128})};
  Result fused = check(text, inputs, 0);
  CompileOptions off;
  off.fuse = false;
  Result apart = check(text, inputs, 0, off);
  EXPECT_EQ(fused.launches, 1);
  EXPECT_EQ(apart.launches, 3);
  EXPECT_EQ(fused.outputs[0], apart.outputs[0]);
}

std::string chain(const std::string& begin, int length) {
  std::string text;
  std::string before = begin;
  for (int k = 0; k < length; ++k) {
    const std::string name = begin + str("_", k);
    text += str("  %", name, " = ", k % 2 ? "sin" : "cos", "(%", before, ") : f32[2, 4, 8, 8]\n");
    before = name;
  }
  return text;
}

TEST(GeCase, N46_LongChainsAreCutAtSixtyFourNodes) {
  Result r = check(str("graph main(%x: f32[2, 4, 8, 8]) -> (f32[2, 4, 8, 8]) {\n", chain("x", 70),
                       "  return %x_69\n}"),
                   {f32({2, 4, 8, 8})});
  EXPECT_EQ(r.launches, 2) << r.compiled.report.kernel_text;
  std::vector<int> nodes;  // of each unit, "// unit 0: kernel cos+sin+... (64 operators)"
  const std::string& kernels = r.compiled.report.kernel_text;
  for (std::size_t at = kernels.find("// unit "); at != std::string::npos;
       at = kernels.find("// unit ", at + 1))
    nodes.push_back(std::stoi(kernels.substr(kernels.find('(', at) + 1)));
  ASSERT_EQ(nodes.size(), 2U) << kernels;
  EXPECT_LE(std::max(nodes[0], nodes[1]), 64);
  EXPECT_EQ(nodes[0] + nodes[1], 70);
}

TEST(GeCase, N46_AChainIsCutAtAConvolution) {
  Result r =
      check(str("graph main(%x: f32[2, 4, 8, 8], %w: f32[4, 4, 1, 1]) -> (f32[2, 4, 8, 8]) {\n",
                chain("x", 6), "  %c = conv2d(%x_5, %w) : f32[2, 4, 8, 8]\n", chain("c", 6),
                "  return %c_5\n}"),
            {f32({2, 4, 8, 8}), f32({4, 4, 1, 1})});
  EXPECT_EQ(r.launches, 2) << r.compiled.report.kernel_text;
}

}  // namespace
}  // namespace gex::test
