#include "plan/overlap.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "plan/conflicts.hpp"
#include "plan/streams.hpp"

namespace gex::plan {

using program::Launch;
using program::Program;
using program::Step;

namespace {

// The scheduler of the CPU driver has this many strands.
constexpr int kMostStreams = 8;
// With less work than this, the driver runs all of it on the calling thread.
constexpr std::int64_t kWorkWorthOverlap = 1280 * 1024;
// A launch with less work than this runs on one thread.
constexpr std::int64_t kWorkWorthThreads = 32 * 1024;
// Sharing a launch between threads and waiting for the last of them.
constexpr std::int64_t kShareCost = 64 * 1024;
// Starting a step of a stream, and starting and ending the whole schedule.
constexpr std::int64_t kStepCost = 16 * 1024, kScheduleCost = 128 * 1024;

// The estimate takes quadratic time.
constexpr std::size_t kMostSteps = 4096;

struct Cost {
  std::int64_t work = 0;
  int parts = 1;  // threads that it can use
};

std::optional<Cost> cost_of(const Step& step, int threads) {
  const auto* launch = std::get_if<Launch>(&step.op);
  if (launch == nullptr) return Cost{};
  const std::optional<std::int64_t> work = launch->work.as_const(), grid = launch->grid.as_const();
  if (!work || !grid) return std::nullopt;
  if (*grid <= 0) return Cost{};
  const bool is_single = launch->ordered || *work < kWorkWorthThreads;
  return Cost{*work, is_single ? 1 : static_cast<int>(std::min<std::int64_t>(*grid, threads))};
}

std::int64_t time_in_order(const std::vector<Cost>& costs) {
  std::int64_t time = 0;
  for (const Cost& cost : costs) time += cost.work / cost.parts + (cost.parts > 1 ? kShareCost : 0);
  return time;
}

// List scheduling: of the steps whose predecessors have been placed, the one that can begin first
// gets the threads that are free first.
std::int64_t time_with_streams(const std::vector<Cost>& costs,
                               const std::vector<std::vector<int>>& needed, int threads) {
  std::vector<std::int64_t> free_at(index(threads), 0), end(costs.size(), -1);
  std::int64_t last = 0;
  for (std::size_t placed = 0; placed < costs.size(); ++placed) {
    int next = -1;
    std::int64_t begin = 0;
    for (int i = 0; i < static_cast<int>(costs.size()); ++i) {
      if (end[index(i)] >= 0) continue;
      std::int64_t ready = 0;
      bool is_blocked = false;
      for (int j : needed[index(i)]) {
        is_blocked = is_blocked || end[index(j)] < 0;
        ready = std::max(ready, end[index(j)]);
      }
      if (is_blocked || (next >= 0 && ready >= begin)) continue;
      next = i;
      begin = ready;
    }
    const Cost& cost = costs[index(next)];
    for (int part = 0; part < cost.parts; ++part) {
      auto thread = std::ranges::min_element(free_at);
      *thread = std::max(*thread, begin) + cost.work / cost.parts + kStepCost;
      end[index(next)] = std::max(end[index(next)], *thread);
    }
    last = std::max(last, end[index(next)]);
  }
  return last + kScheduleCost;
}

// The earlier steps that each step has to wait for: those of its own stream and those whose memory
// it accesses.
std::vector<std::vector<int>> predecessors(const Program& program, const std::vector<Step>& run) {
  Conflicts conflicts(program);
  std::vector<std::vector<int>> needed;
  std::vector<int> last_on(index(program.num_streams), -1);
  for (int i = 0; i < static_cast<int>(run.size()); ++i) {
    needed.push_back(conflicts.of(run, i));
    int& last = last_on[index(run[index(i)].stream)];
    if (last >= 0) needed.back().push_back(last);
    last = i;
  }
  return needed;
}

// Whether two steps of different streams could run at the same time.
bool has_branches(const std::vector<Step>& run, const std::vector<std::vector<int>>& needed,
                  int num_streams) {
  std::vector<std::vector<int>> before(run.size());  // by stream: the last step known to be done
  std::vector<int> last_on(index(num_streams), -1);
  for (std::size_t i = 0; i < run.size(); ++i) {
    before[i].assign(index(num_streams), -1);
    for (int j : needed[i])
      for (std::size_t s = 0; s < before[i].size(); ++s)
        before[i][s] = std::max(before[i][s], before[index(j)][s]);
    const int stream = run[i].stream;
    for (std::size_t s = 0; s < last_on.size(); ++s)
      if (static_cast<int>(s) != stream && last_on[s] > before[i][s]) return true;
    before[i][index(stream)] = last_on[index(stream)] = static_cast<int>(i);
  }
  return false;
}

void overlap_run(const Program& program, std::span<Step> steps, int threads, Overlap& overlap) {
  std::vector<Cost> costs;
  std::int64_t work = 0;
  const std::vector<Step> run(steps.begin(), steps.end());
  const auto stay = [&] {
    for (Step& step : steps) step.stream = 0;
  };
  for (const Step& step : run) {
    const std::optional<Cost> cost = cost_of(step, threads);
    if (!cost) return stay();
    costs.push_back(*cost);
    work += cost->work;
  }
  if (work < kWorkWorthOverlap || run.size() > kMostSteps) return stay();
  const std::vector<std::vector<int>> needed = predecessors(program, run);
  if (!has_branches(run, needed, program.num_streams)) return stay();
  const std::int64_t in_order = time_in_order(costs);
  const std::int64_t with_streams = time_with_streams(costs, needed, threads);
  ++overlap.runs;
  overlap.in_order += in_order;
  overlap.with_streams += with_streams;
  // Estimates are rough, and streams lengthen lifetimes of temporaries: a small gain is none.
  if (with_streams + with_streams / 8 > in_order) return stay();
  ++overlap.overlapped;
}

}  // namespace

Overlap overlap_branches(Program& program, int threads) {
  Overlap overlap;
  if (program.num_streams > 1 || threads < 2) return overlap;
  spread_over_streams(program, std::min(threads, kMostStreams));
  for (program::Segment& segment : program.segments) {
    for_each_run(segment.steps, [&](std::size_t first, std::size_t last) {
      overlap_run(program, std::span(segment.steps).subspan(first, last - first), threads, overlap);
    });
  }
  return overlap;
}

}  // namespace gex::plan
