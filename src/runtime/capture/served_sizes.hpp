#pragma once
// The sizes that a Capture has served: idle frames for the most recent ones, call counts for many,
// and specialised code for the frequent ones. All of it is bounded. The Session locks around every
// call.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "program/kernel_abi.hpp"
#include "runtime/capture/size_key.hpp"
#include "runtime/recorder.hpp"

namespace gex::runtime {

class Frame;
struct CodeTable {
  std::vector<program::Callable> functions;  // by launch number
  StaticDeviceCode device;
};

struct Served {
  SizeKey key;
  std::int64_t hits = 0;
  std::int64_t last_use = 0;  // counted in calls of the Capture
  std::shared_ptr<const CodeTable> code;
  std::vector<std::unique_ptr<Frame>> idle_frames;
  bool is_known = true;       // not evicted yet
  bool is_recent = false;     // one of the kRecent last used
  bool has_own_code = false;  // or it is being compiled
};

class ServedSizes {
 public:
  static constexpr std::size_t kRecent = 8;  // sizes with idle frames
  static constexpr std::size_t kIdleFrames =
      8;  // for each size: the number of concurrent calls that find one
  static constexpr std::size_t kCounted = 256;  // sizes whose calls are counted
  static constexpr std::size_t kWithOwnCode = 64;
  // After this many calls without its size, specialised code may be dropped for another size.
  static constexpr std::int64_t kUnused = 1024;

  ServedSizes();
  ~ServedSizes();
  ServedSizes(const ServedSizes&) = delete;
  ServedSizes& operator=(const ServedSizes&) = delete;

  // Marks the sizes as most recently used; null if they are not known.
  std::shared_ptr<Served> find(std::span<const std::int64_t> key);
  // Adds sizes; when full, evicts the least recently used ones without specialised code.
  std::shared_ptr<Served> admit(std::span<const std::int64_t> key,
                                std::shared_ptr<const CodeTable> generic);
  // An idle frame of these sizes or a spare one; for new sizes (null) also an idle frame of sizes
  // about to be evicted. Null if none is idle.
  std::unique_ptr<Frame> take_frame(Served* served);
  void give_back(Served& served, std::unique_ptr<Frame> frame);
  // Reserves a slot for specialised code for these sizes; false if none is available.
  bool reserve_own_code(Served& served);

 private:
  using List = std::list<std::shared_ptr<Served>>;
  void move_to_front(List::iterator position);
  void save_frames(Served& served);
  void evict();
  // Frees the code of sizes that were not used for long; false if all are in use.
  bool take_unused_code();

  List by_use_;  // most recent first
  std::unordered_map<SizeKey, List::iterator, SizeKeyHash, SizeKeyEqual> by_key_;
  std::vector<std::unique_ptr<Frame>> spare_frames_;
  std::shared_ptr<const CodeTable> generic_;
  std::size_t with_own_code_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t all_in_use_until_ = 0;  // no code can become unused before this call number
};

}  // namespace gex::runtime
