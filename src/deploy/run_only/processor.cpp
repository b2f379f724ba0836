#include "backend/cpu/kernels/variants.hpp"
#include "base/error.hpp"
#include "deploy/text_code.hpp"

namespace gex::deploy {

void check_processor() {
  if (kernels::usable_variants().front()->matmul == nullptr)  // see without_baseline.cpp
    fail(ErrorCode::unsupported,
         "this processor has no AVX2, FMA and F16C, which libgex_run needs; use libgex");
}

}  // namespace gex::deploy
