#include "base/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log_sink.hpp"
#include "base/suggest.hpp"

namespace gex {

namespace {

constexpr std::array<std::string_view, 4> kLevels = {"error", "warning", "info", "debug"};
constexpr std::array<std::string_view, 11> kAreas = {"cache", "capture", "code",   "compile",
                                                     "fuse",  "onnx",    "passes", "run",
                                                     "serve", "torch",   "tune"};

using Levels = std::array<std::atomic<LogLevel>, kAreas.size()>;

template <std::size_t N>
std::optional<std::size_t> index_of(const std::array<std::string_view, N>& names,
                                    std::string_view name) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) return std::nullopt;
  return static_cast<std::size_t>(at - names.begin());
}

std::string list_of(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t k = 0; k < names.size(); ++k)
    text += str(k == 0 ? "" : k + 1 < names.size() ? ", " : " or ", names[k]);
  return text;
}

std::string unknown(std::string_view part, std::string_view what, std::string_view wrong,
                    std::span<const std::string_view> known) {
  return str("GEX_LOG: '", part, "' has no effect: the ", what, " must be ", list_of(known),
             suggestion(wrong, known));
}

std::vector<std::string_view> parts_of(std::string_view settings) {
  std::vector<std::string_view> parts;
  while (!settings.empty()) {
    const std::size_t end = std::min(settings.find(','), settings.size());
    std::string_view part = settings.substr(0, end);
    settings.remove_prefix(std::min(end + 1, settings.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// A level for all areas applies first, wherever it stands in the text; levels of single areas
// override it.
std::vector<std::string> set_levels(std::string_view settings, Levels& levels) {
  std::vector<std::string> problems;
  std::vector<std::pair<std::size_t, LogLevel>> of_area;
  for (const std::string_view part : parts_of(settings)) {
    const std::size_t equals = part.find('=');
    const bool has_area = equals != std::string_view::npos;
    const std::string_view name = has_area ? part.substr(equals + 1) : part;
    const auto level = index_of(kLevels, name);
    const auto area = has_area ? index_of(kAreas, part.substr(0, equals)) : std::nullopt;
    if (has_area && !area) {
      problems.push_back(unknown(part, "area", part.substr(0, equals), kAreas));
    } else if (!level) {
      problems.push_back(unknown(part, "level", name, kLevels));
    } else if (has_area) {
      of_area.push_back({*area, static_cast<LogLevel>(*level)});
    } else {
      for (auto& each : levels)
        each.store(static_cast<LogLevel>(*level), std::memory_order_relaxed);
    }
  }
  for (const auto& [area, level] : of_area) levels[area].store(level, std::memory_order_relaxed);
  return problems;
}

void write_line(LogLevel level, const std::string& message);

Levels& current_levels() {
  static Levels levels;
  static const bool read = [] {
    for (auto& level : levels) level.store(LogLevel::warning, std::memory_order_relaxed);
    const char* text = std::getenv("GEX_LOG");
    for (const std::string& problem : set_levels(text == nullptr ? "" : text, levels))
      write_line(LogLevel::warning, problem);
    return true;
  }();
  (void)read;
  return levels;
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

void write_line(LogLevel level, const std::string& message) {
  Sink& sink = Sink::get();
  if (sink.is_set.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(sink.mutex);
    if (sink.write) return sink.write(level, message);
  }
  // One call writes the whole line, so lines of different threads don't mix.
  std::string line = str("gex ", kLevels[static_cast<std::size_t>(level)], ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::span<const std::string_view> log_level_names() { return kLevels; }
std::span<const std::string_view> log_area_names() { return kAreas; }

LogLevel log_level(LogArea area) {
  return current_levels()[static_cast<std::size_t>(area)].load(std::memory_order_relaxed);
}

void set_log_level(LogLevel level) {
  for (auto& each : current_levels()) each.store(level, std::memory_order_relaxed);
}

std::vector<std::string> set_log_levels(std::string_view settings) {
  return set_levels(settings, current_levels());
}

void set_log_sink(std::function<void(LogLevel, const std::string&)> sink) {
  Sink& current = Sink::get();
  const std::lock_guard lock(current.mutex);
  current.write = std::move(sink);
  current.is_set.store(static_cast<bool>(current.write), std::memory_order_relaxed);
}

void write_log(LogArea area, LogLevel level, const std::string& message) {
  write_line(level, str(kAreas[static_cast<std::size_t>(area)], ": ", message));
}

}  // namespace gex
