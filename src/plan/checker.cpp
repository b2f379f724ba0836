#include "plan/checker.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "plan/planner.hpp"

namespace gex::plan {

std::optional<std::string> find_overlap(std::span<const Interval> intervals,
                                        std::span<const std::int64_t> bytes,
                                        std::span<const std::int64_t> offsets, std::int64_t total,
                                        std::span<const std::string> names) {
  const auto called = [&](std::size_t i) { return names.empty() ? str(i) : names[i]; };
  struct Event {
    int time;
    bool birth;
    std::size_t value;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (!intervals[i].used() || bytes[i] == 0) continue;
    if (offsets[i] % kAlignment != 0)
      return str("value ", called(i), " is at offset ", offsets[i], ", not a multiple of ",
                 kAlignment);
    if (offsets[i] < 0 || offsets[i] + bytes[i] > total)
      return str("value ", called(i), " takes [", offsets[i], ", ", offsets[i] + bytes[i],
                 ") of an arena of ", total, " bytes");
    events.push_back({intervals[i].first, true, i});
    events.push_back({intervals[i].last + 1, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.birth < b.birth;  // deaths first: an interval ends before the next one begins
  });
  // By offset; ranges never overlap, so their ends are sorted too.
  std::map<std::int64_t, std::size_t> live;
  for (const Event& event : events) {
    const std::int64_t begin = offsets[event.value];
    if (!event.birth) {
      live.erase(begin);
      continue;
    }
    const auto complain = [&](std::size_t other) {
      return str("values ", called(event.value), " [", begin, ", ", begin + bytes[event.value],
                 ") and ", called(other), " [", offsets[other], ", ", offsets[other] + bytes[other],
                 ") are both alive at position ", event.time);
    };
    const auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < begin + bytes[event.value])
      return complain(next->second);
    if (next != live.begin()) {
      const std::size_t before = std::prev(next)->second;
      if (offsets[before] + bytes[before] > begin) return complain(before);
    }
    live.emplace(begin, event.value);
  }
  return std::nullopt;
}

}  // namespace gex::plan
