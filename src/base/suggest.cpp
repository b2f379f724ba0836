#include "base/suggest.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"

namespace gex {

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the Damerau-Levenshtein table (optimal string alignment).
  std::vector<int> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      int replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, previous[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::string suggestion(std::string_view wrong, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestName = 64;  // longer inputs are not misspelt names
  if (wrong.size() > kLongestName) return {};
  int limit = std::max(1, static_cast<int>(wrong.size()) / 3);
  std::string_view best;
  int best_distance = limit + 1;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > wrong.size() + limit || wrong.size() > candidate.size() + limit)
      continue;
    int distance = edit_distance(wrong, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? std::string() : str("; did you mean '", best, "'?");
}

}  // namespace gex
