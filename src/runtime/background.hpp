#pragma once
// The one background thread of the process: compiles static code for hot shapes while nobody waits.
// It runs at idle priority, starts with the first job, and takes no part in exit: jobs that are not
// begun are dropped, and the process does not wait for the one that is.

#include <functional>

namespace gex::runtime {

// `job` must check `background_stopping()` between pieces of work. Jobs must not throw.
void run_in_background(std::function<void()> job);
bool background_stopping();
// Waits until no job is queued or running. For tests.
void wait_for_background();

}  // namespace gex::runtime
