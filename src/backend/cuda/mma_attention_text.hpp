#pragma once
// CUDA C text of attention over 16-bit floats on tensor cores. Needs the declarations of
// attention_text.cpp and the constants kBf16, kHead, kValue (multiples of 16, up to 256), kStages,
// kSplits (blocks of a cluster that share the keys of few queries), kPrefillOnly, kDecodeOnly,
// kQueryComputed, kKeyComputed, kValueComputed. Operands are contiguous along the head.

#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

// Tiles of keys and values in shared memory; the forms of the kernel.
std::string_view mma_attention_tiles_text();

// Needs the text above: template <Form form> void attend(sizes, operands..., shared), bool
// aligned_operands(...).
std::string_view mma_attention_text();

// Rows that a block of the form kPrefill takes; `decode`: the kernel also has the form kDecode.
constexpr std::int64_t prefill_rows(std::int64_t value, bool decode) {
  return value <= 128 && !decode ? 128 : 64;
}

constexpr std::int64_t mma_attention_bytes(std::int64_t head, std::int64_t value, int stages,
                                           bool decode, bool prefill) {
  const std::int64_t h = (head + 63) / 64 * 128, v = (value + 63) / 64 * 128;
  const std::int64_t merge = (80 * value + 224) * 4;  // of the states of warps and blocks
  const std::int64_t ring = 64 * (h + v) * stages;
  const std::int64_t rows = prefill ? prefill_rows(value, decode) : 16;
  return rows * h + (ring > merge ? ring : merge);
}

}  // namespace gex::backend::cuda
