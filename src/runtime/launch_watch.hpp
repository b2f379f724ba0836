#pragma once
// Who is told of each launch of a call, for profilers.

#include <string_view>
#include <utility>

namespace gex::runtime {

// Told on the calling thread. Launches of a watched call run one after the other.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void launch_begins(std::string_view name) = 0;
  virtual void launch_ended() = 0;

  // Of the calls of this thread; null if nobody watches.
  static LaunchWatch* current() { return slot(); }
  static LaunchWatch* set_current(LaunchWatch* watch) { return std::exchange(slot(), watch); }

 private:
  static LaunchWatch*& slot();
};

}  // namespace gex::runtime
