#pragma once
// The Captures of a Session, by sizes; the least recently used is evicted first. The Session locks
// around every call.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/capture/capture.hpp"
#include "runtime/capture/size_key.hpp"

namespace gex::runtime {

class CaptureTable {
 public:
  // Returns null if there is none; marks the result as most recently used.
  std::shared_ptr<Capture> find(std::span<const std::int64_t> lookup);
  bool contains(std::span<const std::int64_t> lookup) const { return by_key_.contains(lookup); }
  // Replaces an entry with the same lookup key.
  void put(std::shared_ptr<Capture> capture);
  // Evicts the least recently used entries until at most `limit` remain.
  std::vector<std::shared_ptr<Capture>> shrink(std::int64_t limit);
  const std::list<std::shared_ptr<Capture>>& by_use() const { return by_use_; }

 private:
  std::list<std::shared_ptr<Capture>> by_use_;  // most recent first
  std::unordered_map<SizeKey, std::list<std::shared_ptr<Capture>>::iterator, SizeKeyHash,
                     SizeKeyEqual>
      by_key_;
};

}  // namespace gex::runtime
