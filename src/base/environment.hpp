#pragma once
// Environment variables that switch something on or off. An empty value counts as unset.

#include <optional>

namespace gex {

// 1 or 0, or nothing if the variable is unset. Other values are user errors that name the variable.
std::optional<bool> switch_in_environment(const char* variable);

}  // namespace gex
