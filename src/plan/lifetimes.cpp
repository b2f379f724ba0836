#include "plan/lifetimes.hpp"

#include <algorithm>
#include <span>

#include "plan/streams.hpp"

namespace gex::plan {

using program::BufferId;
using program::Program;
using program::Step;

namespace {

// One access to a root. `path` is the chain of segments around the step, `beside` the positions of
// the steps that may run at the same time.
struct Access {
  int position;
  int path;
  bool write;
  Interval beside;
};

class Flattener {
 public:
  explicit Flattener(const Program& program)
      : program_(program), accesses_(program.buffers.size()) {
    out_.of_step.resize(program.segments.size());
    out_.of_root.resize(program.buffers.size());
  }

  Lifetimes run() {
    const int top = enter(-1);
    for (int segment : program_.main) visit_segment(segment, top);
    out_.positions = position_;
    for (std::size_t root = 0; root < accesses_.size(); ++root) {
      if (accesses_[root].empty()) continue;
      out_.of_root[root] = extent(accesses_[root]);
    }
    return std::move(out_);
  }

 private:
  int enter(int parent) {
    parent_of_.push_back(parent);
    return static_cast<int>(parent_of_.size()) - 1;
  }

  void touch(BufferId id, int position, int path, bool write) {
    touch(id, {position, path, write, {position, position}});
  }
  void touch(BufferId id, const Access& access) {
    const BufferId root = program::root_of(program_, id);
    accesses_[static_cast<std::size_t>(root)].push_back(access);
  }

  void visit_segment(int id, int path) {
    const auto& steps = program_.segments[static_cast<std::size_t>(id)].steps;
    auto& intervals = out_.of_step[static_cast<std::size_t>(id)];
    intervals.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (program_.num_streams > 1 && is_device_step(steps[i])) {
        std::size_t end = i;
        while (end < steps.size() && is_device_step(steps[end])) ++end;
        visit_run(std::span(steps).subspan(i, end - i), std::span(intervals).subspan(i), path);
        i = end - 1;
        continue;
      }
      const int first = position_;
      if (std::holds_alternative<program::Launch>(steps[i].op)) {
        std::size_t end = i + 1;
        while (end < steps.size() && runs_with_previous(steps[end])) ++end;
        visit_merged(std::span(steps).subspan(i, end - i), std::span(intervals).subspan(i), path);
        i = end - 1;
        continue;
      }
      visit_step(steps[i], path);
      intervals[i] = {first, position_ - 1};
    }
  }

  void visit_run(std::span<const Step> run, std::span<Interval> intervals, int path) {
    const std::vector<Interval> sides = beside(run, program_.num_streams);
    const int start = position_;
    for (std::size_t i = 0; i < run.size(); ++i) {
      const int position = position_++;
      const Interval side{start + sides[i].first, start + sides[i].last};
      for (BufferId id : program::reads_of(run[i])) touch(id, {position, path, false, side});
      for (BufferId id : program::writes_of(run[i])) touch(id, {position, path, true, side});
      intervals[i] = {position, position};
    }
  }

  static bool runs_with_previous(const Step& step) {
    const auto* launch = std::get_if<program::Launch>(&step.op);
    return launch != nullptr && (launch->with_previous || launch->phase > 0);
  }

  // Launches that may all run at the same time.
  void visit_merged(std::span<const Step> launches, std::span<Interval> intervals, int path) {
    const Interval all{position_, position_ + static_cast<int>(launches.size()) - 1};
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const int position = position_++;
      for (BufferId id : program::reads_of(launches[i])) touch(id, {position, path, false, all});
      for (BufferId id : program::writes_of(launches[i])) touch(id, {position, path, true, all});
      intervals[i] = {position, position};
    }
  }

  void visit_step(const Step& step, int path) {
    const int position = position_++;
    if (const auto* loop = std::get_if<program::While>(&step.op)) {
      const int inner = enter(path);
      const int loop_first = position;
      visit_segment(loop->condition_segment, inner);
      touch(loop->condition, position_++, inner, false);
      visit_segment(loop->body_segment, inner);
      loops_.push_back({loop_first, position_ - 1, inner});
      return;
    }
    for (BufferId id : program::reads_of(step)) touch(id, position, path, false);
    for (BufferId id : program::writes_of(step)) touch(id, position, path, true);
    if (const auto* branch = std::get_if<program::If>(&step.op)) {
      for (int segment : {branch->then_segment, branch->else_segment}) {
        const int inner = enter(path);
        visit_segment(segment, inner);
      }
    }
  }

  bool inside(int path, int ancestor) const {
    while (path >= 0 && path != ancestor) path = parent_of_[static_cast<std::size_t>(path)];
    return path == ancestor;
  }

  // Whether the first access is a write that precedes every other access in the same segment (or
  // deeper): then each iteration of a loop around that segment starts with a new value.
  bool renewed_each_turn(const std::vector<Access>& accesses, int loop_path) const {
    const Access& first = accesses.front();
    const bool reads_first = std::any_of(
        accesses.begin(), accesses.end(),
        [&](const Access& access) { return access.position == first.position && !access.write; });
    if (!first.write || reads_first || !inside(first.path, loop_path)) return false;
    return std::all_of(accesses.begin(), accesses.end(),
                       [&](const Access& access) { return inside(access.path, first.path); });
  }

  Interval extent(const std::vector<Access>& accesses) const {
    Interval live = accesses.front().beside;
    for (const Access& access : accesses) {
      live.first = std::min(live.first, access.beside.first);
      live.last = std::max(live.last, access.beside.last);
    }
    // Inner loops are listed before the loops around them.
    for (const Loop& loop : loops_) {
      const bool touched = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        return access.position >= loop.first && access.position <= loop.last;
      });
      if (!touched || renewed_each_turn(accesses, loop.path)) continue;
      live.first = std::min(live.first, loop.first);
      live.last = std::max(live.last, loop.last);
    }
    return live;
  }

  struct Loop {
    int first, last, path;
  };

  const Program& program_;
  Lifetimes out_;
  std::vector<int> parent_of_;  // by path: a segment nested in the segments that run it
  std::vector<Loop> loops_;
  std::vector<std::vector<Access>> accesses_;
  int position_ = 0;
};

}  // namespace

Lifetimes lifetimes_of(const Program& program) { return Flattener(program).run(); }

}  // namespace gex::plan
