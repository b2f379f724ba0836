#include "runtime/memory/release_plan.hpp"

#include <algorithm>
#include <utility>

namespace gex::runtime {

namespace {

// A release interrupts a batch, so it needs at least this many bytes and happens at most this many
// times in a call.
constexpr std::int64_t kBytesWorthReleasing = std::int64_t{1} << 20;
constexpr std::int64_t kReleasesOfCall = 128;

// Removes `range` from the sorted, disjoint `free` ranges and returns the removed parts.
std::vector<ByteRange> take_from(std::vector<ByteRange>& free, ByteRange range) {
  std::vector<ByteRange> left, taken;
  for (const ByteRange& part : free) {
    const ByteRange common{std::max(part.begin, range.begin), std::min(part.end, range.end)};
    if (common.begin >= common.end) {
      left.push_back(part);
      continue;
    }
    taken.push_back(common);
    if (part.begin < common.begin) left.push_back({part.begin, common.begin});
    if (common.end < part.end) left.push_back({common.end, part.end});
  }
  free = std::move(left);
  return taken;
}

}  // namespace

ReleasePlan::ReleasePlan(const Image& image, std::span<const std::int64_t> values,
                         const plan::Placement* placement, std::span<const std::int64_t> sizes) {
  for (const InputEnd& end : image.input_ends)
    ends_.push_back({end.position, values[index(end.bytes_slot)], end.input, {}});
  if (placement != nullptr) add_arena(image, *placement, sizes);
  std::int64_t bytes = 0;
  for (const End& end : ends_) bytes += end.bytes;
  enough_ = std::max(kBytesWorthReleasing, bytes / kReleasesOfCall);
  std::ranges::stable_sort(ends_, {}, &End::position);
}

// A byte can be released after the last of the temporaries that use it.
void ReleasePlan::add_arena(const Image& image, const plan::Placement& placement,
                            std::span<const std::int64_t> sizes) {
  const auto& placed = image.epochs[0].placed;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < placed.size(); ++i)
    if (sizes[i] >= kBytesWorthReleasing) order.push_back(i);
  const auto last_use = [&](std::size_t i) {
    return image.lifetimes.of_root[index(placed[i])].last;
  };
  std::ranges::stable_sort(order, std::greater(), last_use);
  std::vector<ByteRange> free = {{0, placement.total}};
  for (std::size_t i = 0; i < placed.size();
       ++i)  // temporaries that are not considered stay allocated
    if (sizes[i] < kBytesWorthReleasing)
      take_from(free, {placement.offsets[i], placement.offsets[i] + sizes[i]});
  for (std::size_t i : order)
    for (const ByteRange& range :
         take_from(free, {placement.offsets[i], placement.offsets[i] + sizes[i]}))
      ends_.push_back({last_use(i), range.end - range.begin, -1, range});
}

void ReleasePlan::pass(int position) {
  for (; next_ < ends_.size() && ends_[next_].position <= position; ++next_) {
    const End& end = ends_[next_];
    if (end.input >= 0)
      pending_.inputs.push_back(end.input);
    else
      pending_.arena.push_back(end.range);
    pending_bytes_ += end.bytes;
  }
}

Release ReleasePlan::take() {
  pending_bytes_ = 0;
  return std::exchange(pending_, {});
}

}  // namespace gex::runtime
