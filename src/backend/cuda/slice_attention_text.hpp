#pragma once
// CUDA C text of attention of few queries over few keys, 16-bit floats, on tensor cores. Each block
// of 256 threads computes some elements (a slice) of the results of the queries that share a
// key-value head. Every block of a head computes all scores: no results of blocks must be joined,
// and there are as many blocks as multiprocessors. Needs the declarations of attention_text.cpp and
// the constants kBf16, kHead (a multiple of 32), kValue (of kSlice), kSlice (of 8), kQueryComputed.

#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

// void attend_slices(sizes, operands..., shared), bool aligned_slices(...). At most 16 queries,
// over all heads of a key-value head.
std::string_view slice_attention_text();

constexpr std::int64_t slice_attention_bytes(std::int64_t head, std::int64_t slice) {
  return 16 * (head + 8) * 2 + 8 * 16 * (slice + 2) * 4;
}

}  // namespace gex::backend::cuda
