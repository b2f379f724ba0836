#pragma once
// Traces in the format that Perfetto, chrome://tracing and PyTorch's own tools read.

#include <string>
#include <vector>

#include "report/model.hpp"

namespace gex::report {

// The fastest call of each Program: a process for each, a thread for each worker.
std::string chrome_trace(const std::vector<TraceKeeper::Kept>& traces);

}  // namespace gex::report
