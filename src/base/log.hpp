#pragma once
// Log messages on stderr. GEX_LOG=error|warning|info|debug; the default is warning.

#include <string>

#include "base/error.hpp"

namespace gex {

enum class LogLevel { error, warning, info, debug };

LogLevel log_level();
void set_log_level(LogLevel level);
void write_log(LogLevel level, const std::string& message);  // one line, written atomically

// Formats only messages that are written.
template <class... Args>
void log(LogLevel level, const Args&... args) {
  if (level <= log_level()) write_log(level, str(args...));
}

}  // namespace gex
