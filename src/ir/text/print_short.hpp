#pragma once
// Texts of bounded length for graphs with large constants (weights). Large constants can't be
// parsed back.

#include <cstddef>
#include <string>

#include "ir/graph.hpp"

namespace gex {

inline constexpr std::size_t kLargeConstantBytes = std::size_t{64} << 10;
// For display: the first and last values of large constants.
std::string print_for_report(const Graph& graph);
// For keys: digests of large constants.
std::string print_for_key(const Graph& graph);

}  // namespace gex
