#include "runtime/memory/usage.hpp"

#include <atomic>

namespace gex::runtime {
namespace {

struct Counter {
  std::atomic<std::int64_t> current{0}, peak{0}, allocations{0};

  void add(std::int64_t bytes) noexcept {
    const std::int64_t now = current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t highest = peak.load(std::memory_order_relaxed);
    while (highest < now && !peak.compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
    }
    allocations.fetch_add(1, std::memory_order_relaxed);
  }
  void subtract(std::int64_t bytes) noexcept {
    current.fetch_sub(bytes, std::memory_order_relaxed);
  }
  void reset_peak() noexcept { peak.store(current.load()); }
  MemoryAmount amount() const { return {current.load(), peak.load(), allocations.load()}; }
};

struct UsageCounters {
  Counter all;
  std::array<Counter, kMemoryUses.size()> of;
  Counter& at(MemoryUse use) { return of[static_cast<std::size_t>(use)]; }
  static UsageCounters& get() {
    static auto* const counters =
        new UsageCounters;  // memory may be freed after static destructors
    return *counters;
  }
};

}  // namespace

void count_allocated(MemoryUse use, std::size_t bytes) noexcept {
  UsageCounters& counters = UsageCounters::get();
  counters.at(use).add(static_cast<std::int64_t>(bytes));
  counters.all.add(static_cast<std::int64_t>(bytes));
}

void count_freed(MemoryUse use, std::size_t bytes) noexcept {
  UsageCounters& counters = UsageCounters::get();
  counters.at(use).subtract(static_cast<std::int64_t>(bytes));
  counters.all.subtract(static_cast<std::int64_t>(bytes));
}

MemoryUsage memory_usage() {
  const UsageCounters& counters = UsageCounters::get();
  MemoryUsage usage{counters.all.amount(), {}};
  for (std::size_t k = 0; k < counters.of.size(); ++k) usage.of[k] = counters.of[k].amount();
  return usage;
}

void reset_memory_peaks() {
  UsageCounters& counters = UsageCounters::get();
  counters.all.reset_peak();
  for (Counter& counter : counters.of) counter.reset_peak();
}

}  // namespace gex::runtime
