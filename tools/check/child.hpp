#pragma once
// Runs work in a child process, so that a crash or a hang is a result.

#include <functional>
#include <ostream>
#include <string>

namespace gex::check {

struct ChildResult {
  std::string text;  // output of the child, including output before a crash
  int signal = 0;    // the signal that ended it, 0 if none
  bool timed_out = false;

  bool finished() const { return signal == 0 && !timed_out; }
  std::string ending() const;  // "signal 11 (Segmentation fault)", "timed out", ""
};

// Standard output and standard error of the child are discarded. An exception from `work` is a bug
// of the caller and ends the child like a crash.
ChildResult in_child(const std::function<void(std::ostream&)>& work, int seconds);

}  // namespace gex::check
