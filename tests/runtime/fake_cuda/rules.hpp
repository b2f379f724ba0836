#pragma once
// What a real driver refuses and a simulated one could do: calls that may wait for the device or
// allocate while a stream is being captured, launches beyond the limits of a GPU, and objects that
// were destroyed.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace fake_cuda {

// Modes of captures and threads, as CUstreamCaptureMode.
enum CaptureMode { kGlobal = 0, kOfThread = 1, kRelaxed = 2 };

// The captures that are open, and which calls they forbid.
class CaptureRules {
 public:
  static CaptureRules& get() {
    static auto* const rules = new CaptureRules;
    return *rules;
  }
  static int& mode_of_thread() {
    static thread_local int mode = kGlobal;
    return mode;
  }
  void begin(const void* capture, int mode) {
    const std::lock_guard lock(mutex_);
    open_.push_back({capture, mode, std::this_thread::get_id(), false});
    count_ = static_cast<int>(open_.size());
  }
  // Whether no forbidden call was made since it began.
  bool end(const void* capture) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].capture != capture) continue;
      const bool valid = !open_[i].broken;
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      count_ = static_cast<int>(open_.size());
      return valid;
    }
    return true;
  }
  // For a call that may allocate or wait: an error, which also breaks the captures that forbid it.
  int check_unsafe_call() {
    if (count_ == 0) return 0;
    const int mode = mode_of_thread();
    if (mode == kRelaxed) return 0;
    const std::lock_guard lock(mutex_);
    int result = 0;
    for (Open& open : open_) {
      const bool own = open.thread == std::this_thread::get_id();
      const bool forbids = own ? open.mode != kRelaxed : mode == kGlobal && open.mode == kGlobal;
      if (forbids) open.broken = true, result = 900;
    }
    return result;
  }

 private:
  struct Open {
    const void* capture;
    int mode;
    std::thread::id thread;
    bool broken;
  };
  std::mutex mutex_;
  std::atomic<int> count_{0};
  std::vector<Open> open_;
};

// Of an H100 or H200.
constexpr int kMostShared = 227 * 1024, kMostThreads = 1024, kDefaultShared = 48 * 1024;

// Events, streams and graphs that were made and not destroyed.
class LiveObjects {
 public:
  static LiveObjects& get() {
    static auto* const objects = new LiveObjects;
    return *objects;
  }
  template <class T>
  T* add(T* object) {
    const std::lock_guard lock(mutex_);
    objects_.insert(object);
    return object;
  }
  void remove(const void* object) {
    check(object);
    const std::lock_guard lock(mutex_);
    objects_.erase(object);
  }
  void check(const void* object) {
    const std::lock_guard lock(mutex_);
    if (objects_.contains(object)) return;
    std::fprintf(stderr, "the driver is given an event, a stream or a graph that does not exist\n");
    abort();
  }

 private:
  std::mutex mutex_;
  std::set<const void*> objects_;
};

}  // namespace fake_cuda
