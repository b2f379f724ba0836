#pragma once
// Guards fork and exit against concurrent LLVM work: code that uses LLVM holds a ForkGuard, and
// fork and exit wait until none is held. A forked child thus never inherits a lock held by a thread
// that does not exist there, and LLVM's globals are not destroyed under a compiling thread.

#include <functional>

namespace gex::codegen {

// Held for the lifetime of the object; re-entrant per thread.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // Called once. `in_child` runs in a forked child before any other code enters LLVM.
  static void install(std::function<void()> in_child);
};

}  // namespace gex::codegen
