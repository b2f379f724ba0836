#pragma once
// f16 and bf16 as 16-bit storage, and the conversions that all of gex uses: round to nearest even,
// NaN stays NaN, no flush to zero.

#include <cstdint>

namespace gex {

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);

}  // namespace gex
