#include "base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/cpu_count.hpp"
#include "base/error.hpp"

namespace gex {
namespace {

using Region = ThreadPool::Region;

class ThreadPoolTest : public testing::Test {
 protected:
  void SetUp() override { pool_.set_threads(4); }
  void TearDown() override { pool_.set_threads(before_); }

  // Every element of [0, n) once, in chunks that begin at a multiple of the grain.
  static void expect_covers(Region& region, std::int64_t n, std::int64_t grain) {
    std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
    std::atomic<bool> aligned{true};
    region.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int) {
      if (begin % grain != 0) aligned = false;
      for (std::int64_t i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)]++;
    });
    EXPECT_TRUE(aligned);
    for (auto& h : hits) ASSERT_EQ(h.load(), 1) << n << " by " << grain;
  }

  ThreadPool& pool_ = ThreadPool::global();
  int before_ = pool_.threads();
};

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

TEST_F(ThreadPoolTest, EveryElementOnce) {
  Region region(pool_);
  EXPECT_EQ(region.threads(), 4);
  for (std::int64_t n : {0, 1, 2, 3, 7, 16, 100, 1001}) {
    for (std::int64_t grain : {1, 2, 5, 64, 2000}) expect_covers(region, n, grain);
  }
}

TEST_F(ThreadPoolTest, ManyShortLoops) {
  Region region(pool_);
  std::atomic<std::int64_t> sum{0};
  for (int round = 0; round < 3000; ++round) {
    region.parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    if (round % 500 == 0) region.park();
  }
  EXPECT_EQ(sum, 3000 * 28);
}

TEST_F(ThreadPoolTest, WorkersShareTheWork) {
  Region region(pool_);
  std::mutex mutex;
  std::set<int> workers;
  std::set<std::thread::id> threads;
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto all_here = [&] {
    std::lock_guard lock(mutex);
    return threads.size() == 4 || std::chrono::steady_clock::now() > deadline;
  };
  region.parallel_for(16, 1, [&](std::int64_t, std::int64_t, int worker) {
    {
      std::lock_guard lock(mutex);
      workers.insert(worker);
      threads.insert(std::this_thread::get_id());
    }
    while (!all_here()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(workers, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(threads.size(), 4u);
  EXPECT_TRUE(threads.count(std::this_thread::get_id()));
}

TEST_F(ThreadPoolTest, AWorkerIdIsNeverUsedTwiceAtOnce) {
  Region region(pool_);
  std::atomic<int> inside[4] = {};
  std::atomic<bool> twice{false};
  for (int round = 0; round < 50; ++round) {
    region.parallel_for(64, 1, [&](std::int64_t, std::int64_t, int worker) {
      if (inside[worker]++ != 0) twice = true;
      std::this_thread::yield();
      inside[worker]--;
    });
  }
  EXPECT_FALSE(twice);
}

TEST_F(ThreadPoolTest, ExceptionReachesTheCallerAndThePoolStaysUsable) {
  Region region(pool_);
  for (std::int64_t bad : {0, 13, 63}) {
    try {
      region.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end, int) {
        if (begin <= bad && bad < end) fail(ErrorCode::unsupported, "piece ", bad);
      });
      FAIL() << "no exception";
    } catch (const UserError& e) {
      EXPECT_EQ(e.what(), "piece " + std::to_string(bad));
    }
    expect_covers(region, 100, 3);
  }
}

TEST_F(ThreadPoolTest, SecondCallerRunsAloneWithoutWaiting) {
  Region first(pool_);
  std::thread other([&] {
    Region second(pool_);
    EXPECT_EQ(second.threads(), 1);
    std::set<std::thread::id> threads;
    second.parallel_for(100, 1, [&](std::int64_t, std::int64_t, int worker) {
      EXPECT_EQ(worker, 0);
      threads.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
  });
  other.join();
  expect_covers(first, 50, 1);
}

TEST_F(ThreadPoolTest, RegionInsideALoopBodyRunsAlone) {
  Region region(pool_);
  std::atomic<int> count{0};
  region.parallel_for(16, 1, [&](std::int64_t begin, std::int64_t end, int) {
    Region inner(pool_);
    EXPECT_EQ(inner.threads(), 1);
    inner.parallel_for(end - begin, 1, [&](std::int64_t b, std::int64_t e, int) {
      count += static_cast<int>(e - b);
    });
  });
  EXPECT_EQ(count, 16);
}

TEST_F(ThreadPoolTest, ManyCallerThreads) {
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> total{0};
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        Region region(pool_);
        for (int loop = 0; loop < 3; ++loop) {
          region.parallel_for(32, 1, [&](std::int64_t b, std::int64_t e, int) { total += e - b; });
        }
      }
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(total, 6 * 100 * 3 * 32);
}

TEST_F(ThreadPoolTest, ThreadCountCanChangeBetweenRegions) {
  for (int count : {1, 3, 2, 8, 1, 4}) {
    pool_.set_threads(count);
    Region region(pool_);
    EXPECT_EQ(region.threads(), count);
    expect_covers(region, 97, 2);
  }
  EXPECT_THROW(pool_.set_threads(0), UserError);
}

TEST_F(ThreadPoolTest, WorkersSleepAfterTheRegion) {
  {
    Region region(pool_);
    expect_covers(region, 1000, 1);
  }
  double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(cpu_seconds() - before, 0.005);
}

TEST_F(ThreadPoolTest, WorkersSleepInAnIdleRegionToo) {
  Region region(pool_);
  expect_covers(region, 1000, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(cpu_seconds() - before, 0.005);
}

// ThreadSanitizer ends a forked child that starts threads.
#if defined(__SANITIZE_THREAD__)
constexpr bool kChildMayStartThreads = false;
#else
constexpr bool kChildMayStartThreads = true;
#endif

int exit_code_of_child(const std::function<bool()>& works) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang is a failure, not a stuck test
    _exit(works() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(ThreadPoolTest, ForkedChildHasAWorkingPool) {
  if (!kChildMayStartThreads)
    GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
  {
    Region region(pool_);
    expect_covers(region, 100, 1);
  }
  EXPECT_EQ(exit_code_of_child([&] {
              Region region(pool_);
              std::atomic<std::int64_t> sum{0};
              region.parallel_for(1000, 1, [&](std::int64_t b, std::int64_t e, int) {
                for (; b < e; ++b) sum += b;
              });
              return region.threads() == 4 && sum == 499500;
            }),
            0);
}

TEST_F(ThreadPoolTest, ForkInsideARegionLeavesTheChildWorking) {
  if (!kChildMayStartThreads)
    GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
  Region region(pool_);
  expect_covers(region, 100, 1);
  EXPECT_EQ(
      exit_code_of_child([&] {
        std::int64_t sum = 0;  // the old Region runs alone, a new one has workers
        region.parallel_for(10, 1, [&](std::int64_t b, std::int64_t e, int) { sum += e - b; });
        Region fresh(pool_);
        std::atomic<std::int64_t> more{0};
        fresh.parallel_for(10, 1, [&](std::int64_t b, std::int64_t e, int) { more += e - b; });
        return region.threads() == 1 && sum == 10 && fresh.threads() == 4 && more == 10;
      }),
      0);
  expect_covers(region, 100, 1);
}

TEST_F(ThreadPoolTest, LoopOverheadIsPrinted) {
  pool_.set_threads(2);
  Region region(pool_);
  std::atomic<std::int64_t> sink{0};
  auto body = [&](std::int64_t b, std::int64_t e, int) { sink.fetch_add(e - b); };
  for (int i = 0; i < 100; ++i) region.parallel_for(2, 1, body);
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) region.parallel_for(2, 1, body);
  double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.2f us for a loop of two pieces\n", us / 2000);
  EXPECT_EQ(sink, 2 * 2100);
}

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("gex_cgroup_" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<int> limit(const char* proc) { return cgroup_cpu_limit(root_.string(), proc); }
  std::filesystem::path root_;
};

TEST_F(CgroupTest, Version2TakesTheMinimumOfAllParents) {
  write("a/b/cpu.max", "max 100000\n");
  write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(limit("0::/a/b\n"), 2);
  EXPECT_EQ(limit("0::/other\n"), std::nullopt);
  write("cpu.max", "50000 100000\n");
  EXPECT_EQ(limit("0::/a/b\n"), 1);
  EXPECT_EQ(limit("0::/\n"), 1);
}

TEST_F(CgroupTest, Version1ReadsQuotaAndPeriod) {
  write("cpu/box/cpu.cfs_quota_us", "400000\n");
  write("cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limit("3:cpu,cpuacct:/box\n1:cpuset:/\n"), 4);
  EXPECT_EQ(limit("3:cpuset:/box\n"), std::nullopt);
  write("cpu/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(limit("3:cpu,cpuacct:/box\n"), std::nullopt);
}

TEST(CpuCount, EnvironmentLowersTheCountAndIsChecked) {
  unsetenv("GEX_NUM_THREADS");
  int all = default_thread_count();
  EXPECT_GE(all, 1);
  setenv("GEX_NUM_THREADS", "1", 1);
  EXPECT_EQ(default_thread_count(), 1);
  setenv("GEX_NUM_THREADS", "100000", 1);
  EXPECT_EQ(default_thread_count(), all);
  for (const char* bad : {"0", "-2", "two", "3x"}) {
    setenv("GEX_NUM_THREADS", bad, 1);
    EXPECT_THROW(default_thread_count(), UserError) << bad;
  }
  unsetenv("GEX_NUM_THREADS");
}

}  // namespace
}  // namespace gex
