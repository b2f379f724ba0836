#include "base/host_workers.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace gex {
namespace {

// Runs the tasks one after another on the calling thread, then lets it wait.
ExternalWorkers workers_that_keep_waiting(std::chrono::microseconds wait, int& loops) {
  return {2, [wait, &loops](std::int64_t count, ExternalWorkers::Task task, void* context) {
            ++loops;
            for (std::int64_t k = 0; k < count; ++k) task(context, k);
            std::this_thread::sleep_for(wait);
          }};
}

void add_one(void* context, std::int64_t begin, std::int64_t end, int) {
  for (std::int64_t i = begin; i < end; ++i) ++static_cast<int*>(context)[i];
}

TEST(HostWorkers, every_index_is_done_once_by_as_many_threads_as_come) {
  for (const int threads : {2, 3}) {
    HostWorkers host;
    host.offer({threads, [](std::int64_t count, ExternalWorkers::Task task, void* context) {
                  std::vector<std::thread> others;
                  for (std::int64_t k = 1; k < count; ++k)
                    others.emplace_back([=] { task(context, k); });
                  task(context, 0);
                  for (std::thread& t : others) t.join();
                }});
    std::vector<int> times(7, 0);
    ASSERT_TRUE(host.run(7, threads, add_one, times.data()));
    EXPECT_EQ(times, std::vector<int>(7, 1));
  }
}

TEST(HostWorkers, nothing_is_done_without_an_offer) {
  HostWorkers host;
  std::vector<int> times(4, 0);
  EXPECT_FALSE(host.run(4, 2, add_one, times.data()));
  EXPECT_EQ(times, std::vector<int>(4, 0));
}

TEST(HostWorkers, more_threads_than_there_is_scratch_for_are_not_used) {
  int loops = 0;
  HostWorkers host;
  host.offer(workers_that_keep_waiting({}, loops));
  std::vector<int> times(4, 0);
  EXPECT_FALSE(host.run(4, 1, add_one, times.data()));
  EXPECT_EQ(loops, 0);
}

TEST(HostWorkers, a_wait_of_a_millisecond_is_paid_back_by_thousands_of_loops_without_them) {
  int loops = 0;
  HostWorkers host;
  host.offer(workers_that_keep_waiting(std::chrono::milliseconds(1), loops));
  std::vector<int> times(4, 0);
  ASSERT_TRUE(host.run(4, 2, add_one, times.data()));
  for (int i = 0; i < 9'000; ++i) ASSERT_FALSE(host.run(4, 2, add_one, times.data())) << i;
  EXPECT_EQ(loops, 1);
  int left = 0;
  while (!host.run(4, 2, add_one, times.data())) ASSERT_LT(++left, 100'000'000);
  EXPECT_EQ(loops, 2);
  EXPECT_EQ(times, std::vector<int>(4, 2));
}

TEST(HostWorkers, another_thread_does_its_work_alone) {
  int loops = 0;
  HostWorkers host;
  host.offer(workers_that_keep_waiting({}, loops));
  std::vector<int> times(4, 0);
  bool shared = true;
  std::thread([&] { shared = host.run(4, 2, add_one, times.data()); }).join();
  EXPECT_FALSE(shared);
  EXPECT_EQ(loops, 0);
}

TEST(HostWorkers, an_exception_of_a_body_reaches_the_caller) {
  int loops = 0;
  HostWorkers host;
  host.offer(workers_that_keep_waiting({}, loops));
  const ThreadPool::Body fail = [](void*, std::int64_t, std::int64_t, int) {
    throw std::runtime_error("body");
  };
  EXPECT_THROW(host.run(4, 2, fail, nullptr), std::runtime_error);
  EXPECT_EQ(loops, 1);
}

TEST(HostWorkers, a_forked_child_leaves_its_parent_s_threads_alone) {
  static int loops = 0;  // the offer outlives the test
  HostWorkers& host = HostWorkers::global();
  host.offer(workers_that_keep_waiting({}, loops));
  std::vector<int> times(4, 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(host.run(4, 2, add_one, times.data()) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace gex
