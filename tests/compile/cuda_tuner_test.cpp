// Autotuning on CUDA, over a simulated driver whose launches take as long as the test says.

#include <cstdlib>

#include "../runtime/fake_cuda/inner_run.hpp"
#include "cache_fixture.hpp"
#include "nvidia/api.hpp"
#include "runtime/background/background.hpp"
#include "runtime/device.hpp"

namespace gex::test {
namespace {

std::mt19937 random_source(11);

class CudaTuningInner : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("GEX_TEST_TUNING") == nullptr) GTEST_SKIP() << "runs inside CudaTuning";
  }
};

Compiled tuned(const std::string& text) {
  CompileOptions options;
  options.target = "cuda:0";
  options.autotune = true;
  options.cache = Store::from_environment();
  return compile(parse_graph(text), options);
}

// Microseconds of the device in one call.
double device_time(runtime::Session& session, std::vector<HostTensor>& inputs) {
  std::string why_not;
  const nvidia::DriverApi& api = *nvidia::driver_api(why_not);
  nvidia::Stream stream = nullptr;
  nvidia::Event begin = nullptr, end = nullptr;
  api.stream_create(&stream, 0);
  api.event_create(&begin, 0);
  api.event_create(&end, 0);
  api.event_record(begin, stream);
  execute(session, inputs);
  api.event_record(end, stream);
  float milliseconds = 0;
  EXPECT_EQ(api.event_elapsed(&milliseconds, begin, end), 0);
  api.event_destroy(begin);
  api.event_destroy(end);
  api.stream_destroy(stream);
  return std::round(1e3 * static_cast<double>(milliseconds));
}

struct Outcome {
  double before = 0, after = 0;  // microseconds of a call
  std::vector<std::string> findings;
  std::int64_t specialised = 0;
};

// Calls until the sizes are hot, with results compared before and after.
Outcome tune(const std::string& text, std::vector<HostTensor> inputs, double tolerance) {
  const Compiled gpu = tuned(text);
  runtime::Session session(gpu.executable, {}, gpu.specialiser);
  Outcome outcome;
  outcome.before = device_time(session, inputs);
  const HostTensor first = std::move(execute(session, inputs)[0]);
  execute(session, inputs);
  runtime::wait_for_background();
  execute(session, inputs);  // makes the graph of the new code
  outcome.after = device_time(session, inputs);
  const HostTensor last = std::move(execute(session, inputs)[0]);
  for (std::int64_t k = 0; k < last.numel(); ++k)
    EXPECT_NEAR(last.get(k), first.get(k), tolerance) << k;
  outcome.findings = session.findings();
  outcome.specialised = session.counters().specialised;
  return outcome;
}

// Not for the library, since its depth varies.
const char* const kProduct = R"(symbols depth
graph main(%x: f16[64, depth], %w: f16[depth, 256]) -> (f16[64, 256]) {
  %y = matmul(%x, %w) : f16[64, 256]
  return %y
})";

Outcome tune_product() {
  return tune(kProduct,
              {random_tensor(DType::f16, {64, 128}, random_source, -1, 1),
               random_tensor(DType::f16, {128, 256}, random_source, -1, 1)},
              2e-2);
}

// GEX_FAKE_KERNEL_TIMES: 7 us for tiles of 32x128, 20 for others.
TEST_F(CudaTuningInner, AFasterTileIsUsed) {
  const Outcome outcome = tune_product();
  EXPECT_EQ(outcome.before, 20);
  EXPECT_EQ(outcome.after, 7);
  EXPECT_EQ(outcome.specialised, 1);
  ASSERT_EQ(outcome.findings.size(), 1u);
  const std::string& finding = outcome.findings[0];
  // The Program's own form comes first, each with what the cost model says.
  const std::string begin =
      "1x1x64x256x128 matmul f16 f16 f16 0 0 0 0: 32x128 of 64x128 20 us "
      "(predicted ";
  EXPECT_EQ(finding.substr(0, begin.size()), begin) << finding;
  EXPECT_NE(finding.find("32x128 7 us (predicted "), std::string::npos) << finding;
}

TEST_F(CudaTuningInner, WhatWasMeasuredEarlierIsUsed) {
  const Outcome outcome = tune_product();
  EXPECT_EQ(outcome.after, 7);
  EXPECT_EQ(outcome.findings,
            (std::vector<std::string>{
                "1x1x64x256x128 matmul f16 f16 f16 0 0 0 0: 32x128, measured earlier"}));
}

Outcome tune_library() {
  return tune(R"(
graph main(%x: f32[40, 64], %w: f32[64, 96]) -> (f32[40, 96]) {
  %y = matmul(%x, %w) : f32[40, 96]
  return %y
})",
              {random_tensor(DType::f32, {40, 64}, random_source, -1, 1),
               random_tensor(DType::f32, {64, 96}, random_source, -1, 1)},
              1e-4);
}

// 30 us for the library, 9 for our own kernel.
TEST_F(CudaTuningInner, AnOwnKernelReplacesTheLibrary) {
  const Outcome outcome = tune_library();
  EXPECT_EQ(outcome.before, 30);
  EXPECT_EQ(outcome.after, 9);
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_NE(outcome.findings[0].find(": 64x64 of cuBLAS 30 us, 64x64 9 us (predicted "),
            std::string::npos)
      << outcome.findings[0];
}

// Our own kernel gains 2 %.
TEST_F(CudaTuningInner, WithoutAGainNothingChanges) {
  const Outcome outcome = tune_library();
  EXPECT_EQ(outcome.after, 50);
  EXPECT_EQ(outcome.specialised, 0);
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_NE(outcome.findings[0].find(": cuBLAS of cuBLAS 50 us, 64x64 49 us"), std::string::npos)
      << outcome.findings[0];
}

class CudaTuning : public Cache {
 protected:
  void inner(const std::string& times, const std::string& test) const {
    const InnerRun run = run_over_fake_cuda(str("GEX_TEST_TUNING=1 GEX_CACHE_DIR=", folder_,
                                                "/tuned GEX_FAKE_KERNEL_TIMES='", times, "'"),
                                            "CudaTuningInner." + test);
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_NE(run.output.find("[  PASSED  ] 1 test"), std::string::npos) << run.output;
  }
};

TEST_F(CudaTuning, TheFastestFormIsUsedAndKept) {
  if (std::getenv("GEX_TEST_TUNING") != nullptr) return;
  const std::string small = "mma_product<32, 128, 1, 8, 4, 1>=7;mma_product<=20";
  inner(small, "AFasterTileIsUsed");
  inner(small, "WhatWasMeasuredEarlierIsUsed");
}

TEST_F(CudaTuning, TheLibraryIsACandidate) {
  if (std::getenv("GEX_TEST_TUNING") != nullptr) return;
  inner("cublas=30;tiled_product=9", "AnOwnKernelReplacesTheLibrary");
  inner("cublas=50;tiled_product=49", "WithoutAGainNothingChanges");
}

}  // namespace
}  // namespace gex::test
