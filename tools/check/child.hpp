#pragma once
// Work in a child process, so that a crash or a hang of it is an answer and not the end.

#include <functional>
#include <ostream>
#include <string>

namespace gex::check {

struct ChildResult {
  std::string text;  // what the child wrote, also before a crash
  int signal = 0;    // that ended it, 0 if none did
  bool timed_out = false;

  bool finished() const { return signal == 0 && !timed_out; }
  std::string ending() const;  // "signal 11 (Segmentation fault)", "no answer in time", ""
};

// Standard output and standard error of the child are dropped. An exception out of `work` is a bug
// of the caller: it ends the child as a crash does.
ChildResult in_child(const std::function<void(std::ostream&)>& work, int seconds);

}  // namespace gex::check
