// Compiled with the machine flags of this variant; see CMakeLists.txt.
#define GEX_VARIANT baseline
#include "backend/cpu/kernels/simd/variant.hpp"
