// What a real CUDA driver refuses fails over the simulated one too: calls that may wait during a
// capture, launches beyond the limits of a GPU, accesses that are not aligned or leave their
// memory.

#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/nvrtc.hpp"
#include "base/error.hpp"
#include "harness.hpp"
#include "nvidia/api.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {
namespace {

class CudaRules : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    api_ = nvidia::driver_api(why_not);
    char name[64] = {};
    const bool simulated = api_ != nullptr && api_->init(0) == 0 &&
                           api_->device_name(name, sizeof name - 1, 0) == 0 &&
                           std::string(name) == "emulated GPU";
    if (!simulated) GTEST_SKIP() << "runs below CudaDrivers, over the simulated driver";
    ASSERT_EQ(api_->stream_create(&stream_, nvidia::kStreamNonBlocking), 0);
  }
  void TearDown() override {
    if (module_ != nullptr) api_->module_unload(module_);
    if (stream_ != nullptr) api_->stream_destroy(stream_);
  }

  // A kernel of this body, whose argument is `words`.
  nvidia::Function kernel(const std::string& body) {
    const std::string text =
        "typedef long long i64;\nextern \"C\" __global__ void __launch_bounds__(64) f(const i64* "
        "words) {\n" +
        body + "\n}\n";
    const auto image = backend::cuda::compile_cubins({{"f", text}}, "sm_90", nullptr).front();
    EXPECT_EQ(api_->module_load(&module_, image->data()), 0);
    nvidia::Function function = nullptr;
    EXPECT_EQ(api_->module_function(&function, module_, "f"), 0);
    return function;
  }
  nvidia::Result launch(nvidia::Function function, nvidia::DevicePtr words, unsigned threads = 1,
                        unsigned shared = 0) {
    void* arguments[] = {&words};
    return api_->launch(function, 1, 1, 1, threads, 1, 1, shared, stream_, arguments, nullptr);
  }

  const nvidia::DriverApi* api_ = nullptr;
  nvidia::Stream stream_ = nullptr;
  nvidia::Module module_ = nullptr;
};

constexpr int kGlobal = 0, kOfThread = 1;

TEST_F(CudaRules, calls_that_may_wait_break_a_capture_unless_the_thread_allows_them) {
  for (const int mode : {kGlobal, kOfThread, nvidia::kCaptureRelaxed}) {
    for (const bool allowed : {false, true}) {
      ASSERT_EQ(api_->capture_begin(stream_, mode), 0);
      int of_thread = allowed ? nvidia::kCaptureRelaxed : kGlobal;
      api_->capture_mode(&of_thread);
      nvidia::DevicePtr memory = 0;
      const bool works = allowed || mode == nvidia::kCaptureRelaxed;
      EXPECT_EQ(api_->memory_alloc(&memory, 64), works ? 0 : 900) << mode << allowed;
      if (works) {
        EXPECT_EQ(api_->memory_free(memory), 0);
      }
      api_->capture_mode(&of_thread);
      nvidia::Graph graph = nullptr;
      EXPECT_EQ(api_->capture_end(stream_, &graph), works ? 0 : 901) << mode << allowed;
      if (graph != nullptr) api_->graph_destroy(graph);
    }
  }
}

TEST_F(CudaRules, more_shared_memory_than_usual_must_be_asked_for) {
  const nvidia::Function function = kernel("");
  EXPECT_EQ(launch(function, 0, 64, 48 * 1024), 0);
  EXPECT_EQ(launch(function, 0, 64, 48 * 1024 + 1), 1);
  const auto ask = [&](int bytes) {
    return api_->function_set_attribute(function, nvidia::kFunctionMaxDynamicShared, bytes);
  };
  EXPECT_EQ(ask(227 * 1024 + 1), 1);
  EXPECT_EQ(ask(100 * 1024), 0);
  EXPECT_EQ(launch(function, 0, 64, 100 * 1024), 0);
  EXPECT_EQ(launch(function, 0, 65), 701) << "more threads than the kernel's bound";
  // A graph needs at its end what its launches had.
  ASSERT_EQ(api_->capture_begin(stream_, nvidia::kCaptureRelaxed), 0);
  EXPECT_EQ(launch(function, 0, 64, 100 * 1024), 0);
  EXPECT_EQ(ask(60 * 1024), 0);
  nvidia::Graph graph = nullptr;
  ASSERT_EQ(api_->capture_end(stream_, &graph), 0);
  nvidia::GraphExec exec = nullptr;
  EXPECT_EQ(api_->graph_instantiate(&exec, graph, 0), 1);
  api_->graph_destroy(graph);
}

TEST_F(CudaRules, accesses_that_a_gpu_does_not_allow_end_the_process) {
  const auto context = open_device("cuda_graph");
  void* const memory = context->device->allocate(64);
  const auto at = [&](int offset) {
    return reinterpret_cast<nvidia::DevicePtr>(static_cast<std::byte*>(memory) + offset);
  };
  const nvidia::Function pair = kernel(
      "struct __attribute__((aligned(16))) Pair { i64 a, b; };\n"
      "*(Pair*)words = Pair{1, 2};");
  EXPECT_EQ(launch(pair, at(32)), 0);
  EXPECT_DEATH(launch(pair, at(24)), "an access that is not aligned: line [0-9]+");
  EXPECT_DEATH(launch(pair, at(256)), "");
  EXPECT_DEATH(
      {
        launch(pair, at(64));
        context->device->deallocate(memory, 64);
      },
      "a store behind an allocation \\(of 64 bytes\\)");
  context->device->deallocate(memory, 64);
  EXPECT_DEATH(launch(pair, at(32)), "");
}

TEST_F(CudaRules, objects_that_were_destroyed_are_noticed) {
  nvidia::Event event = nullptr;
  ASSERT_EQ(api_->event_create(&event, nvidia::kEventDisableTiming), 0);
  ASSERT_EQ(api_->event_record(event, stream_), 0);
  float milliseconds = 0;
  EXPECT_EQ(api_->event_elapsed(&milliseconds, event, event), 400) << "it has no time";
  ASSERT_EQ(api_->event_destroy(event), 0);
  EXPECT_DEATH(api_->event_record(event, stream_), "does not exist");
}

}  // namespace
}  // namespace gex::runtime::testing
