// Conformance: steps on several streams give what they give in list order.

#include "plan/streams.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>

#include "harness.hpp"
#include "random_streams.hpp"
#include "runtime/trace.hpp"

namespace gex::runtime::testing {
namespace {

// The kernel of random_program().
GEX_TEST_KERNEL(mix, {
  float sum = 1;
  for (int64_t k = 0; k < dims[0]; ++k) sum += ((const float*)buffers[k])[point] * 0.5f;
  ((float*)buffers[dims[0]])[point] = sum;
})

std::vector<float> result_of(const program::Program& program, const std::string& driver) {
  Session session(load_program(program::print(program), driver), {.driver = driver});
  std::vector<float> values(kElements);
  for (int i = 0; i < kElements; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const Tensor x = Tensor::f32(driver, {kElements}, values);
  std::vector<float> first;
  for (int call = 0; call < 3; ++call) {
    TestHost host(driver);
    session.run(std::vector<InputArg>{x.arg()}, host);
    if (call == 0)
      first = host.f32(0);
    else
      EXPECT_COMPUTED(host.f32(0), first);
  }
  return first;
}

// How often streams waited for events, where the CUDA driver is tests/runtime/fake_cuda; else -1.
int waits_so_far() {
  const char* folder = std::getenv("GEX_CUDA_LIBRARY_PATH");
  if (folder == nullptr) return -1;
  void* library = dlopen((std::string(folder) + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return -1;
  void* function = dlsym(library, "gex_fake_waits");
  dlclose(library);
  return function == nullptr ? -1 : reinterpret_cast<int (*)()>(function)();
}

CONFORMANCE(streams_with_events_give_what_list_order_gives) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 3; ++trial) {
    // Text for CUDA has one number of operands for a code.
    program::Program streamed = program::parse_program(random_program(random, 24, 2));
    program::Program serial = streamed;
    for (program::Step& step : serial.segments[0].steps) step.stream = 0;
    serial.num_streams = 1;
    plan::synchronise_streams(streamed);
    ASSERT_GT(streamed.num_events, 0);
    const int before = waits_so_far();
    const std::vector<float> result = result_of(streamed, driver);
    if (before >= 0 && driver.starts_with("cuda")) {
      EXPECT_GE(waits_so_far() - before, streamed.num_events)
          << "streams are streams of the device";
    }
    EXPECT_COMPUTED(result, result_of(serial, driver));
  }
}

// Keeps the traces of all calls.
struct KeptTraces final : TraceSink {
  void take(const std::shared_ptr<const program::Program>&, CallTrace trace) override {
    traces.push_back(std::move(trace));
  }
  std::vector<CallTrace> traces;
};

CONFORMANCE(streams_of_a_traced_call_are_its_lanes) {
  std::mt19937 random(11);
  program::Program streamed = program::parse_program(random_program(random, 24, 2));
  plan::synchronise_streams(streamed);
  const std::vector<float> untraced = result_of(streamed, driver);
  const auto kept = std::make_shared<KeptTraces>();
  set_trace_sink(kept);
  const std::vector<float> traced = result_of(streamed, driver);
  set_trace_sink(nullptr);
  EXPECT_COMPUTED(traced, untraced);
  ASSERT_FALSE(kept->traces.empty());
  if (!driver.starts_with("cuda")) return;
  std::map<int, int> expected;  // steps by stream
  for (const program::Step& step : streamed.segments[0].steps)
    if (!std::holds_alternative<program::Record>(step.op) &&
        !std::holds_alternative<program::Wait>(step.op))
      ++expected[step.stream];
  ASSERT_GT(expected.size(), 1U);
  for (const CallTrace& trace : kept->traces) {
    std::map<int, std::int64_t> until;
    std::map<int, int> steps;
    int of_host = 0;
    for (const TraceEvent& event : trace.events()) {
      EXPECT_LE(event.begin, event.end);
      of_host += event.step == &HostWork::enqueue || event.step == &HostWork::wait;
      if (event.worker == TraceEvent::kHost) continue;
      ++steps[event.worker];
      EXPECT_GE(event.begin, until[event.worker]) << "steps of a stream follow each other";
      until[event.worker] = event.end;
    }
    EXPECT_EQ(steps, expected);
    EXPECT_EQ(of_host, 2) << "the host enqueues, and waits";
  }
}

CONFORMANCE(a_wait_for_an_event_that_was_not_recorded_has_no_effect) {
  const std::string text = R"(program "waits"
streams 2
events 1
input 0 "x" f32 [4] -> %0
output 0 "y" fresh f32 [4] -> %1
buffer %0 "x" input 0 f32 [4] bytes [16]
buffer %1 "y" output 0 f32 [4] bytes [16]
code 0 "mix"
main 0
segment 0 "main"
  wait 0 stream 1
  launch "mix" code 0 read %0 write %1 dims [1] grid [4] work [4] stream 1
  record 0 stream 1
)";
  Session session(load_program(text, driver), {.driver = driver});
  const Tensor x = Tensor::f32(driver, {4}, {0, 2, 4, 6});
  for (int call = 0; call < 3; ++call) {
    TestHost host(driver);
    session.run(std::vector<InputArg>{x.arg()}, host);
    EXPECT_COMPUTED(host.f32(0), (std::vector<float>{1, 2, 3, 4}));
  }
}

}  // namespace
}  // namespace gex::runtime::testing
