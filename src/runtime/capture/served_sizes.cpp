#include "runtime/capture/served_sizes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "runtime/capture/capture.hpp"

namespace gex::runtime {

ServedSizes::ServedSizes() = default;
ServedSizes::~ServedSizes() = default;

std::shared_ptr<Served> ServedSizes::find(std::span<const std::int64_t> key) {
  if (by_use_.empty()) return nullptr;
  if (!std::ranges::equal(by_use_.front()->key, key)) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    move_to_front(found->second);
  }
  by_use_.front()->last_use = ++calls_;
  return by_use_.front();
}

std::shared_ptr<Served> ServedSizes::admit(std::span<const std::int64_t> key,
                                           std::shared_ptr<const CodeTable> generic) {
  if (by_use_.size() >= kCounted) evict();
  generic_ = std::move(generic);
  auto entry = std::make_shared<Served>();
  entry->key.assign(key.begin(), key.end());
  entry->code = generic_;
  entry->last_use = ++calls_;
  entry->idle_frames.reserve(kIdleFrames);
  by_key_.emplace(entry->key, by_use_.insert(by_use_.end(), entry));
  move_to_front(std::prev(by_use_.end()));
  return entry;
}

void ServedSizes::move_to_front(List::iterator position) {
  by_use_.splice(by_use_.begin(), by_use_, position);
  if (std::exchange(by_use_.front()->is_recent, true)) return;
  if (by_use_.size() <= kRecent) return;
  Served& outrun = **std::next(by_use_.begin(), kRecent);
  outrun.is_recent = false;
  save_frames(outrun);
}

void ServedSizes::save_frames(Served& served) {
  for (std::unique_ptr<Frame>& frame : served.idle_frames)
    if (spare_frames_.size() < kIdleFrames) spare_frames_.push_back(std::move(frame));
  served.idle_frames.clear();
}

void ServedSizes::evict() {
  const auto victim = std::find_if(by_use_.rbegin(), by_use_.rend(),
                                   [](const auto& entry) { return !entry->has_own_code; });
  GEX_CHECK(victim != by_use_.rend(), "more sizes have specialised code than allowed");
  save_frames(**victim);
  (*victim)->is_recent = (*victim)->is_known = false;  // a running call may still hold it
  by_key_.erase((*victim)->key);
  by_use_.erase(std::next(victim).base());
}

std::unique_ptr<Frame> ServedSizes::take_frame(Served* served) {
  std::vector<std::unique_ptr<Frame>>* from = nullptr;
  if (served != nullptr && !served->idle_frames.empty()) {
    from = &served->idle_frames;
  } else if (!spare_frames_.empty()) {
    from = &spare_frames_;
  } else if (served == nullptr) {
    for (const auto& entry : by_use_) {
      if (!entry->is_recent) break;
      if (!entry->idle_frames.empty()) from = &entry->idle_frames;
    }
  }
  if (from == nullptr) return nullptr;
  std::unique_ptr<Frame> frame = std::move(from->back());
  from->pop_back();
  return frame;
}

void ServedSizes::give_back(Served& served, std::unique_ptr<Frame> frame) {
  auto& to = served.is_recent ? served.idle_frames : spare_frames_;
  if (to.size() < kIdleFrames) to.push_back(std::move(frame));
}

bool ServedSizes::reserve_own_code(Served& served) {
  if (!served.is_known) return false;
  if (with_own_code_ >= kWithOwnCode && !take_unused_code()) return false;
  ++with_own_code_;
  served.has_own_code = true;
  return true;
}

bool ServedSizes::take_unused_code() {
  if (calls_ < all_in_use_until_) return false;
  const auto oldest = std::find_if(by_use_.rbegin(), by_use_.rend(),
                                   [](const auto& entry) { return entry->has_own_code; });
  GEX_CHECK(oldest != by_use_.rend(), "no size has specialised code");
  all_in_use_until_ = (*oldest)->last_use + kUnused;
  if (calls_ < all_in_use_until_) return false;
  (*oldest)->has_own_code = false;
  (*oldest)->code = generic_;
  (*oldest)->hits = 0;
  --with_own_code_;
  return true;
}

}  // namespace gex::runtime
