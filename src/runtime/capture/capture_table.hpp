#pragma once
// The Captures of a Session: found by their sizes, the least recently used goes first. The Session
// locks around every call.

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
  // Null if there is none. It counts as used now.
  std::shared_ptr<Capture> find(std::span<const std::int64_t> lookup);
  bool contains(std::span<const std::int64_t> lookup) const { return by_key_.contains(lookup); }
  // In place of the one with the same lookup, if there is one.
  void put(std::shared_ptr<Capture> capture);
  // Drops the least recently used beyond `limit`.
  std::vector<std::shared_ptr<Capture>> shrink(std::int64_t limit);
  const std::list<std::shared_ptr<Capture>>& by_use() const { return by_use_; }

 private:
  std::list<std::shared_ptr<Capture>> by_use_;  // most recent first
  std::unordered_map<SizeKey, std::list<std::shared_ptr<Capture>>::iterator, SizeKeyHash,
                     SizeKeyEqual>
      by_key_;
};

}  // namespace gex::runtime
