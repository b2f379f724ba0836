#pragma once
// The steps of a batch as the CPU runs them: one after the other, each spread over the workers, or
// those of several streams side by side.

#include <memory>

#include "runtime/recorder.hpp"

namespace gex::runtime {

std::unique_ptr<Recorder> make_cpu_recorder();

}  // namespace gex::runtime
