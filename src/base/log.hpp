#pragma once
// Log messages on stderr, by area and level. GEX_LOG=LEVEL,AREA=LEVEL,...; the default is warning.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace gex {

enum class LogLevel { error, warning, info, debug };

// What a message is about.
enum class LogArea { cache, capture, code, compile, fuse, onnx, passes, run, serve, torch, tune };

std::span<const std::string_view> log_level_names();
std::span<const std::string_view> log_area_names();

LogLevel log_level(LogArea area);
void set_log_level(LogLevel level);  // of all areas

// Sets the levels that a text in the form of GEX_LOG asks for: a level for all areas, or
// AREA=LEVEL. Returns one message for each part that is neither; the other parts take effect.
std::vector<std::string> set_log_levels(std::string_view settings);

void write_log(LogArea area, LogLevel level, const std::string& message);  // one line, atomically

inline bool logs(LogArea area, LogLevel level) { return level <= log_level(area); }

// Formats only messages that are written.
template <class... Args>
void log(LogArea area, LogLevel level, const Args&... args) {
  if (logs(area, level)) write_log(area, level, str(args...));
}

}  // namespace gex
