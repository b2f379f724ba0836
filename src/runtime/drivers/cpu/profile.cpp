#include "runtime/drivers/cpu/profile.hpp"

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <vector>

#include "base/error.hpp"

namespace gex::runtime {

namespace {

constexpr std::size_t kShownSizes = 9;  // all sizes of a matmul or convolution, no strides

struct AtExit {
  explicit AtExit(std::size_t rows) : profile(rows) {}
  Profile profile;
  ~AtExit() { profile.print(std::cerr); }
};

}  // namespace

void Profile::add(std::string_view name, std::span<const std::int64_t> sizes, std::int64_t work,
                  std::int64_t nanoseconds) {
  std::string key(name);
  key += " [";
  for (std::int64_t size : sizes.first(std::min(sizes.size(), kShownSizes)))
    key += (key.back() == '[' ? "" : " ") + std::to_string(size);
  key += ']';
  const std::scoped_lock lock(mutex_);
  Row& row = rows_[key];
  row.fastest = row.calls == 0 ? nanoseconds : std::min(row.fastest, nanoseconds);
  row.nanoseconds += nanoseconds;
  row.work = work;
  ++row.calls;
}

void Profile::print(std::ostream& out) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<std::string, Row>> rows(rows_.begin(), rows_.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.nanoseconds > b.second.nanoseconds;
  });
  std::int64_t total = 0;
  for (const auto& [key, row] : rows) total += row.nanoseconds;
  out << "gex profile: " << static_cast<double>(total) * 1e-6 << " ms in " << rows.size()
      << " kinds of launches\n   total ms  share    calls    best us  work/ns  launch [sizes]\n";
  rows.resize(std::min(rows.size(), shown_));
  for (const auto& [key, row] : rows) {
    const auto best = static_cast<double>(std::max<std::int64_t>(1, row.fastest));
    out << std::fixed << std::setprecision(2) << std::setw(11)
        << static_cast<double>(row.nanoseconds) * 1e-6 << std::setw(6) << std::setprecision(1)
        << 100.0 * static_cast<double>(row.nanoseconds) / static_cast<double>(total) << '%'
        << std::setw(9) << row.calls << std::setw(11) << best * 1e-3 << std::setw(9)
        << static_cast<double>(row.work) / best << "  " << key << '\n';
  }
}

Profile* Profile::active() {
  static Profile* const profile = []() -> Profile* {
    const char* text = std::getenv("GEX_PROFILE");
    if (text == nullptr || *text == '\0') return nullptr;
    char* end = nullptr;
    const long rows = std::strtol(text, &end, 10);
    if (*end != '\0' || rows < 0)
      fail(ErrorCode::invalid_argument, "GEX_PROFILE is '", text, "': must be a number of rows");
    if (rows == 0) return nullptr;
    static AtExit at_exit{static_cast<std::size_t>(rows)};
    return &at_exit.profile;
  }();
  return profile;
}

}  // namespace gex::runtime
