// Conformance: captures and their limit, concurrent calls, memory that runs out, fork.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/thread_pool.hpp"
#include "harness.hpp"
#include "runtime/device.hpp"
#include "runtime/drivers/null/null_device.hpp"

namespace gex::runtime::testing {
namespace {

const std::string kThree = count_up(2);

void run_and_check(Session& session, const std::string& driver, std::int64_t size, float from) {
  const auto count = static_cast<std::size_t>(size);
  const Tensor x = Tensor::f32(driver, {size}, std::vector<float>(count, from));
  TestHost host(driver);
  session.run(std::vector<InputArg>{x.arg()}, host);
  EXPECT_COMPUTED(host.f32(0), std::vector<float>(count, from + 3));
}

CONFORMANCE(the_least_recently_used_capture_goes_first) {
  Session session(load_program(kThree, driver), {.capture_limit = 2, .driver = driver});
  for (const std::int64_t size : {100, 2000, 100, 30000, 100, 2000})
    run_and_check(session, driver, size, 1);
  const Counters counters = session.counters();
  EXPECT_EQ(counters.captures, 4) << "2000 was dropped for 30000 and made again";
  EXPECT_EQ(counters.evictions, 2);
  EXPECT_EQ(counters.replays, 2);
  const auto captures = session.captures();
  ASSERT_EQ(captures.size(), 2U);
  EXPECT_GE(captures[0].key[0], 2000);
  EXPECT_LT(captures[1].key[0], 2000);
}

CONFORMANCE(a_limit_of_zero_runs_everything_uncaptured) {
  Session session(load_program(kThree, driver), {.capture_limit = 0, .driver = driver});
  for (const std::int64_t size : {10, 20, 10}) run_and_check(session, driver, size, 1);
  EXPECT_EQ(session.counters().uncaptured, 3);
  EXPECT_EQ(session.counters().captures, 0);
  EXPECT_TRUE(session.captures().empty());
}

CONFORMANCE(several_threads_call_one_session_at_once) {
  Session session(load_program(kThree, driver), {.driver = driver});
  constexpr int kThreads = 6, kCalls = 40;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i)
        run_and_check(session, driver, 100 + (i % 3) * 20000, static_cast<float>(t * 1000 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Counters counters = session.counters();
  EXPECT_EQ(counters.calls, kThreads * kCalls);
  EXPECT_EQ(counters.launches, kThreads * kCalls * 3);
  EXPECT_EQ(counters.captures + counters.replays, counters.calls);
}

CONFORMANCE(sessions_of_one_driver_share_their_arena) {
  const auto context = open_device(driver);
  Session first(load_program(kThree, driver), {.driver = driver});
  Session second(load_program(kThree, driver), {.driver = driver});
  context->queues->trim();
  run_and_check(first, driver, 5000, 1);
  run_and_check(second, driver, 5000, 2);
  run_and_check(second, driver, 4000, 2);
  EXPECT_EQ(first.counters().allocations, 1);
  EXPECT_EQ(second.counters().allocations, 0);
  EXPECT_EQ(context->queues->idle_queues(), 1U);
}

// A device with a small, fixed amount of memory.
class TinyDevice final : public NullDevice {
 public:
  void* allocate(std::size_t bytes) override {
    if (used_ + bytes > 1 << 20)
      fail(ErrorCode::out_of_memory, "tiny: ", used_, " of 1 MiB in use, no room for ", bytes);
    used_ += bytes;
    return NullDevice::allocate(bytes);
  }
  void deallocate(void*, std::size_t bytes) noexcept override { used_ -= bytes; }
  int max_queues() const override { return 4; }

 private:
  std::atomic<std::size_t> used_{0};
};

TEST(Memory, idle_arenas_are_freed_when_memory_runs_out) {
  register_driver("tiny", [] { return std::make_unique<TinyDevice>(); });
  Session session(load_program(kThree, "null"), {.driver = "tiny"});
  const auto context = open_device("tiny");
  // Two idle arenas of 400 kB leave no room for a third of 800 kB.
  auto a = context->queues->acquire(0), b = context->queues->acquire(0);
  a->arena.reserve(0, 400000);
  b->arena.reserve(0, 400000);
  context->queues->give_back(std::move(a));
  context->queues->give_back(std::move(b));
  TestHost host("null");
  const Tensor x = Tensor::f32("null", {100000}, std::vector<float>(100000, 0.0F));
  session.run(std::vector<InputArg>{x.arg()}, host);
  EXPECT_EQ(session.counters().allocations, 1);
}

TEST(Memory, a_call_that_does_not_fit_fails_and_leaves_the_session_usable) {
  register_driver("tiny", [] { return std::make_unique<TinyDevice>(); });
  Session session(load_program(kThree, "null"), {.driver = "tiny"});
  TestHost host("null");
  const auto context = open_device("tiny");
  auto keeper = context->queues->acquire(0);
  keeper->arena.reserve(0, 900000);  // in use elsewhere
  const Tensor large = Tensor::f32("null", {100000}, std::vector<float>(100000, 0.0F));
  const Tensor small = Tensor::f32("null", {10}, std::vector<float>(10, 0.0F));
  EXPECT_HAS(error_of([&] { session.run(std::vector<InputArg>{large.arg()}, host); }),
             "1 MiB in use");
  session.run(std::vector<InputArg>{small.arg()}, host);
  context->queues->give_back(std::move(keeper));
  session.run(std::vector<InputArg>{large.arg()}, host);
  EXPECT_EQ(session.counters().calls, 2);
}

// Of many workers: their scratch is a large block by itself.
struct GivingDevice final : NullDevice {
  int workers() const override { return 64; }
  void discard(void*, std::size_t bytes) noexcept override { given_back += bytes; }
  static inline std::atomic<std::size_t> given_back{0};
};

TEST(Memory, only_a_call_with_large_temporaries_discards_memory) {
  register_driver("giving", [] { return std::make_unique<GivingDevice>(); });
  const auto bytes_given_back = [](std::int64_t temporary) {
    const std::string text = R"(program "scratch"
output 0 "y" fresh f32 [8] -> %0
buffer %0 "y" output 0 f32 [8] bytes [32]
buffer %1 "t" temp u8 [)" + std::to_string(temporary) +
                             "] bytes [" + std::to_string(temporary) + R"(]
code 0 "add_one"
main 0
segment 0 "main"
  launch "add_one" code 0 write %1 grid [8] scratch [1048576] work [8]
  launch "add_one" code 0 read %1 write %0 grid [8] scratch [1048576] work [8]
)";
    Session session(load_program(text, "null"), {.driver = "giving", .keep_arena = false});
    TestHost host("null");
    GivingDevice::given_back = 0;
    session.run({}, host);
    return GivingDevice::given_back.load();
  };
  EXPECT_EQ(bytes_given_back(1024), 0U);
  EXPECT_GT(bytes_given_back(std::int64_t{16} << 20), std::size_t{16} << 20);
}

TEST(Memory, everything_is_freed_with_the_last_session) {
  static std::atomic<int> live{0};
  struct Counting final : NullDevice {
    void* allocate(std::size_t bytes) override {
      ++live;
      return NullDevice::allocate(bytes);
    }
    void deallocate(void*, std::size_t) noexcept override { --live; }
  };
  register_driver("counting", [] { return std::make_unique<Counting>(); });
  {
    Session session(load_program(kThree, "null"), {.driver = "counting"});
    TestHost host("null");
    const Tensor x = Tensor::f32("null", {10}, std::vector<float>(10, 0.0F));
    session.run(std::vector<InputArg>{x.arg()}, host);
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

TEST(Fork, a_child_runs_the_sessions_of_its_parent) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
#endif
  Session session(load_program(kThree, "cpu"), {.driver = "cpu"});
  run_and_check(session, "cpu", 60000, 1);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) run_and_check(session, "cpu", 60000, 2);
  });
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a child that hangs counts as failed
      run_and_check(session, "cpu", 60000, 3);
      run_and_check(session, "cpu", 50, 4);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace gex::runtime::testing
