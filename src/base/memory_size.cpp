#include "base/memory_size.hpp"

#include <sys/sysinfo.h>
#include <cctype>
#include <charconv>
#include <cmath>

#include <limits>

namespace gex {

std::size_t total_memory() {
  static const std::size_t total = [] {
    struct sysinfo info = {};
    if (sysinfo(&info) != 0) return std::numeric_limits<std::size_t>::max();
    return (static_cast<std::size_t>(info.totalram) + info.totalswap) * info.mem_unit;
  }();
  return total;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit(stop, static_cast<std::size_t>(text.data() + text.size() - stop));
  if (!unit.empty()) {
    constexpr std::string_view kUnits = "KMGT";
    const char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0])));
    const std::size_t power = kUnits.find(letter);
    if (power == std::string_view::npos) return std::nullopt;
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "B" && unit != "b" && unit != "iB" && unit != "ib")
      return std::nullopt;
    for (std::size_t k = 0; k <= power; ++k) number *= 1024;
  }
  constexpr double kMost = 0x1p62;
  if (number > kMost || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace gex
