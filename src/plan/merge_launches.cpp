#include "plan/merge_launches.hpp"

#include <algorithm>
#include <set>

#include "plan/conflicts.hpp"

namespace gex::plan {

using program::Launch;
using program::Program;
using program::Step;

namespace {

constexpr std::size_t kMostParts = 6;
// How many groups a launch may move forward: its results live as much longer.
constexpr int kReach = 6;
// Shared memory that leaves room for as many blocks as their threads allow.
constexpr std::int64_t kLittleShared = 16 * 1024;

// What each block of a group may compute again.
constexpr std::int64_t kRepeatedBlocks = 1, kRowWork = 4096, kRepeatedWork = 128 * 1024;

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
        const std::vector<Step> all(begin + static_cast<std::ptrdiff_t>(first),
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
  using Group = std::vector<int>;  // steps of the run

  std::vector<Step> merged(const std::vector<Step>& run) {
    Conflicts conflicts(program_);
    std::vector<Group> groups;
    std::vector<int> group_of(run.size());
    for (int i = 0; i < static_cast<int>(run.size()); ++i) {
      int after = -1;  // the last group that must come before
      for (int other : conflicts.of(run, i)) after = std::max(after, group_of[index(other)]);
      const int place = place_for(run, groups, i, after);
      if (place == static_cast<int>(groups.size())) groups.emplace_back();
      groups[index(place)].push_back(i);
      group_of[index(i)] = place;
    }
    std::vector<Step> out;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool repeats = g > 0 && repeated_[g - 1];
      repeated_.resize(g + 1, false);
      repeated_[g] =
          !repeats && g + 1 < groups.size() && is_repeatable(run, groups[g], groups[g + 1]);
      for (int i : groups[g]) {
        out.push_back(run[index(i)]);
        if (auto* launch = std::get_if<Launch>(&out.back().op)) {
          launch->with_previous = i != groups[g].front() || repeats;
          launch->repeated = repeated_[g];
        }
      }
    }
    repeated_.clear();
    return out;
  }

  // Whether every block of the next group can compute this one launch. Several blocks write the
  // same values to the same places, so it must not read what it or the others write.
  bool is_repeatable(const std::vector<Step>& run, const Group& group, const Group& next) const {
    const auto* launch = std::get_if<Launch>(&run[index(group.front())].op);
    if (group.size() != 1 || launch == nullptr || !is_small_row_work(*launch)) return false;
    std::set<program::BufferId> read;
    for (program::BufferId id : program::reads_of(run[index(group.front())]))
      read.insert(program::root_of(program_, id));
    const auto writes_read = [&](int step) {
      const std::vector<program::BufferId> written = program::writes_of(run[index(step)]);
      return std::any_of(written.begin(), written.end(), [&](program::BufferId id) {
        return read.contains(program::root_of(program_, id));
      });
    };
    if (writes_read(group.front())) return false;
    return std::all_of(next.begin(), next.end(), [&](int step) {
      const auto* consumer = std::get_if<Launch>(&run[index(step)].op);
      return consumer != nullptr && consumer->block == launch->block && consumer->matrix &&
             options_.can_be_merged(*consumer) && !writes_read(step);
    });
  }

  // The earliest group that the step can join, or the number of groups.
  int place_for(const std::vector<Step>& run, const std::vector<Group>& groups, int step,
                int after) const {
    const int end = static_cast<int>(groups.size());
    for (int g = std::max(after + 1, end - kReach); g < end; ++g)
      if (fits(run, groups[index(g)], step)) return g;
    return end;
  }

  // What each block of the launches after it could compute: better left alone.
  bool is_small_row_work(const Launch& launch) const {
    const auto grid = launch.grid.as_const(), work = launch.work.as_const();
    return options_.can_be_merged(launch) && !launch.ordered && !launch.matrix && grid &&
           *grid <= kRepeatedBlocks && work && *work >= kRowWork && *work <= kRepeatedWork;
  }

  bool fits(const std::vector<Step>& run, const Group& group, int step) const {
    const auto* mine = std::get_if<Launch>(&run[index(step)].op);
    const auto* first = std::get_if<Launch>(&run[index(group.front())].op);
    if (mine == nullptr || first == nullptr || group.size() >= kMostParts) return false;
    if (is_small_row_work(*mine) || is_small_row_work(*first)) return false;
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

  Program& program_;
  const MergeOptions& options_;
  std::vector<bool> repeated_;  // by group of the run at hand
};

}  // namespace

void merge_launches(Program& program, const MergeOptions& options) {
  if (program.num_streams > 1) return;
  Merger(program, options).run();
}

}  // namespace gex::plan
