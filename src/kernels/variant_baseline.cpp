// Compiled with the machine flags of this variant; see CMakeLists.txt.
#define GEX_VARIANT baseline
#include "kernels/simd/variant.hpp"
