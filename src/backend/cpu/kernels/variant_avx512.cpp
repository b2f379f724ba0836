// Compiled with the machine flags of this variant; see CMakeLists.txt.
#define GEX_VARIANT avx512
#include "backend/cpu/kernels/simd/variant.hpp"
