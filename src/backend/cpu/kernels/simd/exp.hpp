#pragma once
// 2^x for softmax: x is at most 0 up to rounding, or NaN. NaN stays NaN, -inf gives 0, 0 gives 1.

#include <cstdint>

#include "backend/cpu/kernels/simd/vec.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

using VecI32 = VecTraits<float, std::int32_t>::type;

// The larger of each pair of lanes; if one is NaN, that of `b`.
GEX_INLINE Vec<float> larger_of(Vec<float> a, Vec<float> b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#else
  return a > b ? a : b;
#endif
}
GEX_INLINE Vec<double> larger_of(Vec<double> a, Vec<double> b) { return a > b ? a : b; }

// 2^r for r in [0, 1], with the least largest error, 2e-9, among polynomials with the value 1 at 0.
GEX_INLINE Vec<float> power_of_fraction(Vec<float> r) {
  Vec<float> p = splat(0x1.c54174p-13f);
  p = mul_add(p, r, splat(0x1.46d64ep-10f));
  p = mul_add(p, r, splat(0x1.3d0b92p-7f));
  p = mul_add(p, r, splat(0x1.c68912p-5f));
  p = mul_add(p, r, splat(0x1.ebfd58p-3f));
  p = mul_add(p, r, splat(0x1.62e42cp-1f));
  return mul_add(p, r, splat(1.0f));
}

GEX_INLINE Vec<float> exp2_of(Vec<float> x) {
#if defined(__AVX512F__)
  // x minus its floor, 0 for infinities; scaling takes the floor of the exponent.
  const Vec<float> r = _mm512_maskz_reduce_ps(0xffff, x, 0x09);
  return _mm512_maskz_scalef_ps(0xffff, power_of_fraction(r), x);
#else
  // Below -150 the result rounds to 0; NaN passes through.
  const Vec<float> clamped = larger_of(splat(-152.0f), x);
  // The floor of x, or 1 less if x is a whole number, from the low bits of a sum whose unit in the
  // last place is 1.
  constexpr float kRounder = 0x1.8p23f;
  const Vec<float> shifted = (clamped - 0.5f) + kRounder;
  const Vec<float> p = power_of_fraction(clamped - (shifted - kRounder));
  const VecI32 power =
      reinterpret_cast<VecI32>(shifted) - __builtin_bit_cast(std::int32_t, kRounder);
  // In two factors, because results may be subnormal.
  const VecI32 half = power >> 1;
  const Vec<float> scale1 = reinterpret_cast<Vec<float> >((half + 127) << 23);
  const Vec<float> scale2 = reinterpret_cast<Vec<float> >((power - half + 127) << 23);
  return p * scale1 * scale2;
#endif
}

GEX_INLINE Vec<double> exp2_of(Vec<double> x) {
  Vec<double> result = {};
  for (int i = 0; i < kLanes<double>; ++i) result[i] = __builtin_exp2(x[i]);
  return result;
}

// Scores are multiplied by this for powers of 2 instead of e.
constexpr double kLog2E = 1.44269504088896340736;

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
