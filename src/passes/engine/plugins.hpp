#pragma once
// Shared libraries whose static objects register passes.

#include <string_view>

namespace gex::passes {

// Those listed in GEX_PLUGINS ("a.so:b.so") that are not loaded yet.
void load_environment_plugins();

}  // namespace gex::passes
