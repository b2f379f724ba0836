// Norms and convolutions with what follows them: one launch each.

#include "harness.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(1);

HostTensor f32(std::vector<std::int64_t> shape) {
  return random_tensor(DType::f32, std::move(shape), random_source);
}

TEST(Fusion, LayerNormIsOneKernel) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0, 96], %w: f32[96], %b: f32[96]) -> (f32[s0, 96]) {
  %a, %m, %r = layer_norm(%x, %w, %b) : f32[s0, 96], f32[s0, 1], f32[s0, 1]
  return %a
})",
                   {f32({6, 96}), f32({96}), f32({96})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, RmsNormIsOneKernel) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0, 96], %w: f32[96]) -> (f32[s0, 96]) {
  %a, %r = rms_norm(%x, %w) : f32[s0, 96], f32[s0, 1]
  return %a
})",
                   {f32({6, 96}), f32({96})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

// Recognised or not: the same bits, and one kernel.
TEST(Fusion, RecognisedNormsKeepTheirBits) {
  const std::string head = "graph main(%x: f32[6, 96]) -> (f32[6, 96]) {\n";
  const std::string end = "  return %y\n}";
  const std::string eps = R"(
  %eps = full() {dtype = f32, value = 1e-05, shape = []} : f32[]
  %s = add(%v, %eps) : f32[6, 1]
)";
  const std::string centred = R"(
  %v, %m = variance(%x) {axes = [1], keepdim = true, correction = 0.0} : f32[6, 1], f32[6, 1]
  %d = sub(%x, %m) : f32[6, 96]
)";
  const std::string squares = R"(
  %q = mul(%x, %x) : f32[6, 96]
  %v = reduce_mean(%q) {axes = [1], keepdim = true} : f32[6, 1]
)";
  for (const bool layer : {true, false}) {
    const std::string value = layer ? "%d" : "%x";
    for (const std::string& ending :
         {"  %r = rsqrt(%s) : f32[6, 1]\n  %y = mul(" + value + ", %r) : f32[6, 96]\n",
          "  %r = sqrt(%s) : f32[6, 1]\n  %y = div(" + value + ", %r) : f32[6, 96]\n",
          "  %t = sqrt(%s) : f32[6, 1]\n  %r = reciprocal(%t) : f32[6, 1]\n  %y = mul(" + value +
              ", %r) : f32[6, 96]\n"}) {
      const std::string text = head + (layer ? centred : squares) + eps + ending + end;
      const std::vector<HostTensor> inputs = {f32({6, 96})};
      const Result recognised = check(text, inputs);
      EXPECT_EQ(recognised.launches, 1) << text;
      EXPECT_NE(recognised.compiled.report.pass_statistics.find(
                    R"("recognise-norm": {"match_times": "1", "effect_times": "1"})"),
                std::string::npos)
          << text;
      CompileOptions without;
      without.disabled_passes = {"recognise-norm"};
      EXPECT_EQ(recognised.outputs, check(text, inputs, 2e-5, without).outputs) << text;
    }
  }
}

// The exponentials are kept for each lane, up to a size, or for each point.
TEST(Fusion, SoftmaxOverAnAxisThatIsNotTheLast) {
  for (const std::int64_t size : {62, 63, 300, 1022, 1023, 1500})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::string type = str(dtype, "[3, ", size, ", 21]");
      const Result r =
          check("graph main(%x: " + type + ") -> (" + type +
                    ") {\n  %y = softmax(%x) {axis = 1} : " + type + "\n  return %y\n}",
                {random_tensor(dtype, {3, size, 21}, random_source)});
      EXPECT_EQ(r.launches, 1) << type;
    }
}

TEST(Fusion, ConvBatchNormReluIsOneKernel) {
  Result r = check(R"(
graph main(%x: f32[2, 3, 12, 12], %w: f32[8, 3, 3, 3], %g: f32[8], %b: f32[8], %m: f32[8], %v: f32[8]) -> (f32[2, 8, 12, 12]) {
  %c = conv2d(%x, %w) {padding = [1, 1]} : f32[2, 8, 12, 12]
  %n = batch_norm(%c, %g, %b, %m, %v) : f32[2, 8, 12, 12]
  %r = relu(%n) : f32[2, 8, 12, 12]
  return %r
})",
                   {f32({2, 3, 12, 12}), f32({8, 3, 3, 3}), f32({8}), f32({8}), f32({8}),
                    random_tensor(DType::f32, {8}, random_source, 0.5, 2)});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, SquaresOfAMatmulAreNotStored) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0, 64], %w: f32[64, 96], %g: f32[96]) -> (f32[s0, 96]) {
  %a = matmul(%x, %w) : f32[s0, 96]
  %n, %r = rms_norm(%a, %g) : f32[s0, 96], f32[s0, 1]
  return %n
})",
                   {f32({6, 64}), f32({64, 96}), f32({96})});
  EXPECT_EQ(r.launches, 2);
  EXPECT_EQ(r.compiled.report.kernel_text.find("matmul+"), std::string::npos)
      << r.compiled.report.kernel_text;
}

// As in the gradient of a norm: the matmul itself is stored for the sum over its rows.
TEST(Fusion, OtherOperandsOfReductionsAreNotStored) {
  Result r =
      check(R"(graph main(%x: f32[40, 64], %w: f32[64, 96], %s: f32[96]) -> (f32[40, 96], f32[96]) {
  %g = matmul(%x, %w) : f32[40, 96]
  %b = reduce_sum(%g) {axes = [0]} : f32[96]
  %h = mul(%g, %s) : f32[40, 96]
  %m = reduce_mean(%h) {axes = [1], keepdim = true} : f32[40, 1]
  %y = sub(%h, %m) : f32[40, 96]
  return %y, %b
})",
            {f32({40, 64}), f32({64, 96}), f32({96})});
  EXPECT_EQ(r.launches, 3);
  EXPECT_EQ(r.compiled.report.kernel_text.find("matmul+"), std::string::npos)
      << r.compiled.report.kernel_text;
}

// Here only the sum is stored.
TEST(Fusion, ASumThatANormReadsIsTheMatmulsEpilogue) {
  Result r =
      check(R"(graph main(%x: f32[40, 64], %w: f32[64, 96], %s: f32[40, 96]) -> (f32[40, 96]) {
  %g = matmul(%x, %w) : f32[40, 96]
  %h = add(%g, %s) : f32[40, 96]
  %m = reduce_mean(%h) {axes = [1], keepdim = true} : f32[40, 1]
  %y = sub(%h, %m) : f32[40, 96]
  return %y
})",
            {f32({40, 64}), f32({64, 96}), f32({40, 96})});
  EXPECT_EQ(r.launches, 2);
  EXPECT_NE(r.compiled.report.kernel_text.find("matmul+add"), std::string::npos)
      << r.compiled.report.kernel_text;
}

TEST(Fusion, RotaryEmbeddingJoinsItsNormAcrossATranspose) {
  Result r = check(R"(symbols s0
graph main(%x: f32[s0, 256], %g: f32[64], %c: f32[s0, 64], %s: f32[s0, 64]) -> (f32[4, s0, 64]) {
  %h = reshape(%x) {shape = [s0, 4, 64]} : f32[s0, 4, 64]
  %n, %r = rms_norm(%h, %g) : f32[s0, 4, 64], f32[s0, 4, 1]
  %t = transpose(%n) {perm = [1, 0, 2]} : f32[4, s0, 64]
  %a = mul(%t, %c) : f32[4, s0, 64]
  %hi = slice(%t) {starts = [0, 0, 32], steps = [1, 1, 1], sizes = [4, s0, 32]} : f32[4, s0, 32]
  %lo = slice(%t) {starts = [0, 0, 0], steps = [1, 1, 1], sizes = [4, s0, 32]} : f32[4, s0, 32]
  %m = neg(%hi) : f32[4, s0, 32]
  %k = cat(%m, %lo) {axis = 2} : f32[4, s0, 64]
  %b = mul(%k, %s) : f32[4, s0, 64]
  %y = add(%a, %b) : f32[4, s0, 64]
  return %y
})",
                   {f32({6, 256}), f32({64}), f32({6, 64}), f32({6, 64})});
  EXPECT_EQ(r.launches, 1) << r.compiled.report.kernel_text;
}

TEST(Fusion, AttentionWritesTheLayoutThatTheProjectionReads) {
  Result r = check(R"(symbols s0
graph main(%q: f32[2, 4, s0, 16], %k: f32[2, 2, s0, 16], %v: f32[2, 2, s0, 16], %w: f32[64, 32]) -> (f32[2*s0, 32]) {
  %a = attention(%q, %k, %v, none) {scale = 0.25} : f32[2, 4, s0, 16]
  %t = transpose(%a) {perm = [0, 2, 1, 3]} : f32[2, s0, 4, 16]
  %f = reshape(%t) {shape = [2*s0, 64]} : f32[2*s0, 64]
  %y = matmul(%f, %w) : f32[2*s0, 32]
  return %y
})",
                   {f32({2, 4, 9, 16}), f32({2, 2, 9, 16}), f32({2, 2, 9, 16}), f32({64, 32})});
  EXPECT_EQ(r.launches, 2) << program::print(*r.compiled.program);
}

}  // namespace
}  // namespace gex::test
