#pragma once
// The single background thread of the process: compiles static code for hot shapes. It runs at low
// priority and starts with the first job. At exit, queued jobs are dropped and the running one
// stops after the kernel it is compiling.

#include <functional>

namespace gex::runtime {

// `job` must check `background_stopping()` between units of work. Jobs must not throw.
void run_in_background(std::function<void()> job);
bool background_stopping();
// Permanent. Called by hosts that know the end of the program before destructors run.
void stop_background();
// Waits until no job is queued or running. For tests.
void wait_for_background();

}  // namespace gex::runtime
