#include "backend/cpu/kernels/variants.hpp"

#if defined(__x86_64__)
// Kernels for processors without AVX2 are omitted: they would be a fifth of the library.
namespace gex::kernels::baseline {
extern const Variant variant;
const Variant variant = {"none", 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
}  // namespace gex::kernels::baseline
#endif
