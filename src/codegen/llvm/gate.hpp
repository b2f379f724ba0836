#pragma once
// Code that works inside LLVM passes the gate; fork and exit close it. A forked child thus never
// inherits a lock that a vanished thread holds, and LLVM's globals are not torn down under a thread
// that still compiles.

#include <functional>
#include <shared_mutex>

namespace gex::codegen {

class Gate {
 public:
  // `in_child` runs in a forked child before anything else passes.
  static void install(std::function<void()> in_child);
  static std::shared_lock<std::shared_timed_mutex> pass();
};

}  // namespace gex::codegen
