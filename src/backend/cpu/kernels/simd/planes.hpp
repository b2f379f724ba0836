#pragma once
// Copies rows of a plane with a border of zeros so that they are contiguous: a tap of a convolution
// with stride one is then one shift of all of them.

#include "backend/cpu/kernels/simd/vec.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// A plane in memory with adjacent columns, and the number of elements from its first on, including
// those of planes after it.
template <class S>
struct Plane {
  const S* data;
  i64 height, width, row_stride, readable;
};

// A window of a plane: `rows` rows from `row` on, `step` apart, each from `col` on. Parts outside
// of the plane are zero.
struct PlaneWindow {
  i64 row, step, rows, col;
};

// dst[r*stride + i] for all i < stride. May write zeros up to a vector's length after the last row.
template <class T, class S>
GEX_INLINE void copy_window(T* dst, i64 stride, const Plane<S>& plane, const PlaneWindow& w) {
  constexpr i64 lanes = kLanes<T>;
  const i64 border = smaller(larger(-w.col, i64{0}), stride), from = larger(w.col, i64{0});
  const i64 count = smaller(plane.width - from, stride - border);
  for (i64 r = 0; r < w.rows; ++r, dst += stride) {
    const i64 row = w.row + r * w.step;
    const i64 inside = row < 0 || row >= plane.height ? 0 : count;
    for (i64 i = 0; i < border; i += lanes) store(dst + i, Vec<T>{});
    for (i64 i = 0; i < stride - border; i += lanes) {
      Vec<T> values = {};
      const i64 left = inside - i, at = row * plane.row_stride + from + i;
      if (left >= lanes) {
        values = load<T>(plane.data + at);
      } else if (left > 0 && at + lanes <= plane.readable) {
        const auto kept = lane_numbers<T>() < static_cast<typename ShuffleIndex<T>::Int>(left);
        values = kept ? load<T>(plane.data + at) : values;
      } else if (left > 0) {
        values = load_part<T>(plane.data + at, left);
      }
      store(dst + border + i, values);
    }
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
