// Compiled with the machine flags of this variant; see CMakeLists.txt.
#define GEX_VARIANT avx2
#include "backend/cpu/kernels/simd/variant.hpp"
