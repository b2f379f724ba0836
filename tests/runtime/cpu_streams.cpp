// Concurrent streams on the CPU, and limits on workers.

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "base/thread_pool.hpp"
#include "harness.hpp"
#include "plan/streams.hpp"
#include "random_streams.hpp"
#include "runtime/session/core_limit.hpp"

namespace gex::runtime::testing {
namespace {

class CpuStreams : public ::testing::Test {
 protected:
  CpuStreams() { ThreadPool::global().set_threads(4); }
  ~CpuStreams() override {
    ThreadPool::global().set_threads(before_);
    set_stream_limit(0, std::nullopt);
    set_device_limit({});
    set_current_stream(0);
  }
  int before_ = ThreadPool::global().threads();
};

std::shared_ptr<program::Program> parsed(const std::string& text) {
  return std::make_shared<program::Program>(program::parse_program(text));
}

// Returns when another kernel of this kind is running too, or reports a timeout.
struct Meeting {
  std::atomic<int> here{0};
  std::atomic<bool> missed{false};
};

void meet(const void* context, void* const*, const std::int64_t*, std::int64_t, std::int64_t,
          std::byte*) {
  auto& meeting = *static_cast<Meeting*>(const_cast<void*>(context));
  ++meeting.here;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (meeting.here.load() < 2 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  if (meeting.here.load() < 2) meeting.missed = true;
}

TEST_F(CpuStreams, steps_of_two_streams_run_at_the_same_time) {
  auto program = parsed(R"(program "two"
streams 2
buffer %0 "a" temp f32 [4] bytes [16]
buffer %1 "b" temp f32 [4] bytes [16]
code 0 "meet"
main 0
segment 0 "main"
  launch "a" code 0 write %0 grid [1] work [4000000]
  launch "b" code 0 write %1 grid [1] work [4000000] stream 1
)");
  Meeting meeting;
  Session session(with_function(*program, {meet, &meeting, nullptr}), {});
  TestHost host("cpu");
  session.run({}, host);
  EXPECT_FALSE(meeting.missed.load());
  EXPECT_GE(session.counters().overlapped_launches, 1);
  EXPECT_EQ(session.counters().launches, 2);
}

// out = (a mixture of its operands) + 1, slow enough that others run meanwhile.
void mix(const void*, void* const* buffers, const std::int64_t* dims, std::int64_t begin,
         std::int64_t end, std::byte*) {
  const auto num_inputs = static_cast<std::size_t>(dims[0]);
  auto* out = static_cast<float*>(buffers[num_inputs]);
  for (std::int64_t i = begin; i < end; ++i) {
    float sum = 1;
    for (std::size_t k = 0; k < num_inputs; ++k)
      sum += static_cast<const float*>(buffers[k])[i] * 0.5F;
    out[i] = sum;
  }
}

std::vector<float> result_of(program::Program program, int calls, Counters& counters) {
  Session session(with_function(std::move(program), {mix, nullptr, nullptr}), {});
  std::vector<float> values(kElements);
  for (int i = 0; i < kElements; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const Tensor x = Tensor::f32("cpu", {kElements}, values);
  std::vector<float> first;
  for (int call = 0; call < calls; ++call) {
    TestHost host("cpu");
    session.run(std::vector<InputArg>{x.arg()}, host);
    if (call == 0) first = host.f32(0);
    EXPECT_EQ(host.f32(0), first) << "call " << call;
  }
  counters = session.counters();
  return first;
}

TEST_F(CpuStreams, results_do_not_depend_on_which_steps_overlap) {
  std::mt19937 random(7);
  std::int64_t overlapped = 0;
  // On a busy machine one worker may do it all: more rounds until two have worked at a time.
  for (int round = 0; round < 20 || (overlapped == 0 && round < 400); ++round) {
    program::Program side_by_side = program::parse_program(random_program(random, 40));
    program::Program serial = side_by_side;
    for (program::Step& step : serial.segments[0].steps) step.stream = 0;
    serial.num_streams = 1;
    plan::synchronise_streams(side_by_side);
    program::verify(side_by_side);
    Counters one, many;
    const std::vector<float> want = result_of(serial, 1, one);
    EXPECT_EQ(result_of(side_by_side, 25, many), want) << "round " << round;
    EXPECT_EQ(one.overlapped_launches, 0);
    overlapped += many.overlapped_launches;
  }
  EXPECT_GT(overlapped, 0);
}

TEST_F(CpuStreams, an_error_in_a_stream_reaches_the_caller_and_the_next_call_works) {
  auto program = parsed(R"(program "fails"
streams 2
events 1
buffer %0 "a" temp f32 [4] bytes [16]
buffer %1 "b" temp f32 [4] bytes [16]
code 0 "fail"
main 0
segment 0 "main"
  launch "a" code 0 write %0 grid [64] work [4000000]
  launch "b" code 0 write %1 grid [64] work [4000000] stream 1
  record 0 stream 1
  wait 0
  launch "c" code 0 read %1 write %0 grid [64] work [4000000]
)");
  static std::atomic<bool> fails;
  const program::Callable fail_or_not = {
      [](const void*, void* const*, const std::int64_t*, std::int64_t, std::int64_t, std::byte*) {
        if (fails.load()) throw UserError(ErrorCode::unsupported, "no such luck");
      },
      nullptr, nullptr};
  Session session(with_function(*program, fail_or_not), {});
  TestHost host("cpu");
  fails = true;
  EXPECT_THROW(session.run({}, host), UserError);
  fails = false;
  session.run({}, host);
  EXPECT_EQ(session.counters().launches, 3);
}

struct Seen {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::int64_t points = 0;
};

void see(const void* context, void* const*, const std::int64_t*, std::int64_t begin,
         std::int64_t end, std::byte*) {
  auto& seen = *static_cast<Seen*>(const_cast<void*>(context));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(1));  // otherwise one worker would do it all
  const std::lock_guard lock(seen.mutex);
  seen.threads.insert(std::this_thread::get_id());
  seen.points += end - begin;
}

std::shared_ptr<program::Executable> spread(Seen& seen, const std::string& about) {
  auto program = parsed(R"(program "spread"
buffer %0 "a" temp f32 [4] bytes [16]
code 0 "see"
main 0
segment 0 "main"
  launch "see" code 0 write %0 grid [64] work [400000000])" +
                        about + "\n");
  return with_function(*program, {see, &seen, nullptr});
}

TEST_F(CpuStreams, a_step_uses_no_more_workers_than_it_may) {
  for (const int threads : {1, 2, 3}) {
    Seen seen;
    Session session(spread(seen, " threads " + std::to_string(threads)), {});
    TestHost host("cpu");
    for (int call = 0; call < 5; ++call) {
      seen.threads.clear();
      session.run({}, host);
      EXPECT_LE(seen.threads.size(), static_cast<std::size_t>(threads));
    }
    EXPECT_EQ(seen.points, 5 * 64);
    EXPECT_EQ(session.counters().limited_launches, 5);
  }
}

TEST_F(CpuStreams, without_a_limit_more_workers_run) {
  Seen seen;
  Session session(spread(seen, ""), {});
  TestHost host("cpu");
  for (int call = 0; call < 20 && seen.threads.size() < 2; ++call) session.run({}, host);
  EXPECT_GE(seen.threads.size(), 2U);
  EXPECT_EQ(session.counters().limited_launches, 0);
}

TEST_F(CpuStreams, a_changed_limit_of_the_callers_stream_recaptures) {
  Seen seen;
  Session session(spread(seen, ""), {});
  TestHost host("cpu");
  session.run({}, host);
  session.run({}, host);
  EXPECT_EQ(session.counters().limit_recaptures, 0);
  set_stream_limit(5, CoreLimit{1, 1});
  session.run({}, host);
  EXPECT_EQ(session.counters().limit_recaptures, 0) << "another stream";
  set_current_stream(5);
  seen.threads.clear();
  session.run({}, host);
  session.run({}, host);
  EXPECT_EQ(session.counters().limit_recaptures, 1);
  EXPECT_EQ(session.counters().limited_launches, 2);
  EXPECT_EQ(seen.threads, (std::set<std::thread::id>{std::this_thread::get_id()}));
  set_stream_limit(5, std::nullopt);
  session.run({}, host);
  EXPECT_EQ(session.counters().limit_recaptures, 2);
  EXPECT_EQ(session.counters().limited_launches, 2);
  EXPECT_EQ(session.counters().captures, 1);
}

TEST_F(CpuStreams, matmuls_and_other_steps_have_separate_limits) {
  set_device_limit({2, 1});
  for (const bool matrix : {true, false}) {
    Seen seen;
    auto program = spread(seen, matrix ? " matrix" : "");
    Session session(program, {});
    TestHost host("cpu");
    for (int call = 0; call < 20; ++call) {
      seen.threads.clear();
      session.run({}, host);
      EXPECT_LE(seen.threads.size(), matrix ? 2U : 1U);
    }
    EXPECT_EQ(session.counters().limited_launches, 20);
  }
}

TEST_F(CpuStreams, a_steps_limit_overrides_the_callers) {
  set_device_limit({1, 1});
  Seen seen;
  Session session(spread(seen, " threads 4"), {});
  TestHost host("cpu");
  for (int call = 0; call < 20 && seen.threads.size() < 2; ++call) session.run({}, host);
  EXPECT_GE(seen.threads.size(), 2U);
}

}  // namespace
}  // namespace gex::runtime::testing
