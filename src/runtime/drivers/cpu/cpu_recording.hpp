#pragma once
// The steps of a batch on the CPU: one after the other, each split over the workers, or those of
// several streams concurrently.

#include <memory>

#include "runtime/recorder.hpp"

namespace gex::runtime {

std::unique_ptr<Recorder> make_cpu_recorder();

}  // namespace gex::runtime
