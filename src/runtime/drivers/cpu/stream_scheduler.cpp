#include "runtime/drivers/cpu/stream_scheduler.hpp"

#include <array>
#include <atomic>
#include <thread>
#include <utility>

namespace gex::runtime {

int StreamScheduler::strand_of(int stream) {
  const auto found = strand_of_stream_.find(stream);
  if (found != strand_of_stream_.end()) return found->second;
  const int strand = static_cast<int>(strand_of_stream_.size()) % kMaxStrands;
  if (strand == static_cast<int>(strands_.size())) strands_.emplace_back();
  strand_of_stream_[stream] = strand;
  return strand;
}

void StreamScheduler::add(int stream, int task) {
  const int strand = strand_of(stream);
  strands_[static_cast<std::size_t>(strand)].push_back(
      {task, std::exchange(next_waits_[strand], {})});
}

void StreamScheduler::record(int event, int stream) {
  const int strand = strand_of(stream);
  events_[event] = {strand, static_cast<int>(strands_[static_cast<std::size_t>(strand)].size())};
}

void StreamScheduler::wait(int event, int stream) {
  const auto recorded = events_.find(event);
  const int strand = strand_of(stream);
  // Events recorded before this batch have already completed.
  if (recorded == events_.end() || recorded->second.strand == strand) return;
  next_waits_[strand].push_back(recorded->second);
}

class StreamScheduler::Run {
 public:
  Run(const StreamScheduler& plan, const StreamWork& work)
      : plan_(plan), work_(work), unfinished_(static_cast<int>(plan.strands_.size())) {
    for (std::size_t i = 0; i < plan.strands_.size(); ++i)
      if (plan.strands_[i].empty()) unfinished_.fetch_sub(1);
  }

  void help(int worker) {
    const auto strands = plan_.strands_.size();
    while (unfinished_.load(std::memory_order_acquire) > 0 && !failed_.load()) {
      bool worked = false;
      // A worker prefers its own strand while that has work.
      for (std::size_t k = 0; k < strands && !worked; ++k)
        worked = take((static_cast<std::size_t>(worker) + k) % strands, worker);
      if (!worked) std::this_thread::yield();
    }
  }

  std::int64_t overlapped() const { return overlapped_.load(); }

 private:
  // High half: the strand's current task. Low half: its next chunk, or kWaiting, or that a worker
  // is just starting it.
  static constexpr std::uint64_t kWaiting = 0xffffffff;
  static constexpr std::uint64_t kBeginning = 0xfffffffe;
  static constexpr std::uint64_t kLow = 0xffffffff;
  static std::uint64_t ticket(std::size_t task, std::uint64_t low) {
    return static_cast<std::uint64_t>(task) << 32 | low;
  }

  struct alignas(64) State {
    std::atomic<std::uint64_t> at{kWaiting};
    std::atomic<std::int64_t> left{0};  // unfinished chunks of the task
    std::atomic<int> done{0};           // tasks
    std::atomic<int> inside{0};         // workers
    std::atomic<std::int64_t> last_overlapped{-1};
  };

  bool take(std::size_t strand, int worker) {
    State& state = states_[strand];
    std::uint64_t at = state.at.load(std::memory_order_acquire);
    const std::size_t number = at >> 32;
    if (number >= plan_.strands_[strand].size()) return false;
    const Task& task = plan_.strands_[strand][number];
    if ((at & kLow) == kWaiting) {
      if (!is_ready(task)) return false;
      if (!state.at.compare_exchange_strong(at, ticket(number, kBeginning))) return false;
      begin(strand, number);
      return true;
    }
    const auto chunk = static_cast<std::int64_t>(at & kLow);
    if ((at & kLow) == kBeginning || chunk >= work_.chunks(task.number)) return false;
    if (!state.at.compare_exchange_strong(at, at + 1)) return false;
    run_chunk(strand, number, chunk, worker);
    return true;
  }

  bool is_ready(const Task& task) const {
    for (const Wait& wait : task.waits)
      if (states_[static_cast<std::size_t>(wait.strand)].done.load(std::memory_order_acquire) <
          wait.tasks)
        return false;
    return true;
  }

  void begin(std::size_t strand, std::size_t number) {
    State& state = states_[strand];
    const std::int64_t chunks = work_.chunks(plan_.strands_[strand][number].number);
    if (chunks == 0) {
      finish(strand, number);
      return;
    }
    state.left.store(chunks, std::memory_order_relaxed);
    state.at.store(ticket(number, 0), std::memory_order_release);
  }

  void run_chunk(std::size_t strand, std::size_t number, std::int64_t chunk, int worker) {
    State& state = states_[strand];
    state.inside.fetch_add(1);
    note_overlap(strand, number);
    try {
      work_.run(plan_.strands_[strand][number].number, chunk, worker);
    } catch (...) {
      failed_.store(true);  // no further chunk is started
      throw;
    }
    state.inside.fetch_sub(1);
    if (state.left.fetch_sub(1, std::memory_order_acq_rel) == 1) finish(strand, number);
  }

  void note_overlap(std::size_t strand, std::size_t number) {
    for (std::size_t other = 0; other < plan_.strands_.size(); ++other) {
      if (other == strand || states_[other].inside.load() == 0) continue;
      const auto task = static_cast<std::int64_t>(number);
      if (states_[strand].last_overlapped.exchange(task) != task) overlapped_.fetch_add(1);
      return;
    }
  }

  void finish(std::size_t strand, std::size_t number) {
    State& state = states_[strand];
    state.done.store(static_cast<int>(number) + 1, std::memory_order_release);
    state.at.store(ticket(number + 1, kWaiting), std::memory_order_release);
    if (number + 1 == plan_.strands_[strand].size())
      unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  }

  const StreamScheduler& plan_;
  const StreamWork& work_;
  std::array<State, kMaxStrands> states_;
  std::atomic<int> unfinished_;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> overlapped_{0};
};

std::int64_t StreamScheduler::run(ThreadPool::Region& region, const StreamWork& work) const {
  Run run(*this, work);
  region.parallel_for(region.threads(), 1,
                      [&](std::int64_t, std::int64_t, int worker) { run.help(worker); });
  return run.overlapped();
}

}  // namespace gex::runtime
