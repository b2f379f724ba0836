// What replay does in every call must not allocate: counted by replacing operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/dim/dim.hpp"
#include "base/thread_pool.hpp"

namespace {
std::atomic<long> allocations{0};
}

// Not inlined: gcc would take new and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
// std::stable_sort allocates this way, and frees with the plain operator below.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size ? size : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace gex {
namespace {

TEST(Allocation, CounterCounts) {
  long before = allocations;
  delete new std::vector<int>(3);
  EXPECT_GT(allocations, before);
}

TEST(Allocation, DimTapeEvaluatesWithoutAny) {
  Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1");
  DimTape tape({s0, s1});
  int slot = tape.add(min(ceildiv(s0 * s1 + 3, 8), s0) * 2 + mod(s1, 5));
  std::vector<std::int64_t> values{10, 7}, out(static_cast<std::size_t>(tape.slots()));
  long before = allocations;
  tape.eval(values, out);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(out[static_cast<std::size_t>(slot)], 10 * 2 + 2);
}

TEST(Allocation, ThreadPoolRunsLoopsWithoutAny) {
  int threads = ThreadPool::global().threads();
  ThreadPool::global().set_threads(3);
  ThreadPool::Region(ThreadPool::global()).parallel_for(8, 1, [](auto, auto, int) {});
  std::atomic<std::int64_t> sum{0};
  long before = allocations;
  {
    ThreadPool::Region region(ThreadPool::global());
    for (int i = 0; i < 10; ++i) {
      region.parallel_for(100, 1, [&](std::int64_t b, std::int64_t e, int) { sum += e - b; });
    }
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(sum, 1000);
  ThreadPool::global().set_threads(threads);
}

}  // namespace
}  // namespace gex
