#pragma once
// The elements of a row that may be among its first few: those whose key (see sort.cpp) is at most
// a limit. Most vectors of a long row have none.

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "backend/cpu/kernels/simd/vec.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class Bits>
using Keys = typename VecTraits<Bits, Bits>::type;

// A bit for each element, or for each byte of it; zero: none.
template <class Bits>
struct LaneBits {
#if defined(__AVX512BW__)
  static constexpr int step = 1;
#else
  static constexpr int step = sizeof(Bits);
#endif
  static GEX_INLINE std::uint64_t at_most(Keys<Bits> keys, Keys<Bits> limit) {
#if defined(__AVX512BW__)
    const auto a = reinterpret_cast<__m512i>(keys), b = reinterpret_cast<__m512i>(limit);
    if constexpr (sizeof(Bits) == 4) return _mm512_cmple_epu32_mask(a, b);
    return _mm512_cmple_epu16_mask(a, b);
#else
    const auto found = keys <= limit;
#if defined(__AVX2__)
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(reinterpret_cast<__m256i>(found)));
#elif defined(__SSE2__)
    return static_cast<std::uint32_t>(_mm_movemask_epi8(reinterpret_cast<__m128i>(found)));
#else
    std::uint64_t bits = 0;
    for (int i = 0; i < kVectorBytes / step; ++i)
      bits |= static_cast<std::uint64_t>(found[i] != 0) << (i * step);
    return bits;
#endif
#endif
  }
};

template <class Bits>
GEX_INLINE Keys<Bits> keys_of_floats(Keys<Bits> bits, Bits infinity) {
  constexpr Bits top = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Keys<Bits> none = {}, magnitude = bits & static_cast<Bits>(~top);
  const Keys<Bits> all = ~none, middle = none | top;
  const Keys<Bits> ordered = (bits & top) != 0 ? ~bits : bits | top;
  return magnitude > (none | infinity) ? all : magnitude == 0 ? middle : ordered;
}

template <class Bits>
i64 candidates_of_floats(const Bits* x, i64 n, Bits infinity, bool descending, Bits limit,
                         std::uint32_t* places) {
  constexpr i64 lanes = kVectorBytes / static_cast<i64>(sizeof(Bits));
  const Bits flip = descending ? static_cast<Bits>(~Bits{0}) : Bits{0};
  const Keys<Bits> most = Keys<Bits>{} | limit;
  i64 found = 0;
  for (i64 i = 0; i < n; i += lanes) {
    Keys<Bits> bits = {};
    const i64 count = smaller(lanes, n - i);
    if (count == lanes)
      __builtin_memcpy(&bits, x + i, kVectorBytes);
    else
      __builtin_memcpy(&bits, x + i, static_cast<std::size_t>(count) * sizeof(Bits));
    std::uint64_t mask = LaneBits<Bits>::at_most(keys_of_floats(bits, infinity) ^ flip, most);
    while (mask != 0) {
      const i64 lane = __builtin_ctzll(mask) / LaneBits<Bits>::step;
      if (lane < count) places[found++] = static_cast<std::uint32_t>(i + lane);
      mask &= ~(((std::uint64_t{1} << LaneBits<Bits>::step) - 1) << lane * LaneBits<Bits>::step);
    }
  }
  return found;
}

i64 candidates(DType dtype, const void* x, i64 n, bool descending, std::uint64_t limit,
               std::uint32_t* places) {
  const auto narrow = [&](std::uint16_t infinity) {
    return candidates_of_floats(static_cast<const std::uint16_t*>(x), n, infinity, descending,
                                static_cast<std::uint16_t>(limit), places);
  };
  switch (dtype) {
    case DType::f32:
      return candidates_of_floats(static_cast<const std::uint32_t*>(x), n, 0x7F800000u, descending,
                                  static_cast<std::uint32_t>(limit), places);
    case DType::f16:
      return narrow(0x7C00);
    case DType::bf16:
      return narrow(0x7F80);
    default:
      return -1;
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
