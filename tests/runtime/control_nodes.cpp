// If and while as conditional nodes of CUDA graphs: which steps become nodes, and what a capture of
// the caller holds.

#include <algorithm>
#include <cstdlib>

#include "harness.hpp"
#include "nvidia/api.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(is_below, {
  ((unsigned char*)buffers[2])[point] =
      ((const float*)buffers[0])[0] < ((const float*)buffers[1])[0];
})
GEX_TEST_KERNEL(twice, { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] * 2; })

// Doubles x until it is not below the limit; `body` are more steps of the loop.
std::string doubling(const std::string& body) {
  return R"(program "doubling"
input 0 "x" f32 [1] -> %0
input 1 "limit" f32 [1] -> %1
output 0 "y" fresh f32 [1] -> %2
buffer %0 "x" input 0 f32 [1] bytes [4]
buffer %1 "limit" input 1 f32 [1] bytes [4]
buffer %2 "y" output 0 f32 [1] bytes [4]
buffer %3 "state" temp f32 [1] bytes [4]
buffer %4 "next" temp f32 [1] bytes [4]
buffer %5 "c" temp bool [] bytes [1]
buffer %6 "r" external f32 [1] bytes [4]
code 0 "is_below"
code 1 "twice"
main 0
segment 0 "main"
  copy %3 from %0 bytes [4]
  while 1 %5 do 2
  launch "twice" code 1 read %3 write %2 grid [1]
segment 1 "condition"
  launch "below" code 0 read %3 read %1 write %5 grid [1]
segment 2 "body"
  launch "twice" code 1 read %3 write %4 grid [1]
  copy %3 from %4 bytes [4]
)" + body;
}

bool old_driver() { return std::getenv("GEX_FAKE_CUDA_VERSION") != nullptr; }

CONFORMANCE(reasons_why_the_host_decides_a_while) {
  const Session session(load_program(doubling(""), driver), {.driver = driver});
  const std::string why = session.host_control().empty() ? "" : session.host_control().front();
  if (old_driver() && driver == "cuda_graph")
    EXPECT_HAS(why, "the CUDA driver is older than 12.4");
  else
    EXPECT_EQ(why, "");
}

CONFORMANCE(a_while_that_calls_the_host) {
  const std::string call = "  call \"told\" callee 0 (%3 f32 [1] strides [1]) output %6\n";
  Session session(load_program(doubling(call), driver), {.driver = driver});
  if (driver == "cuda_graph" && !old_driver()) {
    ASSERT_EQ(session.host_control().size(), 1U);
    EXPECT_EQ(session.host_control().front(), "while: \"told\" is called by the host");
  }
  TestHost host(driver);
  int calls = 0;
  host.handlers["told"] = [&](auto, auto, auto, auto results) {
    ++calls;
    const float unused = 0;
    results[0] = host.make_result(4, &unused);
  };
  session.run(std::vector<InputArg>{Tensor::f32(driver, {1}, {1}).arg(),
                                    Tensor::f32(driver, {1}, {5}).arg()},
              host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{16}));
  EXPECT_COMPUTED(calls, 3);
}

bool has_nodes() {
  const auto drivers = available_drivers();
  std::string why_not;
  return std::count(drivers.begin(), drivers.end(), "cuda_graph") == 1 &&
         nvidia::conditional_api(why_not) != nullptr;
}

struct StreamHost final : TestHost {
  explicit StreamHost(nvidia::Stream the_stream) : TestHost("cuda_graph"), stream_(the_stream) {}
  std::optional<std::uint64_t> stream() override {
    return reinterpret_cast<std::uint64_t>(stream_);
  }
  nvidia::Stream stream_;
};

TEST(CudaControl, a_capture_of_the_caller_decides_at_each_launch) {
  if (!has_nodes()) GTEST_SKIP() << "NO GPU, or its driver has no conditional nodes\n";
  const std::string driver = "cuda_graph";
  std::string why_not;
  const nvidia::DriverApi& api = *nvidia::driver_api(why_not);
  Session session(load_program(doubling(""), driver), {.driver = driver});
  const Tensor x = Tensor::f32(driver, {1}, {1});
  Tensor limit = Tensor::f32(driver, {1}, {5});
  nvidia::Stream stream = nullptr;
  ASSERT_EQ(api.stream_create(&stream, nvidia::kStreamNonBlocking), 0);
  StreamHost host(stream);
  ASSERT_EQ(api.capture_begin(stream, nvidia::kCaptureRelaxed), 0);
  session.run(std::vector<InputArg>{x.arg(), limit.arg()}, host);
  nvidia::Graph graph = nullptr;
  ASSERT_EQ(api.capture_end(stream, &graph), 0);
  nvidia::GraphExec exec = nullptr;
  ASSERT_EQ(api.graph_instantiate(&exec, graph, 0), 0);
  for (const auto& [below, reached] : {std::pair{5.0F, 16.0F}, {100.0F, 256.0F}, {1.0F, 2.0F}}) {
    limit.memory.upload(&below);
    ASSERT_EQ(api.graph_launch(exec, stream), 0);
    ASSERT_EQ(api.stream_synchronize(stream), 0);
    EXPECT_EQ(host.f32(0), std::vector<float>{reached}) << below;
  }
  api.graph_exec_destroy(exec);
  api.graph_destroy(graph);
  api.stream_destroy(stream);
}

}  // namespace
}  // namespace gex::runtime::testing
