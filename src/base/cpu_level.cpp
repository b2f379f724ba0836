#include "base/cpu_level.hpp"

#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace gex {

int cpu_level_limit() {
  const char* text = std::getenv("GEX_CPU");
  const std::string_view level = text != nullptr ? text : "";
  if (level.empty() || level == "v4") return 4;
  if (level == "v3") return 3;
  if (level == "v2") return 2;
  fail(ErrorCode::invalid_argument, "GEX_CPU is '", level,
       "': set it to v2, v3 or v4, or unset it");
}

}  // namespace gex
