#include "runtime/drivers/cpu/lanes.hpp"

#include <array>
#include <atomic>
#include <thread>
#include <utility>

namespace gex::runtime {

int Lanes::lane_of(int stream) {
  const auto found = lane_of_stream_.find(stream);
  if (found != lane_of_stream_.end()) return found->second;
  const int lane = static_cast<int>(lane_of_stream_.size()) % kMost;
  if (lane == static_cast<int>(lanes_.size())) lanes_.emplace_back();
  lane_of_stream_[stream] = lane;
  return lane;
}

void Lanes::add(int stream, int task) {
  const int lane = lane_of(stream);
  lanes_[static_cast<std::size_t>(lane)].push_back({task, std::exchange(upcoming_[lane], {})});
}

void Lanes::record(int event, int stream) {
  const int lane = lane_of(stream);
  events_[event] = {lane, static_cast<int>(lanes_[static_cast<std::size_t>(lane)].size())};
}

void Lanes::wait(int event, int stream) {
  const auto recorded = events_.find(event);
  const int lane = lane_of(stream);
  // Events recorded before this batch have already completed.
  if (recorded == events_.end() || recorded->second.lane == lane) return;
  upcoming_[lane].push_back(recorded->second);
}

class Lanes::Run {
 public:
  Run(const Lanes& plan, const LaneWork& work)
      : plan_(plan), work_(work), unfinished_(static_cast<int>(plan.lanes_.size())) {
    for (std::size_t i = 0; i < plan.lanes_.size(); ++i)
      if (plan.lanes_[i].empty()) unfinished_.fetch_sub(1);
  }

  void help(int worker) {
    const auto lanes = plan_.lanes_.size();
    while (unfinished_.load(std::memory_order_acquire) > 0 && !failed_.load()) {
      bool worked = false;
      // A worker prefers its own lane while that has work.
      for (std::size_t k = 0; k < lanes && !worked; ++k)
        worked = take((static_cast<std::size_t>(worker) + k) % lanes, worker);
      if (!worked) std::this_thread::yield();
    }
  }

  std::int64_t overlapped() const { return overlapped_.load(); }

 private:
  // High half: the lane's current task. Low half: its next chunk, or kWaiting, or that a worker is
  // just starting it.
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

  bool take(std::size_t lane, int worker) {
    State& state = states_[lane];
    std::uint64_t at = state.at.load(std::memory_order_acquire);
    const std::size_t number = at >> 32;
    if (number >= plan_.lanes_[lane].size()) return false;
    const Task& task = plan_.lanes_[lane][number];
    if ((at & kLow) == kWaiting) {
      if (!is_ready(task)) return false;
      if (!state.at.compare_exchange_strong(at, ticket(number, kBeginning))) return false;
      begin(lane, number);
      return true;
    }
    const auto piece = static_cast<std::int64_t>(at & kLow);
    if ((at & kLow) == kBeginning || piece >= work_.pieces(task.number)) return false;
    if (!state.at.compare_exchange_strong(at, at + 1)) return false;
    run_piece(lane, number, piece, worker);
    return true;
  }

  bool is_ready(const Task& task) const {
    for (const Wait& wait : task.waits)
      if (states_[static_cast<std::size_t>(wait.lane)].done.load(std::memory_order_acquire) <
          wait.tasks)
        return false;
    return true;
  }

  void begin(std::size_t lane, std::size_t number) {
    State& state = states_[lane];
    const std::int64_t pieces = work_.pieces(plan_.lanes_[lane][number].number);
    if (pieces == 0) {
      finish(lane, number);
      return;
    }
    state.left.store(pieces, std::memory_order_relaxed);
    state.at.store(ticket(number, 0), std::memory_order_release);
  }

  void run_piece(std::size_t lane, std::size_t number, std::int64_t piece, int worker) {
    State& state = states_[lane];
    state.inside.fetch_add(1);
    note_overlap(lane, number);
    try {
      work_.run(plan_.lanes_[lane][number].number, piece, worker);
    } catch (...) {
      failed_.store(true);  // no further chunk is started
      throw;
    }
    state.inside.fetch_sub(1);
    if (state.left.fetch_sub(1, std::memory_order_acq_rel) == 1) finish(lane, number);
  }

  void note_overlap(std::size_t lane, std::size_t number) {
    for (std::size_t other = 0; other < plan_.lanes_.size(); ++other) {
      if (other == lane || states_[other].inside.load() == 0) continue;
      const auto task = static_cast<std::int64_t>(number);
      if (states_[lane].last_overlapped.exchange(task) != task) overlapped_.fetch_add(1);
      return;
    }
  }

  void finish(std::size_t lane, std::size_t number) {
    State& state = states_[lane];
    state.done.store(static_cast<int>(number) + 1, std::memory_order_release);
    state.at.store(ticket(number + 1, kWaiting), std::memory_order_release);
    if (number + 1 == plan_.lanes_[lane].size())
      unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  }

  const Lanes& plan_;
  const LaneWork& work_;
  std::array<State, kMost> states_;
  std::atomic<int> unfinished_;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> overlapped_{0};
};

std::int64_t Lanes::run(ThreadPool::Region& region, const LaneWork& work) const {
  Run run(*this, work);
  region.parallel_for(region.threads(), 1,
                      [&](std::int64_t, std::int64_t, int worker) { run.help(worker); });
  return run.overlapped();
}

}  // namespace gex::runtime
