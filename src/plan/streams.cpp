#include "plan/streams.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "plan/conflicts.hpp"

namespace gex::plan {

using program::BufferId;
using program::Launch;
using program::Program;
using program::Step;

namespace {

// A launch with less work than this does not get a stream of its own.
constexpr std::int64_t kWorkWorthStream = 32 * 1024;

bool is_large(const Step& step) {
  const auto* launch = std::get_if<Launch>(&step.op);
  if (launch == nullptr) return false;
  const std::optional<std::int64_t> work = launch->work.as_const();
  return !work || *work >= kWorkWorthStream;
}

std::int64_t work_of(const Step& step) {
  const auto* launch = std::get_if<Launch>(&step.op);
  return launch == nullptr ? 1 : launch->work.as_const().value_or(kWorkWorthStream);
}

class Synchroniser {
 public:
  explicit Synchroniser(Program& program) : program_(program) {}

  void run() {
    for (program::Segment& segment : program_.segments) {
      std::vector<Step> steps;
      std::size_t copied = 0;
      for_each_run(segment.steps, [&](std::size_t first, std::size_t last) {
        for (; copied < first; ++copied) steps.push_back(std::move(segment.steps[copied]));
        std::vector<Step> run(std::make_move_iterator(segment.steps.begin() + offset(first)),
                              std::make_move_iterator(segment.steps.begin() + offset(last)));
        for (Step& step : synchronised(std::move(run))) steps.push_back(std::move(step));
        copied = last;
      });
      for (; copied < segment.steps.size(); ++copied)
        steps.push_back(std::move(segment.steps[copied]));
      segment.steps = std::move(steps);
    }
  }

 private:
  static std::ptrdiff_t offset(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  std::vector<Step> synchronised(std::vector<Step> run) {
    const bool plain = std::ranges::none_of(run, [](const Step& s) { return s.stream != 0; });
    if (plain) return run;
    const int events = program_.num_events;
    std::vector<Step> ordered = with_events(run);
    if (has_large_steps_side_by_side(ordered)) return ordered;
    program_.num_events = events;
    for (Step& step : run) step.stream = 0;
    return run;
  }

  std::vector<Step> with_events(const std::vector<Step>& run) {
    Conflicts conflicts(program_);
    std::vector<std::vector<int>> before;
    std::vector<int> last_on(index(program_.num_streams), -1);
    std::vector<int> event_of(run.size(), -1);
    std::vector<std::vector<int>> waits(run.size());  // events to wait for
    for (int i = 0; i < static_cast<int>(run.size()); ++i) {
      const Step& step = run[index(i)];
      int& last = last_on[index(step.stream)];
      std::vector<int> known(index(program_.num_streams), -1);
      if (last >= 0) known = before[index(last)];
      // Latest first: steps that it already waited for need no event.
      std::vector<int> needed = conflicts.of(run, i);
      std::ranges::sort(needed, std::greater());
      for (int j : needed) {
        const int stream = run[index(j)].stream;
        if (stream == step.stream || known[index(stream)] >= j) continue;
        if (event_of[index(j)] < 0) event_of[index(j)] = program_.num_events++;
        waits[index(i)].push_back(event_of[index(j)]);
        for (std::size_t s = 0; s < known.size(); ++s)
          known[s] = std::max(known[s], before[index(j)][s]);
      }
      known[index(step.stream)] = i;
      before.push_back(std::move(known));
      last = i;
    }
    std::vector<Step> out;
    for (std::size_t i = 0; i < run.size(); ++i) {
      const int stream = run[i].stream;
      for (int event : waits[i]) out.push_back({program::Wait{event}, stream, {}});
      out.push_back(run[i]);
      if (event_of[i] >= 0) out.push_back({program::Record{event_of[i]}, stream, {}});
    }
    return out;
  }

  bool has_large_steps_side_by_side(const std::vector<Step>& run) const {
    const std::vector<std::vector<int>> before = known_before(run, program_.num_streams);
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (!is_large(run[i])) continue;
      for (std::size_t j = 0; j < i; ++j)
        if (is_large(run[j]) && before[i][index(run[j].stream)] < static_cast<int>(j)) return true;
    }
    return false;
  }

  Program& program_;
};

}  // namespace

bool is_device_step(const Step& step) {
  return std::holds_alternative<Launch>(step.op) ||
         std::holds_alternative<program::Copy>(step.op) ||
         std::holds_alternative<program::Fill>(step.op) ||
         std::holds_alternative<program::Record>(step.op) ||
         std::holds_alternative<program::Wait>(step.op);
}

void spread_over_streams(Program& program, int streams) {
  program.num_streams = std::max(program.num_streams, streams);
  for (program::Segment& segment : program.segments) {
    for_each_run(segment.steps, [&](std::size_t first, std::size_t last) {
      const std::vector<Step> run(segment.steps.begin() + static_cast<std::ptrdiff_t>(first),
                                  segment.steps.begin() + static_cast<std::ptrdiff_t>(last));
      Conflicts conflicts(program);
      std::vector<int> stream_of(run.size()), last_on(index(program.num_streams), -1);
      std::vector<std::int64_t> work(index(streams), 0);
      for (int i = 0; i < static_cast<int>(run.size()); ++i) {
        int stream = run[index(i)].stream, latest = -1;
        for (int j : conflicts.of(run, i))
          if (last_on[index(stream_of[index(j)])] == j) latest = std::max(latest, j);
        if (stream == 0)
          stream = latest >= 0 ? stream_of[index(latest)]
                               : static_cast<int>(std::ranges::min_element(work) - work.begin());
        if (stream < streams) work[index(stream)] += work_of(run[index(i)]);
        stream_of[index(i)] = stream;
        last_on[index(stream)] = i;
        segment.steps[first + index(i)].stream = stream;
      }
    });
  }
}

void synchronise_streams(Program& program) {
  if (program.num_streams == 1) return;
  Synchroniser(program).run();
  program.num_streams = 1;
  for (const program::Segment& segment : program.segments)
    for (const Step& step : segment.steps)
      program.num_streams = std::max(program.num_streams, step.stream + 1);
}

std::vector<std::vector<int>> known_before(std::span<const Step> run, int num_streams) {
  std::vector<std::vector<int>> before;
  std::vector<int> last_on(index(num_streams), -1);
  std::map<int, int> recorded;  // event -> the step that recorded it
  for (int i = 0; i < static_cast<int>(run.size()); ++i) {
    const Step& step = run[index(i)];
    int& last = last_on[index(step.stream)];
    std::vector<int> known(index(num_streams), -1);
    if (last >= 0) known = before[index(last)];
    if (const auto* wait = std::get_if<program::Wait>(&step.op)) {
      if (const auto record = recorded.find(wait->event); record != recorded.end())
        for (std::size_t s = 0; s < known.size(); ++s)
          known[s] = std::max(known[s], before[index(record->second)][s]);
    }
    if (const auto* record = std::get_if<program::Record>(&step.op)) recorded[record->event] = i;
    known[index(step.stream)] = i;
    before.push_back(std::move(known));
    last = i;
  }
  return before;
}

std::vector<Interval> beside(std::span<const Step> run, int num_streams) {
  std::vector<Interval> out(run.size());
  for (int i = 0; i < static_cast<int>(run.size()); ++i) out[index(i)] = {i, i};
  const auto same_stream = [&](const Step& step) { return step.stream == run.front().stream; };
  if (std::ranges::all_of(run, same_stream)) return out;
  const std::vector<std::vector<int>> before = known_before(run, num_streams);
  for (int i = 0; i < static_cast<int>(run.size()); ++i)
    for (int j = 0; j < i; ++j) {
      if (before[index(i)][index(run[index(j)].stream)] >= j) continue;
      out[index(i)].first = std::min(out[index(i)].first, j);
      out[index(j)].last = std::max(out[index(j)].last, i);
    }
  return out;
}

}  // namespace gex::plan
