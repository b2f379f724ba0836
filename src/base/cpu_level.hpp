#pragma once

namespace gex {

// The x86-64 level (2, 3 or 4) up to which generated code and kernels may use the processor: that
// of GEX_CPU (v2, v3, v4), or 4. Invalid values are user errors.
int cpu_level_limit();

}  // namespace gex
