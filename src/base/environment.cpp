#include "base/environment.hpp"

#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace gex {

std::optional<bool> switch_in_environment(const char* variable) {
  const char* text = std::getenv(variable);
  const std::string_view value = text == nullptr ? "" : text;
  if (value.empty()) return std::nullopt;
  if (value != "0" && value != "1")
    fail(ErrorCode::invalid_argument, variable, " is '", value, "': must be 0 or 1");
  return value == "1";
}

}  // namespace gex
