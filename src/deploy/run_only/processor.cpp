#include "backend/cpu/kernels/variants.hpp"
#include "base/error.hpp"
#include "deploy/text_code.hpp"

#if defined(__x86_64__)
// Kernels for processors without AVX2 are left out: they would be a fifth of the library.
namespace gex::kernels::baseline {
extern const Variant variant;
const Variant variant = {"none", 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
}  // namespace gex::kernels::baseline
#endif

namespace gex::deploy {

void check_processor() {
#if defined(__x86_64__)
  if (kernels::usable_variants().front()->matmul == nullptr)
    fail(ErrorCode::unsupported,
         "this processor has no AVX2, FMA and F16C, which libgex_run needs; use libgex");
#endif
}

}  // namespace gex::deploy
