#pragma once
// Resampling with antialiasing, registered by interpolation.

namespace gex::ops {

void register_antialias_rows();

}  // namespace gex::ops
