#include "base/version.hpp"

namespace gex {

const char* version() { return GEX_VERSION; }

}  // namespace gex
