#include "report/trace_keeper.hpp"

#include <algorithm>
#include <utility>

namespace gex::report {

using program::Program;
using runtime::CallTrace;

namespace {

constexpr std::size_t kMostTimes = 4096;  // calls whose times are kept
constexpr std::size_t kMostOthers = 15;   // calls whose events are kept beside the fastest

std::int64_t duration(const CallTrace& trace) { return trace.end - trace.begin; }

void keep(std::vector<CallTrace>& others, CallTrace trace) {
  if (others.size() < kMostOthers) {
    others.push_back(std::move(trace));
    return;
  }
  const auto slowest = std::ranges::max_element(others, {}, duration);
  if (duration(trace) < duration(*slowest)) *slowest = std::move(trace);
}

// From the first event of a step to its last one.
std::unordered_map<const void*, std::pair<std::int64_t, std::int64_t>> spans_of(
    const CallTrace& trace) {
  std::unordered_map<const void*, std::pair<std::int64_t, std::int64_t>> spans;
  for (const runtime::TraceEvent& event : trace.events()) {
    auto& [begin, end] = spans.try_emplace(event.step, event.begin, event.end).first->second;
    begin = std::min(begin, event.begin);
    end = std::max(end, event.end);
  }
  return spans;
}

void shorten(std::unordered_map<const void*, std::int64_t>& least, const CallTrace& trace) {
  for (const auto& [step, span] : spans_of(trace)) {
    const std::int64_t took = span.second - span.first;
    std::int64_t& shortest = least.try_emplace(step, took).first->second;
    shortest = std::min(shortest, took);
  }
}

}  // namespace

void TraceKeeper::take(const std::shared_ptr<const Program>& program, CallTrace trace) {
  const std::int64_t took = duration(trace);
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(kept_, program, &Kept::program);
  if (found == kept_.end()) {
    kept_.push_back({program, std::move(trace), {}, {took}});
    return;
  }
  if (found->times.size() < kMostTimes) found->times.push_back(took);
  if (took < duration(found->fastest)) std::swap(found->fastest, trace);
  keep(found->others, std::move(trace));
}

std::optional<TraceKeeper::Kept> TraceKeeper::of(const Program* program) const {
  const std::scoped_lock lock(mutex_);
  for (const Kept& kept : kept_)
    if (kept.program.get() == program) return kept;
  return std::nullopt;
}

std::vector<TraceKeeper::Kept> TraceKeeper::all() const {
  const std::scoped_lock lock(mutex_);
  return kept_;
}

std::unordered_map<const void*, std::int64_t> least_times(const TraceKeeper::Kept& kept) {
  std::unordered_map<const void*, std::int64_t> least;
  shorten(least, kept.fastest);
  for (const CallTrace& other : kept.others)
    if (other.sizes == kept.fastest.sizes) shorten(least, other);
  return least;
}

}  // namespace gex::report
