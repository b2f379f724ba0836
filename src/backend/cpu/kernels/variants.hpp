#pragma once
// The compiled variants that this machine can run.

#include <span>

#include "backend/cpu/kernels/simd/context.hpp"

namespace gex::kernels {

// Best first; never empty. Determined once.
std::span<const Variant* const> usable_variants();

inline const Variant& choose_variant(const Variant* wanted) {
  return wanted ? *wanted : *usable_variants().front();
}

}  // namespace gex::kernels
