#include "backend/cpu/kernels/integer_interleave.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/integer_pack.hpp"

namespace gex::kernels {

namespace {

// Every second of 32 bytes.
void take_even(Bytes from, std::uint8_t* to) {
#if defined(__x86_64__)
  const __m128i low = _mm_set1_epi16(0xff);
  const auto load = [&](Bytes p) {
    return _mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), low);
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(load(from), load(from + 16)));
#else
  for (std::int64_t k = 0; k < kPanelColumns; ++k) to[k] = from[2 * k];
#endif
}

void any_lines(std::uint8_t* to, const Bytes (&lines)[kGroupBytes], std::int64_t step,
               std::int64_t count, std::uint8_t flip) {
  std::uint8_t staged[kGroupBytes][kPanelColumns] = {};
  for (std::int64_t first = 0; first < count; first += kPanelColumns) {
    Bytes rows[kGroupBytes];
    for (std::int64_t k = 0; k < kGroupBytes; ++k) {
      Bytes from = lines[k] + first * step;
      rows[k] = step == 1 ? from : staged[k];
      if (step == 2) take_even(from, staged[k]);
      // One by one, because a vector could extend beyond readable memory.
      for (std::int64_t c = 0; step > 2 && c < std::min(count - first, kPanelColumns); ++c)
        staged[k][c] = from[c * step];
    }
    interleave(to + first * kGroupBytes, rows, flip);
  }
}

void any_taps(std::uint8_t* to, Bytes line, std::int64_t apart, std::int64_t last,
              std::int64_t step, std::int64_t count, std::uint8_t flip) {
  Bytes lines[kGroupBytes];
  for (std::int64_t k = 0; k < kGroupBytes; ++k) lines[k] = line + std::min(k, last) * apart;
  any_lines(to, lines, step, count, flip);
}

constexpr Interleaving kPortable{any_lines, any_taps};

#if defined(__x86_64__)

#define GEX_TARGET_VBMI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi")]]

// Masked forms, because GCC 12 warns of the plain ones.
template <int kWhich>
GEX_TARGET_VBMI __m512i quarters(__m512i a, __m512i b) {
  return _mm512_maskz_shuffle_i32x4(0xffff, a, b, kWhich);
}

// 64 groups of four times 64 bytes: bytes to pairs to groups in each quarter of the vectors, then
// the quarters in order.
GEX_TARGET_VBMI void interleave_64(std::uint8_t* to, const Bytes (&rows)[kGroupBytes],
                                   __m512i flips) {
  __m512i r[kGroupBytes];
  for (int k = 0; k < kGroupBytes; ++k) r[k] = _mm512_xor_si512(_mm512_loadu_si512(rows[k]), flips);
  const __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]), high01 = _mm512_unpackhi_epi8(r[0], r[1]);
  const __m512i low23 = _mm512_unpacklo_epi8(r[2], r[3]), high23 = _mm512_unpackhi_epi8(r[2], r[3]);
  const __m512i a = _mm512_unpacklo_epi16(low01, low23), b = _mm512_unpackhi_epi16(low01, low23);
  const __m512i c = _mm512_unpacklo_epi16(high01, high23),
                d = _mm512_unpackhi_epi16(high01, high23);
  const __m512i ab_low = quarters<0x44>(a, b), ab_high = quarters<0xee>(a, b);
  const __m512i cd_low = quarters<0x44>(c, d), cd_high = quarters<0xee>(c, d);
  _mm512_storeu_si512(to, quarters<0x88>(ab_low, cd_low));
  _mm512_storeu_si512(to + 64, quarters<0xdd>(ab_low, cd_low));
  _mm512_storeu_si512(to + 128, quarters<0x88>(ab_high, cd_high));
  _mm512_storeu_si512(to + 192, quarters<0xdd>(ab_high, cd_high));
}

GEX_TARGET_VBMI void vbmi_lines(std::uint8_t* to, const Bytes (&lines)[kGroupBytes],
                                std::int64_t step, std::int64_t count, std::uint8_t flip) {
  constexpr std::int64_t kWide = 64;
  std::int64_t done = 0;
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  for (; step == 1 && done + kWide <= count; done += kWide)
    interleave_64(to + done * kGroupBytes,
                  {lines[0] + done, lines[1] + done, lines[2] + done, lines[3] + done}, flips);
  any_lines(to + done * kGroupBytes,
            {lines[0] + done * step, lines[1] + done * step, lines[2] + done * step,
             lines[3] + done * step},
            step, count - done, flip);
}

// One permutation for 16 groups, if their bytes lie in one vector.
GEX_TARGET_VBMI void vbmi_taps(std::uint8_t* to, Bytes line, std::int64_t apart, std::int64_t last,
                               std::int64_t step, std::int64_t count, std::uint8_t flip) {
  if ((kPanelColumns - 1) * step + (kGroupBytes - 1) * apart >= 64)
    return any_taps(to, line, apart, last, step, count, flip);
  // Group g reads the bytes g*step + k*apart, which are less than 64.
  const __m512i groups = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i order = _mm512_add_epi32(
      _mm512_mullo_epi32(groups, _mm512_set1_epi32(static_cast<int>(step) * 0x01010101)),
      _mm512_set1_epi32(static_cast<int>(apart) * 0x03020100));
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  for (std::int64_t g = 0; g < count; g += kPanelColumns) {
    const __m512i bytes =
        _mm512_maskz_permutexvar_epi8(~__mmask64{0}, order, _mm512_loadu_si512(line + g * step));
    _mm512_storeu_si512(to + g * kGroupBytes, _mm512_xor_si512(bytes, flips));
  }
}

constexpr Interleaving kVbmi{vbmi_lines, vbmi_taps};

#endif

}  // namespace

const Interleaving& interleaving() {
#if defined(__x86_64__)
  static const bool has_vbmi = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  }();
  if (has_vbmi) return kVbmi;
#endif
  return kPortable;
}

const Interleaving& portable_interleaving() { return kPortable; }

}  // namespace gex::kernels
