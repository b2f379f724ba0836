#pragma once
// The one background thread of the process: compiles static code for hot shapes while nobody waits.
// It runs at low priority and starts with the first job. At exit, jobs that are not begun are
// dropped; the one that is ends with the kernel at hand.

#include <functional>

namespace gex::runtime {

// `job` must check `background_stopping()` between pieces of work. Jobs must not throw.
void run_in_background(std::function<void()> job);
bool background_stopping();
// For good: hosts that know the end of the program before its destructors run call it themselves.
void stop_background();
// Waits until no job is queued or running. For tests.
void wait_for_background();

}  // namespace gex::runtime
