#pragma once
// Where log messages go, if not to standard error.

#include <functional>
#include <string>

#include "base/log.hpp"

namespace gex {

// Called by any thread, one message at a time. Empty: standard error again.
void set_log_sink(std::function<void(LogLevel level, const std::string& message)> sink);

}  // namespace gex
