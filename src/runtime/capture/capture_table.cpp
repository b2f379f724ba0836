#include "runtime/capture/capture_table.hpp"

namespace gex::runtime {

std::shared_ptr<Capture> CaptureTable::find(std::span<const std::int64_t> lookup) {
  const auto found = by_key_.find(lookup);
  if (found == by_key_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return *found->second;
}

void CaptureTable::put(std::shared_ptr<Capture> capture) {
  const auto found = by_key_.find(capture->lookup);
  if (found != by_key_.end()) {
    by_use_.erase(found->second);
    by_key_.erase(found);
  }
  by_use_.push_front(std::move(capture));
  by_key_.emplace(by_use_.front()->lookup, by_use_.begin());
}

std::vector<std::shared_ptr<Capture>> CaptureTable::shrink(std::int64_t limit) {
  std::vector<std::shared_ptr<Capture>> dropped;
  while (static_cast<std::int64_t>(by_use_.size()) > limit) {
    by_key_.erase(by_use_.back()->lookup);
    dropped.push_back(std::move(by_use_.back()));
    by_use_.pop_back();
  }
  return dropped;
}

}  // namespace gex::runtime
