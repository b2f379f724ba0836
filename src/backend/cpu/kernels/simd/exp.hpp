#pragma once
// e^x for softmax: x is at most 0 up to rounding, or NaN. NaN stays NaN, -inf gives 0.

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

// p * 2^n for a whole number n; `shifted` holds n in its low bits. Subnormal results are correct.
GEX_INLINE Vec<float> times_power_of_two(Vec<float> p, Vec<float> n, Vec<float> shifted,
                                         float rounder) {
#if defined(__AVX512F__)
  static_cast<void>(shifted), static_cast<void>(rounder);
  return _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  static_cast<void>(n);
  const VecI32 power =
      reinterpret_cast<VecI32>(shifted) - __builtin_bit_cast(std::int32_t, rounder);
  // In two factors.
  const VecI32 half = power >> 1;
  const Vec<float> scale1 = reinterpret_cast<Vec<float> >((half + 127) << 23);
  const Vec<float> scale2 = reinterpret_cast<Vec<float> >((power - half + 127) << 23);
  return p * scale1 * scale2;
#endif
}

GEX_INLINE Vec<float> exp_of(Vec<float> x) {
  // Below -104 the result rounds to 0; NaN passes through.
  const Vec<float> clamped = larger_of(splat(-104.0f), x);
  // n = round(x / ln 2), taken from the low bits of a sum whose unit in the last place is 1.
  constexpr float kRounder = 0x1.8p23f;
  const Vec<float> shifted = mul_add(clamped, splat(1.44269504088896341f), splat(kRounder));
  const Vec<float> n = shifted - kRounder;
  // ln 2 in two parts, the first short enough for exact products.
  const Vec<float> high = mul_add(n, splat(-0x1.62e4p-1f), clamped);
  const Vec<float> r = mul_add(n, splat(-0x1.7f7d1cp-20f), high);
  // e^r by a polynomial of degree 6 with the least largest error, 4e-9, on |r| <= ln(2)/2.
  Vec<float> p = splat(0x1.6a23cep-10f);
  p = mul_add(p, r, splat(0x1.123a2p-7f));
  p = mul_add(p, r, splat(0x1.5558f2p-5f));
  p = mul_add(p, r, splat(0x1.555492p-3f));
  p = mul_add(p, r, splat(0x1.fffffcp-2f));
  p = mul_add(p, r, splat(1.0f));
  p = mul_add(p, r, splat(1.0f));
  return times_power_of_two(p, n, shifted, kRounder);
}

GEX_INLINE Vec<double> exp_of(Vec<double> x) {
  Vec<double> result = {};
  for (int i = 0; i < kLanes<double>; ++i) result[i] = __builtin_exp(x[i]);
  return result;
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
