#pragma once
// Scratch memory of the attention kernel; used by the kernel and by the launch's size formula.

#include "backend/cpu/kernels/tiles.hpp"
#include "problems/attention.hpp"

namespace gex::kernels {

namespace attention_dims = problems::attention_dims;

// Attention of few rows: the row stride of its scores, and the keys of a step.
inline constexpr std::int64_t kFewKeys = kDepth;
inline constexpr std::int64_t kFewScoresStride = kDepthStride;

inline constexpr std::int64_t kMostPanel = kPanelBytes / 4;  // rows of one panel
inline constexpr std::int64_t kMaskStride = kKeyBlock + 16;

// Per worker, in elements of the accumulator type. Each part starts at a whole line of cache. Sizes
// are numbers or Dims.
template <class Size>
struct AttentionScratch {
  Size queries;         // [kQueryBlock/panel][head size][panel]
  Size sums;            // [kQueryBlock/panel][value size][panel]
  Size keys;            // [kKeyBlock][head size padded]
  Size values;          // [kKeyBlock][value size padded]
  Size finished;        // [panel][value size padded]
  std::int64_t scores;  // [kKeyBlock][panel]
  std::int64_t masks;   // [kKeyBlock][panel], and [panel][kMaskStride]
  std::int64_t rows;    // [2][kQueryBlock]

  GEX_IN_EVERY_VARIANT constexpr Size elements() const {
    return queries + sums + keys + values + finished + Size(scores + masks + rows);
  }
};

static_assert(kFewRows * kFewScoresStride <= kKeyBlock * kMostPanel);
static_assert(kKeyBlock <= kFewKeys);

// `head_lines`, `value_lines`: sizes in groups of 16 elements, rounded up.
template <class Size>
GEX_IN_EVERY_VARIANT constexpr AttentionScratch<Size> attention_scratch(Size head_lines,
                                                                        Size value_lines) {
  const Size head = head_lines * Size(16), value = value_lines * Size(16);
  return {Size(kQueryBlock) * head,
          Size(kQueryBlock) * value,
          Size(kKeyBlock) * (head + Size(16)),
          Size(kKeyBlock) * (value + Size(16)),
          Size(kMostPanel) * (value + Size(16)),
          kKeyBlock * kMostPanel,
          kKeyBlock * kMostPanel + kMostPanel * kMaskStride,
          2 * kQueryBlock};
}

}  // namespace gex::kernels
