#pragma once
// An observer of the launches of a call, for profilers.

#include <string_view>
#include <utility>

namespace gex::runtime {

// Called on the calling thread. Launches of an observed call run one after the other.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void launch_begins(std::string_view name) = 0;
  virtual void launch_ended() = 0;

  // The observer of this thread's calls; null if there is none.
  static LaunchWatch* current() { return slot(); }
  static LaunchWatch* set_current(LaunchWatch* watch) { return std::exchange(slot(), watch); }

 private:
  static LaunchWatch*& slot();
};

}  // namespace gex::runtime
