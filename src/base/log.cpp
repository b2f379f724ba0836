#include "base/log.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace gex {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"error", "warning", "info", "debug"};

LogLevel level_from_environment() {
  const char* text = std::getenv("GEX_LOG");
  if (!text || !*text) return LogLevel::warning;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<LogLevel>(i);
  }
  write_log(LogLevel::warning, str("GEX_LOG must be error, warning, info or debug, got '", text,
                                   "'; warning is used"));
  return LogLevel::warning;
}

std::atomic<LogLevel>& current_level() {
  static std::atomic<LogLevel> level{level_from_environment()};
  return level;
}

}  // namespace

LogLevel log_level() { return current_level().load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { current_level().store(level, std::memory_order_relaxed); }

void write_log(LogLevel level, const std::string& message) {
  // One call writes the whole line, so lines of different threads don't mix.
  std::string line = str("gex ", kNames[static_cast<std::size_t>(level)], ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace gex
