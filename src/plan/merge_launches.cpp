#include "plan/merge_launches.hpp"

#include <algorithm>
#include <span>

#include "plan/conflicts.hpp"
#include "plan/repeat_launches.hpp"

namespace gex::plan {

using program::Launch;
using program::Program;
using program::Step;

namespace {

// How many groups a launch may be moved ahead: the lifetimes of its results grow by as many.
constexpr int kReach = 6;
// Shared memory per block that does not limit the number of blocks on a multiprocessor.
constexpr std::int64_t kLittleShared = 16 * 1024;
// Calls of a library that run at the same time, and the work (Launch::work) up to which that pays.
constexpr std::size_t kMostCalls = 4;
constexpr std::int64_t kSmallCall = std::int64_t{1} << 30;

class Merger {
 public:
  Merger(Program& program, const MergeOptions& options) : program_(program), options_(options) {}

  void run() {
    for (program::Segment& segment : program_.segments) {
      std::vector<Step> steps;
      std::size_t copied = 0;
      for_each_run(segment.steps, [&](std::size_t first, std::size_t last) {
        for (; copied < first; ++copied) steps.push_back(std::move(segment.steps[copied]));
        const auto begin = segment.steps.begin();
        std::vector<Step> all(begin + static_cast<std::ptrdiff_t>(first),
                              begin + static_cast<std::ptrdiff_t>(last));
        for (Step& step : merged(all)) steps.push_back(std::move(step));
        copied = last;
      });
      for (; copied < segment.steps.size(); ++copied)
        steps.push_back(std::move(segment.steps[copied]));
      segment.steps = std::move(steps);
    }
  }

 private:
  using Group = LaunchGroup;

  std::vector<Step> merged(std::vector<Step>& run) {
    Conflicts conflicts(program_);
    std::vector<Group> groups;
    std::vector<int> group_of(run.size());
    std::vector<std::vector<int>> earlier;  // by step: those that it conflicts with
    for (int i = 0; i < static_cast<int>(run.size()); ++i) {
      int after = -1;  // the last group that must precede it
      earlier.push_back(conflicts.of(run, i));
      for (int other : earlier.back()) after = std::max(after, group_of[index(other)]);
      const int place = place_for(run, groups, i, after);
      if (place == static_cast<int>(groups.size())) groups.emplace_back();
      groups[index(place)].push_back(i);
      group_of[index(i)] = place;
    }
    if (options_.can_read_repeated)
      repeat_launches(program_, run, earlier, groups,
                      {.can_read = options_.can_read_repeated,
                       .can_be_merged = options_.can_be_merged,
                       .fits = [&](const Group& group, int step) { return fits(run, group, step); },
                       .most_parts = options_.most_parts,
                       .reach = kReach});
    std::vector<Step> out;
    for (const Group& group : groups) {
      for (int i : group) {
        out.push_back(run[index(i)]);
        if (i != group.front()) std::get<Launch>(out.back().op).with_previous = true;
      }
      if (group.size() > 1) share_blocks(std::span(out).last(group.size()));
    }
    return out;
  }

  // Each product alone would fill the device: together they get as many blocks as the largest has,
  // by their work. Launches loop over their work with any number of blocks.
  void share_blocks(std::span<Step> group) const {
    std::vector<Launch*> products;
    std::int64_t blocks = 0, most = options_.multiprocessors, work = 0;
    for (Step& step : group) {
      Launch& launch = std::get<Launch>(step.op);
      if (!launch.matrix) continue;
      if (!launch.grid.is_const() || !launch.work.is_const()) return;
      products.push_back(&launch);
      blocks += launch.grid.constant();
      most = std::max(most, launch.grid.constant());
      work += launch.work.constant();
    }
    if (products.size() < 2 || blocks <= most) return;
    for (Launch* launch : products)
      launch->grid = std::max<std::int64_t>(most * launch->work.constant() / work, 1);
  }

  // The earliest group that the step can join, or the number of groups.
  int place_for(const std::vector<Step>& run, const std::vector<Group>& groups, int step,
                int after) const {
    const int end = static_cast<int>(groups.size());
    for (int g = std::max(after + 1, end - kReach); g < end; ++g)
      if (fits(run, groups[index(g)], step)) return g;
    return end;
  }

  bool fits(const std::vector<Step>& run, const Group& group, int step) const {
    const auto* mine = std::get_if<Launch>(&run[index(step)].op);
    const auto* first = std::get_if<Launch>(&run[index(group.front())].op);
    if (mine == nullptr || first == nullptr || group.size() >= options_.most_parts) return false;
    if (is_library(*first) || is_library(*mine))
      return is_library(*first) && is_library(*mine) && group.size() < kMostCalls &&
             is_small_call(*first) && is_small_call(*mine);
    if (mine->block != first->block || !options_.can_be_merged(*mine) ||
        !options_.can_be_merged(*first))
      return false;
    const auto small = [&](const Launch& launch) {
      return launch.grid.range().hi <= options_.small_grid;
    };
    const auto light = [](const Launch& launch) {
      return launch.scratch_bytes.range().hi <= kLittleShared;
    };
    return std::all_of(group.begin(), group.end(), [&](int other) {
      const Launch& launch = std::get<Launch>(run[index(other)].op);
      return (small(*mine) && small(launch)) || (light(*mine) && light(launch));
    });
  }

  bool is_library(const Launch& launch) const {
    return options_.is_library && options_.is_library(launch);
  }

  // Large products fill the device one by one.
  static bool is_small_call(const Launch& launch) { return launch.work.range().lo <= kSmallCall; }

  Program& program_;
  const MergeOptions& options_;
};

}  // namespace

void merge_launches(Program& program, const MergeOptions& options) {
  if (program.num_streams > 1) return;
  Merger(program, options).run();
}

}  // namespace gex::plan
