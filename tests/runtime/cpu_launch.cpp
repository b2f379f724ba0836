// The CPU driver: how launches are split over workers, scratch, static code in the background.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "base/thread_pool.hpp"
#include "harness.hpp"
#include "runtime/background/background.hpp"

namespace gex::runtime::testing {
namespace {

struct Seen {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  std::set<std::byte*> scratch;
};

void record_range(const void* context, void* const* buffers, const std::int64_t* dims,
                  std::int64_t begin, std::int64_t end, std::byte* scratch) {
  auto& seen = *static_cast<Seen*>(const_cast<void*>(context));
  auto* out = static_cast<float*>(buffers[0]);
  for (std::int64_t i = begin; i < end; ++i) out[i] += 1;
  if (scratch != nullptr) std::memset(scratch, 1, static_cast<std::size_t>(dims[0]));
  const std::lock_guard lock(seen.mutex);
  seen.threads.insert(std::this_thread::get_id());
  seen.ranges.emplace_back(begin, end);
  seen.scratch.insert(scratch);
}

struct Launched {
  Seen seen;
  std::vector<float> values;
};

void launch(Launched& out, std::int64_t grid, std::int64_t work, bool ordered) {
  const std::string text =
      "program \"spread\"\ninput 0 \"x\" f32 [" + std::to_string(grid) +
      "] -> %0\nbuffer %0 \"x\" input 0 f32 [" + std::to_string(grid) + "] bytes [" +
      std::to_string(grid * 4) + "]\ncode 0 \"k\"\nmain 0\nsegment 0 \"main\"\n" +
      "  launch \"k\" code 0 write %0 dims [100] grid [" + std::to_string(grid) +
      "] scratch [100] work [" + std::to_string(work) + "]" + (ordered ? " ordered" : "") + "\n";
  Session session(with_function(program::parse_program(text), {record_range, &out.seen, nullptr}),
                  {});
  const Tensor x =
      Tensor::f32("cpu", {grid}, std::vector<float>(static_cast<std::size_t>(grid), 0.0F));
  TestHost host("cpu");
  session.run(std::vector<InputArg>{x.arg()}, host);
  out.values = x.values<float>();
}

class WithThreads : public ::testing::Test {
 protected:
  WithThreads() { ThreadPool::global().set_threads(4); }
  ~WithThreads() override { ThreadPool::global().set_threads(before_); }
  int before_ = ThreadPool::global().threads();
};

using CpuLaunch = WithThreads;

TEST_F(CpuLaunch, large_work_is_spread_and_every_point_runs_once) {
  Launched launched;
  launch(launched, 1000, 1 << 24, false);
  EXPECT_GT(launched.seen.ranges.size(), 4U);
  EXPECT_EQ(launched.values, std::vector<float>(1000, 1.0F));
  for (std::byte* scratch : launched.seen.scratch) {
    EXPECT_NE(scratch, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch) % 64, 0U);
  }
}

TEST_F(CpuLaunch, small_work_stays_on_the_calling_thread_as_one_chunk) {
  Launched launched;
  launch(launched, 1000, 32 * 1024 - 1, false);
  EXPECT_EQ(launched.seen.ranges, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1000}}));
  EXPECT_EQ(launched.seen.threads, (std::set<std::thread::id>{std::this_thread::get_id()}));
}

TEST_F(CpuLaunch, ordered_work_runs_in_order_on_one_worker) {
  Launched launched;
  launch(launched, 1000, 1 << 24, true);
  EXPECT_EQ(launched.seen.ranges, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1000}}));
}

TEST_F(CpuLaunch, chunks_have_a_minimum_size) {
  Launched launched;
  launch(launched, 1000, 64 * 1024, false);  // 4 chunks of 16 k units
  EXPECT_LE(launched.seen.ranges.size(), 4U);
  EXPECT_EQ(launched.values, std::vector<float>(1000, 1.0F));
}

// Static code that adds 1 like the generic code, and is recognised by its context.
class TestSpecialiser final : public Specialiser {
 public:
  program::Callable specialise(int code, std::span<const std::int64_t> dims) override {
    const std::lock_guard lock(mutex);
    asked.emplace_back(code, dims[0]);
    entered = true;
    while (blocked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (fails) throw UserError(ErrorCode::unsupported, "no such luck");
    if (declines) return {};
    return {[](const void* runs, void* const* buffers, const std::int64_t*, std::int64_t begin,
               std::int64_t end, std::byte*) {
              ++*static_cast<std::atomic<int>*>(const_cast<void*>(runs));
              for (std::int64_t i = begin; i < end; ++i)
                static_cast<float*>(buffers[1])[i] = static_cast<const float*>(buffers[0])[i] + 1;
            },
            &static_runs, nullptr};
  }
  std::mutex mutex;
  std::vector<std::pair<int, std::int64_t>> asked;
  std::atomic<int> static_runs{0};
  std::atomic<bool> fails{false}, declines{false}, blocked{false}, entered{false};
};

const std::string kTwo = count_up(1);

void run(Session& session, std::int64_t size, int times) {
  const std::string driver = "cpu";
  for (int i = 0; i < times; ++i) {
    const auto count = static_cast<std::size_t>(size);
    const Tensor x = Tensor::f32(driver, {size}, std::vector<float>(count, 1.0F));
    TestHost host(driver);
    session.run(std::vector<InputArg>{x.arg()}, host);
    EXPECT_EQ(host.f32(0), std::vector<float>(count, 3.0F));
  }
}

TEST(StaticCode, a_hot_key_gets_static_code_and_a_cold_one_does_not) {
  const auto specialiser = std::make_shared<TestSpecialiser>();
  Session session(load_program(kTwo, "cpu"), {.hot_after = 3}, specialiser);
  run(session, 10, 2);
  run(session, 20, 1);
  wait_for_background();
  EXPECT_TRUE(specialiser->asked.empty());
  run(session, 10, 1);
  wait_for_background();
  EXPECT_EQ(specialiser->asked, (std::vector<std::pair<int, std::int64_t>>{{0, 10}}))
      << "two launches of equal sizes share one compile";
  run(session, 10, 5);
  EXPECT_EQ(specialiser->static_runs, 10);
  run(session, 20, 1);
  EXPECT_EQ(specialiser->static_runs, 10);
  EXPECT_EQ(session.counters().specialised, 2);
}

TEST(StaticCode, a_hot_size_within_a_gear_gets_code_for_itself) {
  const auto specialiser = std::make_shared<TestSpecialiser>();
  SessionOptions options;
  options.hot_after = 2;
  options.gears = {GearOptions::Policy::listed};
  options.gears.ladders.push_back({{Dim(0)}, {{64}}});
  Session session(load_program(kTwo, "cpu"), options, specialiser);
  run(session, 10, 2);
  run(session, 20, 1);
  wait_for_background();
  EXPECT_EQ(specialiser->asked, (std::vector<std::pair<int, std::int64_t>>{{0, 10}}));
  run(session, 20, 1);
  wait_for_background();
  EXPECT_EQ(specialiser->asked.size(), 2U);
  EXPECT_EQ(specialiser->asked.back().second, 20);
  specialiser->static_runs = 0;
  run(session, 10, 1);
  run(session, 30, 1);
  EXPECT_EQ(specialiser->static_runs, 2) << "two launches with 10; none yet with 30";
  EXPECT_EQ(session.counters().captures, 1);
}

TEST(StaticCode, rotating_sizes_within_a_gear_all_get_static_code) {
  constexpr int kSizes = 24;
  const auto specialiser = std::make_shared<TestSpecialiser>();
  SessionOptions options;
  options.hot_after = 2;
  options.gears = {GearOptions::Policy::listed};
  options.gears.ladders.push_back({{Dim(0)}, {{64}}});
  Session session(load_program(kTwo, "cpu"), options, specialiser);
  for (int round = 0; round < 2; ++round)
    for (int size = 1; size <= kSizes; ++size) run(session, size, 1);
  wait_for_background();
  EXPECT_EQ(specialiser->asked.size(), static_cast<std::size_t>(kSizes));
  for (int size = 1; size <= kSizes; ++size) run(session, size, 1);
  EXPECT_EQ(specialiser->static_runs, 2 * kSizes);
  EXPECT_EQ(session.counters().captures, 1);
}

TEST(StaticCode, calls_go_on_with_generic_code_while_it_is_compiled) {
  const auto specialiser = std::make_shared<TestSpecialiser>();
  specialiser->blocked = true;
  Session session(load_program(kTwo, "cpu"), {.hot_after = 1}, specialiser);
  run(session, 10, 20);
  EXPECT_EQ(specialiser->static_runs, 0);
  specialiser->blocked = false;
  wait_for_background();
  run(session, 10, 1);
  EXPECT_EQ(specialiser->static_runs, 2);
}

TEST(StaticCode, a_failed_or_declined_compile_keeps_the_generic_code_and_reports_why) {
  const auto specialiser = std::make_shared<TestSpecialiser>();
  specialiser->fails = true;
  Session session(load_program(kTwo, "cpu"), {.hot_after = 1}, specialiser);
  run(session, 10, 2);
  wait_for_background();
  run(session, 10, 1);
  EXPECT_HAS(session.captures()[0].note, "no such luck");
  specialiser->fails = false;
  specialiser->declines = true;
  run(session, 11, 2);
  wait_for_background();
  run(session, 11, 1);
  EXPECT_EQ(specialiser->static_runs, 0);
  EXPECT_EQ(session.counters().specialised, 0);
}

// Set by the child's compile; read by an exit handler that is registered before any of the library
// and thus runs after them.
std::atomic<bool> in_child{false}, compile_ended{false};
[[maybe_unused]] const int registered = std::atexit([] {
  if (in_child) _exit(compile_ended ? 0 : 2);
});

class SlowSpecialiser final : public Specialiser {
 public:
  program::Callable specialise(int, std::span<const std::int64_t>) override {
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    compile_ended = true;
    return {};
  }
  std::atomic<bool> entered{false};
};

TEST(StaticCode, exit_waits_for_the_kernel_being_compiled) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
#endif
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    in_child = true;
    const auto specialiser = std::make_shared<SlowSpecialiser>();
    Session session(load_program(kTwo, "cpu"), {.hot_after = 1}, specialiser);
    run(session, 10, 1);
    while (!specialiser->entered) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(StaticCode, a_session_may_be_destroyed_while_its_code_is_compiled) {
  const auto specialiser = std::make_shared<TestSpecialiser>();
  specialiser->blocked = true;
  {
    Session session(load_program(kTwo, "cpu"), {.hot_after = 1}, specialiser);
    run(session, 10, 1);
  }
  specialiser->blocked = false;
  wait_for_background();
}

}  // namespace
}  // namespace gex::runtime::testing
