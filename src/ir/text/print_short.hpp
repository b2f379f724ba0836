#pragma once
// Graphs whose constants may be weights of a model, as texts of reasonable length. What holds a
// large constant is not parsed back.

#include <cstddef>
#include <string>

#include "ir/graph.hpp"

namespace gex {

inline constexpr std::size_t kLargeConstantBytes = std::size_t{64} << 10;
// For people: the first and last values of large constants.
std::string print_for_report(const Graph& graph);
// For keys: digests of large constants.
std::string print_for_key(const Graph& graph);

}  // namespace gex
