#pragma once
// "Did you mean": the known name nearest to a misspelt one.

#include <span>
#include <string>
#include <string_view>

namespace gex {

// Number of inserted, removed, replaced or swapped neighbouring characters.
int edit_distance(std::string_view a, std::string_view b);

// "; did you mean 'x'?" for the nearest candidate that is near enough, else "".
std::string suggestion(std::string_view wrong, std::span<const std::string_view> candidates);

}  // namespace gex
