#pragma once
// e^x for softmax: x is at most 0 up to rounding, or NaN. NaN stays NaN, -inf gives 0.

#include <cstdint>

#include "backend/cpu/kernels/simd/vec.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

using VecI32 = VecTraits<float, std::int32_t>::type;

GEX_INLINE Vec<float> exp_of(Vec<float> x) {
  // Below -104 the result rounds to 0; NaN fails the comparison and passes through.
  const Vec<float> clamped = x < -104.0f ? splat(-104.0f) : x;
  // n = round(x / ln 2), taken from the low bits of a sum whose unit in the last place is 1.
  constexpr float kRounder = 0x1.8p23f;
  const Vec<float> shifted = mul_add(clamped, splat(1.44269504088896341f), splat(kRounder));
  const Vec<float> n = shifted - kRounder;
  const VecI32 power =
      reinterpret_cast<VecI32>(shifted) - __builtin_bit_cast(std::int32_t, kRounder);
  const Vec<float> high = mul_add(n, splat(-0x1.62e4p-1f), clamped);
  const Vec<float> r = mul_add(n, splat(-0x1.7f7d1cp-20f), high);
  // ln 2 in two parts, the first short enough for exact products. Taylor to degree 7 on
  // |r| <= ln(2)/2.
  Vec<float> p = splat(1.0f / 5040);
  p = mul_add(p, r, splat(1.0f / 720));
  p = mul_add(p, r, splat(1.0f / 120));
  p = mul_add(p, r, splat(1.0f / 24));
  p = mul_add(p, r, splat(1.0f / 6));
  p = mul_add(p, r, splat(0.5f));
  p = mul_add(p, r, splat(1.0f));
  p = mul_add(p, r, splat(1.0f));
  // 2^n in two factors, so that results below the smallest normal number are still right.
  const VecI32 half = power >> 1;
  const Vec<float> scale1 = reinterpret_cast<Vec<float>>((half + 127) << 23);
  const Vec<float> scale2 = reinterpret_cast<Vec<float>>((power - half + 127) << 23);
  return p * scale1 * scale2;
}

GEX_INLINE Vec<double> exp_of(Vec<double> x) {
  Vec<double> result = {};
  for (int i = 0; i < kLanes<double>; ++i) result[i] = __builtin_exp(x[i]);
  return result;
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
