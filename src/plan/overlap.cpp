#include "plan/overlap.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
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

// Launches of all sizes up to this with little work are not worth streams.
constexpr std::int64_t kLargestProbe = 1 << 20;

// The estimate takes quadratic time.
constexpr std::size_t kMostSteps = 4096;

struct Cost {
  std::int64_t work = 0;
  int parts = 1;  // threads that it can use
};

// With every size that is determined at run time taken to be `size`, within its range.
std::int64_t at_size(Dim value, std::int64_t size) {
  return value.eval([&](Dim symbol) {
    const DimRange range = symbol.range();
    return std::clamp(size, range.lo, std::max(range.lo, range.hi));
  });
}

Cost cost_of(const Step& step, int threads, std::int64_t size) {
  const auto* launch = std::get_if<Launch>(&step.op);
  if (launch == nullptr) return Cost{};
  const std::int64_t work = std::max<std::int64_t>(at_size(launch->work, size), 0),
                     grid = at_size(launch->grid, size);
  if (grid <= 0) return Cost{};
  const bool is_single = launch->ordered || work < kWorkWorthThreads;
  return Cost{work, is_single ? 1 : static_cast<int>(std::min<std::int64_t>(grid, threads))};
}

bool has_sizes_of_run_time(const Step& step) {
  const auto* launch = std::get_if<Launch>(&step.op);
  return launch != nullptr && !(launch->work.is_const() && launch->grid.is_const());
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

struct Estimate {
  std::int64_t in_order = 0, with_streams = 0;
  // Estimates are rough, and streams lengthen lifetimes of temporaries: a small gain is not worth
  // it.
  bool pays() const { return with_streams + with_streams / 8 <= in_order; }
  bool costs() const { return with_streams > in_order + in_order / 16; }
};

std::vector<Cost> costs_at(const std::vector<Step>& run, int threads, std::int64_t size) {
  std::vector<Cost> costs;
  for (const Step& step : run) costs.push_back(cost_of(step, threads, size));
  return costs;
}

bool is_much(const std::vector<Cost>& costs) {
  std::int64_t work = 0;
  for (const Cost& cost : costs) work += cost.work;
  return work >= kWorkWorthOverlap;
}

// The sizes to look at: the smallest with enough work, and larger ones, where launches have more
// grid points. None if all sizes have little work; one if nothing depends on sizes of run time.
std::vector<std::int64_t> probes(const std::vector<Step>& run, int threads) {
  std::int64_t size = 8;
  if (!std::ranges::any_of(run, has_sizes_of_run_time)) {
    if (is_much(costs_at(run, threads, size))) return {size};
    return {};
  }
  while (!is_much(costs_at(run, threads, size)))
    if ((size *= 2) > kLargestProbe) return {};
  return {size, size * 4, size * 16};
}

// The best estimate of a size for which streams pay, if they cost nothing at the other sizes;
// otherwise one for which they don't. Nothing if there is little work at every size.
std::optional<Estimate> estimate(const std::vector<Step>& run,
                                 const std::vector<std::vector<int>>& needed, int threads) {
  std::optional<Estimate> best, costly;
  for (std::int64_t size : probes(run, threads)) {
    const std::vector<Cost> work = costs_at(run, threads, size);
    const Estimate found{time_in_order(work), time_with_streams(work, needed, threads)};
    if (found.costs()) costly = found;
    if (!best || found.pays()) best = found;
  }
  return costly ? costly : best;
}

void overlap_run(const Program& program, std::span<Step> steps, int threads, Overlap& overlap) {
  const std::vector<Step> run(steps.begin(), steps.end());
  const auto stay = [&] {
    for (Step& step : steps) step.stream = 0;
  };
  if (run.size() > kMostSteps) return stay();
  const std::vector<std::vector<int>> needed = predecessors(program, run);
  if (!has_branches(run, needed, program.num_streams)) return stay();
  std::optional<Estimate> found;
  try {
    found = estimate(run, needed, threads);
  } catch (const UserError&) {
    return stay();  // a size that is tried here need not be possible: it overflows or divides by 0
  }
  if (!found) return stay();
  ++overlap.runs;
  overlap.in_order += found->in_order;
  overlap.with_streams += found->with_streams;
  if (!found->pays()) return stay();
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
