#pragma once
// The sizes that a Capture has served: frames are ready for the last few, calls are counted for
// many, and those that keep coming have code of their own. All of it is bounded. The Session locks
// around every call.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "program/kernel_abi.hpp"
#include "runtime/capture/size_key.hpp"

namespace gex::runtime {

class Frame;
using CodeTable = std::vector<program::Callable>;  // by launch number

struct Served {
  SizeKey key;
  std::int64_t hits = 0;
  std::int64_t last_use = 0;  // in calls of the Capture
  std::shared_ptr<const CodeTable> code;
  std::vector<std::unique_ptr<Frame>> idle_frames;
  bool is_known = true;       // not forgotten meanwhile
  bool is_recent = false;     // one of the last few
  bool has_own_code = false;  // or it is being made
};

class ServedSizes {
 public:
  static constexpr std::size_t kRecent = 8;      // sizes with idle frames
  static constexpr std::size_t kIdleFrames = 8;  // for each: as many calls at once find one ready
  static constexpr std::size_t kCounted = 256;   // sizes that are known at all
  static constexpr std::size_t kWithOwnCode = 64;
  // So many calls without it, and a size gives its code up for another.
  static constexpr std::int64_t kUnused = 1024;

  ServedSizes();
  ~ServedSizes();
  ServedSizes(const ServedSizes&) = delete;
  ServedSizes& operator=(const ServedSizes&) = delete;

  // Most recent from now on; null if these sizes are not known.
  std::shared_ptr<Served> find(std::span<const std::int64_t> key);
  // Adds sizes; beyond the limit those without code of their own go that were not used for longest.
  std::shared_ptr<Served> admit(std::span<const std::int64_t> key,
                                std::shared_ptr<const CodeTable> generic);
  // An idle frame of these sizes or a spare one; for sizes that come for the first time (null) also
  // one of those that may soon be forgotten. Null if none is idle.
  std::unique_ptr<Frame> take_frame(Served* served);
  void give_back(Served& served, std::unique_ptr<Frame> frame);
  // Whether code may be made for these sizes now. It counts as made.
  bool reserve_own_code(Served& served);

 private:
  using List = std::list<std::shared_ptr<Served>>;
  void move_to_front(List::iterator position);
  void set_aside(Served& served);
  void evict();
  // Takes the code of sizes that were not used for long; false if all of them are in use.
  bool take_unused_code();

  List by_use_;  // most recent first
  std::unordered_map<SizeKey, List::iterator, SizeKeyHash, SizeKeyEqual> by_key_;
  std::vector<std::unique_ptr<Frame>> spare_frames_;
  std::shared_ptr<const CodeTable> generic_;
  std::size_t with_own_code_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t all_in_use_until_ = 0;  // before this call no code is unused for long
};

}  // namespace gex::runtime
