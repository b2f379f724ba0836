#pragma once
// Collects the kernels of one variant; `variant` is the only symbol with external linkage.

#include "backend/cpu/kernels/simd/attention.hpp"
#include "backend/cpu/kernels/simd/candidates.hpp"
#include "backend/cpu/kernels/simd/conv2d.hpp"
#include "backend/cpu/kernels/simd/conv2d_input_grad.hpp"
#include "backend/cpu/kernels/simd/conv2d_weight_grad.hpp"
#include "backend/cpu/kernels/simd/matmul.hpp"
#include "backend/cpu/kernels/simd/quantised.hpp"

#define GEX_VARIANT_TEXT_OF(name) #name
#define GEX_VARIANT_TEXT(name) GEX_VARIANT_TEXT_OF(name)

namespace gex::kernels::GEX_VARIANT {

extern const Variant variant;
const Variant variant = {GEX_VARIANT_TEXT(GEX_VARIANT),
                         kVectorBytes,
                         &matmul,
                         &matmul_pack,
                         &conv2d,
                         &conv2d_pack,
                         &conv2d_weight_grad,
                         &conv2d_input_grad,
                         &attention,
                         &quantised_matmul,
                         &candidates};

}  // namespace gex::kernels::GEX_VARIANT
