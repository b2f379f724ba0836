#pragma once
// Code that works inside LLVM passes the gate; fork and exit close it. A forked child thus never
// inherits a lock that a vanished thread holds, and LLVM's globals are not torn down under a thread
// that still compiles.

#include <functional>

namespace gex::codegen {

class Gate {
 public:
  // `in_child` runs in a forked child before anything else passes.
  static void install(std::function<void()> in_child);

  // Passed for the lifetime of the object; a thread inside may pass again.
  class Pass {
   public:
    Pass();
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
  };
};

}  // namespace gex::codegen
