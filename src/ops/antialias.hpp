#pragma once
// Resampling with antialiasing, which interpolation registers.

namespace gex::ops {

void register_antialias_rows();

}  // namespace gex::ops
