#include "plan/planner.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "plan/radix_sort.hpp"
#include "plan/tightest_hole.hpp"

namespace gex::plan {

namespace {

// Limit on stored conflict pairs: 64 MiB; beyond it the greedy strategies would be slow anyway.
constexpr std::size_t kMaxConflicts = std::size_t{1} << 24;
// Conflict rows are padded to a multiple of this, so that loops over them have few remainders.
constexpr int kRowStep = 8;
// Prefetch distance, in values.
constexpr std::size_t kAhead = 8;
constexpr std::size_t kCacheLine = 64;
// With more conflicts per value than this, the greedy strategies take far longer than by_start.
constexpr std::size_t kCrowded = 64;

void give_back(std::vector<std::uint64_t>& holes, std::uint64_t room) {
  if (begin_of(room) == end_of(room)) return;
  auto next = std::lower_bound(holes.begin(), holes.end(), room);
  const bool joins_next = next != holes.end() && begin_of(*next) == end_of(room);
  const bool joins_last = next != holes.begin() && end_of(next[-1]) == begin_of(room);
  if (joins_next) room = pack(begin_of(room), end_of(*next));
  if (joins_last) {
    next[-1] = pack(begin_of(next[-1]), end_of(room));
    if (joins_next) holes.erase(next);
  } else if (joins_next) {
    *next = room;
  } else {
    holes.insert(next, room);
  }
}

// Allocates `size` units from the holes below `top`, or above everything.
std::uint32_t take_lowest(std::vector<std::uint64_t>& holes, std::uint32_t size,
                          std::uint32_t top) {
  const auto hole = std::find_if(holes.begin(), holes.end(), [=](std::uint64_t room) {
    return end_of(room) - begin_of(room) >= size;
  });
  if (hole == holes.end()) {
    if (holes.empty() || end_of(holes.back()) != top) return top;
    const std::uint32_t begin = begin_of(holes.back());  // extend the hole at the top
    holes.pop_back();
    return begin;
  }
  const std::uint32_t begin = begin_of(*hole);
  if (end_of(*hole) - begin == size) {
    holes.erase(hole);
  } else {
    *hole = pack(begin + size, end_of(*hole));
  }
  return begin;
}

}  // namespace

std::string_view name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::by_start:
      return "by_start";
    case Strategy::by_size:
      return "by_size";
    case Strategy::by_area:
      return "by_area";
    case Strategy::by_blame:
      return "by_blame";
    case Strategy::apart:
      return "apart";
  }
  return "?";
}

// One per thread, reused from plan to plan and allocated when a planner is made: touching new
// memory would cost a fifth of the planning time.
struct MemoryPlanner::Scratch {
  std::vector<std::uint32_t> size;    // in units, by value
  std::vector<std::uint64_t> placed;  // packed, by value; the last entry is the padding value
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> order, spare;
  std::vector<std::uint64_t> neighbours;
  std::uint32_t total = 0;                  // in units
  std::uint32_t limit = ~std::uint32_t{0};  // stop once `total` reaches this

  static Scratch& of_this_thread(std::size_t values) {
    static thread_local Scratch scratch;
    scratch.size.resize(values);
    scratch.placed.assign(values + 1, 0);
    scratch.keys.resize(values);
    scratch.order.resize(values);
    scratch.spare.resize(values);
    scratch.total = 0;
    scratch.limit = ~std::uint32_t{0};
    return scratch;
  }
};

MemoryPlanner::MemoryPlanner(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {
  for (std::size_t i = 0; i < intervals_.size(); ++i)
    if (intervals_[i].used()) by_first_.push_back(static_cast<std::int32_t>(i));
  std::vector<std::int32_t> by_last = by_first_;
  Scratch& scratch = Scratch::of_this_thread(intervals_.size());
  const auto at = [this](std::int32_t i) { return intervals_[static_cast<std::size_t>(i)]; };
  const auto sort_by = [&](int Interval::* time, std::vector<std::int32_t>& order) {
    for (std::size_t i = 0; i < intervals_.size(); ++i)
      scratch.keys[i] = ~static_cast<std::uint64_t>(intervals_[i].*time);
    sort_descending(scratch.keys, order, scratch.spare);
  };
  sort_by(&Interval::first, by_first_);
  sort_by(&Interval::last, by_last);
  events_.reserve(2 * by_first_.size());
  std::size_t dead = 0;
  for (std::int32_t value : by_first_) {
    for (; at(by_last[dead]).last < at(value).first; ++dead) events_.push_back(~by_last[dead]);
    events_.push_back(value);
  }

  const auto each_pair = [&](auto&& visit) {
    for (std::size_t a = 0; a < by_first_.size(); ++a) {
      const int last = at(by_first_[a]).last;
      for (std::size_t b = a + 1; b < by_first_.size() && at(by_first_[b]).first <= last; ++b)
        if (!visit(static_cast<std::size_t>(by_first_[a]), static_cast<std::size_t>(by_first_[b])))
          return false;
    }
    return true;
  };
  std::vector<std::int32_t> degree(intervals_.size());
  std::size_t pairs = 0;
  if (!each_pair([&](std::size_t i, std::size_t j) {
        ++degree[i];
        ++degree[j];
        return (pairs += 2) <= kMaxConflicts;
      }))
    return;
  row_.reserve(intervals_.size() + 1);
  row_.push_back(0);
  for (std::int32_t count : degree)
    row_.push_back(row_.back() + (count + kRowStep - 1) / kRowStep * kRowStep);
  // Rows are padded with a value that is never placed.
  const auto nobody = static_cast<std::int32_t>(intervals_.size());
  conflicts_.assign(static_cast<std::size_t>(row_.back()), nobody);
  std::vector<std::int32_t> next(row_.begin(), row_.end() - 1);
  each_pair([&](std::size_t i, std::size_t j) {
    conflicts_[static_cast<std::size_t>(next[i]++)] = static_cast<std::int32_t>(j);
    conflicts_[static_cast<std::size_t>(next[j]++)] = static_cast<std::int32_t>(i);
    return true;
  });
}

// Walks through time: values that die return their room to a list of holes sorted by offset.
void MemoryPlanner::place_by_start(Scratch& scratch) const {
  std::vector<std::uint64_t>& holes = scratch.neighbours;
  holes.clear();
  scratch.total = 0;
  for (std::int32_t event : events_) {
    if (event < 0) {
      give_back(holes, scratch.placed[static_cast<std::size_t>(~event)]);
      continue;
    }
    const auto i = static_cast<std::size_t>(event);
    const std::uint32_t size = scratch.size[i];
    const std::uint32_t begin = take_lowest(holes, size, scratch.total);
    scratch.placed[i] = pack(begin, begin + size);
    scratch.total = std::max(scratch.total, begin + size);
  }
}

// Places values in scratch.order; each considers only conflicting values placed before it.
void MemoryPlanner::place_in_order(Scratch& scratch) const {
  std::fill(scratch.placed.begin(), scratch.placed.end(), kUnplaced);
  scratch.total = 0;
  const std::uint64_t* const placed = scratch.placed.data();
  const std::size_t count = scratch.order.size();
  for (std::size_t turn = 0; turn < count; ++turn) {
    if (scratch.total >= scratch.limit) return;
    // Rows are accessed in no predictable order, so the next one is prefetched.
    const auto soon = static_cast<std::size_t>(scratch.order[std::min(turn + kAhead, count - 1)]);
    __builtin_prefetch(conflicts_.data() + row_[soon]);
    __builtin_prefetch(conflicts_.data() + row_[soon] + kCacheLine / sizeof(std::int32_t));
    const auto i = static_cast<std::size_t>(scratch.order[turn]);
    const std::uint32_t size = scratch.size[i];
    const std::int32_t* begin = conflicts_.data() + row_[i];
    const std::int32_t* end = conflicts_.data() + row_[i + 1];
    const std::size_t room = words_for(static_cast<std::size_t>(end - begin));
    if (scratch.neighbours.size() < room) scratch.neighbours.resize(room);
    std::uint64_t* const around = scratch.neighbours.data();
    std::uint64_t* top = around;
    for (; begin != end; begin += kRowStep) {
      for (int k = 0; k < kRowStep; ++k) {
        *top = placed[begin[k]];
        top += *top != kUnplaced ? 1 : 0;
      }
    }
    const std::uint32_t best = tightest_hole_between(around, static_cast<int>(top - around), size);
    scratch.placed[i] = pack(best, best + size);
    scratch.total = std::max(scratch.total, best + size);
  }
}

void MemoryPlanner::sort_by_keys(Scratch& scratch) const {
  scratch.order = by_first_;
  sort_descending(scratch.keys, scratch.order, scratch.spare);
}

// Values that end above the lower bound should have been placed earlier. First all of them move up
// one class at a time, which brings large programs near the bound in a few rounds; then single
// values move before a randomly chosen one, which finds the last holes in small programs. Keeps the
// best placement.
void MemoryPlanner::place_by_blame(Scratch& scratch) const {
  constexpr std::uint64_t kClass = std::uint64_t{1} << 56;  // above every size * lifetime
  const auto bound = static_cast<std::uint32_t>(lower_bound(scratch) / kAlignment);
  const std::size_t values = std::max<std::size_t>(by_first_.size(), 1);
  const std::uint32_t limit = std::exchange(scratch.limit, ~std::uint32_t{0});
  std::vector<std::uint64_t> best;
  std::vector<std::int32_t> best_order;
  std::uint32_t best_total = ~std::uint32_t{0};
  const auto place_and_keep_best = [&] {
    place_in_order(scratch);
    if (scratch.total >= best_total) return;
    best_total = scratch.total;
    best = scratch.placed;
    best_order = scratch.order;
  };
  const auto is_too_high = [&](std::int32_t value) {
    return end_of(scratch.placed[static_cast<std::size_t>(value)]) > bound;
  };
  const std::size_t rounds = std::clamp<std::size_t>(8000 / values, 2, 64);
  for (std::size_t round = 0; round < rounds && best_total > bound; ++round) {
    sort_by_keys(scratch);
    place_and_keep_best();
    for (std::int32_t value : by_first_) {
      std::uint64_t& key = scratch.keys[static_cast<std::size_t>(value)];
      if (is_too_high(value) && key < 200 * kClass) key += kClass;
    }
  }
  const std::size_t moves = std::clamp<std::size_t>(16000 / values, 2, 400);
  std::uint64_t lot = 1;  // fixed seed: equal programs get equal placements
  const auto draw = [&](std::size_t below) {
    lot = lot * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::ptrdiff_t>((lot >> 33) % below);
  };
  scratch.order = best_order;
  scratch.placed = best;
  for (std::size_t move = 0; move < moves && best_total > bound; ++move) {
    scratch.spare.clear();
    for (std::size_t at = 0; at < scratch.order.size(); ++at)
      if (is_too_high(scratch.order[at])) scratch.spare.push_back(static_cast<std::int32_t>(at));
    const std::int32_t from = scratch.spare[static_cast<std::size_t>(draw(scratch.spare.size()))];
    const auto to = draw(static_cast<std::size_t>(from) + 1);
    const auto begin = scratch.order.begin();
    std::rotate(begin + to, begin + from, begin + from + 1);
    place_and_keep_best();
  }
  scratch.limit = limit;
  scratch.total = best_total;
  scratch.placed = std::move(best);
}

void MemoryPlanner::place_apart(Scratch& scratch) const {
  scratch.total = 0;
  for (std::int32_t value : by_first_) {
    const std::uint32_t end = scratch.total + scratch.size[static_cast<std::size_t>(value)];
    scratch.placed[static_cast<std::size_t>(value)] = pack(std::exchange(scratch.total, end), end);
  }
}

void MemoryPlanner::place(Strategy strategy, Scratch& scratch) const {
  if (strategy == Strategy::apart) {
    place_apart(scratch);
    return;
  }
  if (strategy == Strategy::by_start || row_.empty()) {
    place_by_start(scratch);
    return;
  }
  for (std::int32_t value : by_first_) {
    const auto i = static_cast<std::size_t>(value);
    std::uint64_t key = scratch.size[i];
    if (strategy != Strategy::by_size)
      key *= static_cast<std::uint64_t>(intervals_[i].last - intervals_[i].first + 1);
    scratch.keys[i] = key;
  }
  if (strategy == Strategy::by_blame) {
    place_by_blame(scratch);
    return;
  }
  sort_by_keys(scratch);
  place_in_order(scratch);
}

std::int64_t MemoryPlanner::lower_bound(const Scratch& scratch) const {
  std::int64_t live = 0, most = 0;
  for (std::int32_t event : events_) {
    const std::int32_t dies = event >> 31;  // all ones: the sign of what is added
    live += (std::int64_t{scratch.size[static_cast<std::size_t>(event ^ dies)]} ^ dies) - dies;
    most = std::max(most, live);
  }
  return most * kAlignment;
}

namespace {

void to_units(std::span<const std::int64_t> bytes, std::vector<std::uint32_t>& units) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    GEX_CHECK(bytes[i] >= 0, "value ", i, " has ", bytes[i], " bytes");
    const std::int64_t count = (bytes[i] + kAlignment - 1) / kAlignment;
    sum += count;
    if (sum >= std::int64_t{1} << 32)
      fail(ErrorCode::out_of_memory, "the temporaries of the program need more than 256 GiB; ",
           "use smaller inputs or split the program");
    units[i] = static_cast<std::uint32_t>(count);
  }
}

}  // namespace

Placement MemoryPlanner::plan(std::span<const std::int64_t> bytes, Strategy strategy) const {
  GEX_CHECK(bytes.size() == intervals_.size(), "one size for each value");
  Scratch& scratch = Scratch::of_this_thread(bytes.size());
  to_units(bytes, scratch.size);
  place(strategy, scratch);
  Placement out;
  out.strategy = strategy;
  out.total = std::int64_t{scratch.total} * kAlignment;
  out.lower_bound = lower_bound(scratch);
  out.offsets.assign(bytes.size(), 0);
  for (std::int32_t i : by_first_)
    out.offsets[static_cast<std::size_t>(i)] =
        std::int64_t{begin_of(scratch.placed[static_cast<std::size_t>(i)])} * kAlignment;
  return out;
}

Placement MemoryPlanner::plan(std::span<const std::int64_t> bytes) const {
  GEX_CHECK(bytes.size() == intervals_.size(), "one size for each value");
  Scratch& scratch = Scratch::of_this_thread(bytes.size());
  to_units(bytes, scratch.size);
  Placement out;
  out.lower_bound = lower_bound(scratch);
  out.offsets.assign(bytes.size(), 0);
  out.total = -1;
  // The fastest strategy first if values have many conflicts; else the one that most often wins.
  const bool crowded = conflicts_.size() > kCrowded * by_first_.size();
  std::array order = {Strategy::by_size, Strategy::by_area, Strategy::by_start, Strategy::by_blame};
  if (crowded) std::rotate(order.begin(), order.begin() + 2, order.begin() + 3);
  for (Strategy strategy : order) {
    if (out.total == out.lower_bound) break;  // optimal
    if (strategy != Strategy::by_start && row_.empty()) continue;
    if (strategy == Strategy::by_blame && out.total - out.lower_bound <= out.lower_bound / 64)
      continue;
    place(strategy, scratch);
    const std::int64_t total = std::int64_t{scratch.total} * kAlignment;
    if (out.total >= 0 && total >= out.total) continue;
    out.total = total;
    out.strategy = strategy;
    scratch.limit = scratch.total;
    for (std::int32_t i : by_first_)
      out.offsets[static_cast<std::size_t>(i)] =
          std::int64_t{begin_of(scratch.placed[static_cast<std::size_t>(i)])} * kAlignment;
  }
  return out;
}

}  // namespace gex::plan
