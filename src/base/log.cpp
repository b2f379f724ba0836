#include "base/log.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/log_sink.hpp"

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

struct Sink {
  std::mutex mutex;
  std::function<void(LogLevel, const std::string&)> write;
  std::atomic<bool> is_set{false};
  static Sink& get() {
    static auto* const sink = new Sink;  // messages may come after static destructors
    return *sink;
  }
};

}  // namespace

LogLevel log_level() { return current_level().load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { current_level().store(level, std::memory_order_relaxed); }

void set_log_sink(std::function<void(LogLevel, const std::string&)> sink) {
  Sink& current = Sink::get();
  const std::lock_guard lock(current.mutex);
  current.write = std::move(sink);
  current.is_set.store(static_cast<bool>(current.write), std::memory_order_relaxed);
}

void write_log(LogLevel level, const std::string& message) {
  Sink& sink = Sink::get();
  if (sink.is_set.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(sink.mutex);
    if (sink.write) return sink.write(level, message);
  }
  // One call writes the whole line, so lines of different threads don't mix.
  std::string line = str("gex ", kNames[static_cast<std::size_t>(level)], ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace gex
