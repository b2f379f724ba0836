#pragma once
// The forms (algorithms) of a matmul or a convolution. A kernel selects one by a heuristic over its
// sizes unless the caller names one, which must be able to compute the problem (`can`).
//
// Included by the variants: nothing here may emit code of the standard library.

#include <cstdint>

#include "backend/cpu/kernels/tiles.hpp"
#include "base/dtype.hpp"
#include "problems/matmul.hpp"

namespace gex::kernels {

namespace matmul_dims = problems::matmul_dims;

enum class Form : std::uint8_t {
  by_rule,
  packed,       // blocks of both operands are packed
  in_place,     // small operands are read in place
  turned,       // likewise, as the transposed product
  few_rows,     // the right operand is read once, row by row
  few_columns,  // likewise the left one
  pixels,       // a convolution as a matmul of pixels with channels
  rows,         // narrow groups: rows of the image are read in place
  direct,       // thin groups: taps summed in registers
  columns,      // a matmul of weights with gathered columns
  product,      // 1x1 kernels: a matmul of weights with pixels that are read in place
  winograd,     // 3x3 kernels with transformed weights
  shifts,       // few channels: a matmul of weights with shifted rows of the image
  channels,     // depthwise: a channel in each lane
  transposed,   // a transposed convolution, as pixels for each remainder by the steps
};

// Whether a convolution in this form can read weights that were packed ahead of time.
GEX_IN_EVERY_VARIANT constexpr bool reads_panels(Form form) {
  return form == Form::pixels || form == Form::product || form == Form::shifts ||
         form == Form::transposed;
}

struct Variant;

// How to compute a problem: the form, and the vector width.
struct TuningCandidate {
  Form form = Form::by_rule;
  const Variant* variant = nullptr;  // null: the best one for this machine

  bool operator==(const TuningCandidate&) const = default;
};

// Sizes of one matmul of a batch, which determine the form.
struct MatmulSizes {
  std::int64_t rows, cols, depth;
  std::int64_t a_strides[2], b_strides[2];  // rows, columns; ignored for a packed B
  DType a, b;
  bool b_packed, any_rows;
  bool computed;  // by a prologue: an operand is not in memory

  GEX_IN_EVERY_VARIANT constexpr std::int64_t panel() const {
    return a == DType::f64 ? kPanelBytes / 8 : kPanelBytes / 4;
  }
  // Both operands, padded to whole panels, fit the second-level cache, and the right operand fits
  // the space for panels.
  GEX_IN_EVERY_VARIANT constexpr bool fits_in_place() const {
    constexpr std::int64_t elements = kTileCols * kDepth;
    const std::int64_t lines = padded(rows) + padded(cols);
    const bool as_summed = a == b && (a == DType::f64 || a == DType::f32);
    return as_summed && !computed && depth > 0 && lines > 0 && lines <= elements &&
           depth <= elements / lines;
  }
  GEX_IN_EVERY_VARIANT constexpr bool can(Form form) const {
    switch (form) {
      case Form::packed:
        return true;
      case Form::in_place:
        return !b_packed && fits_in_place();
      case Form::turned:
        return !b_packed && fits_in_place() && b_strides[1] != 1 && b_strides[0] == 1;
      case Form::few_rows:
        return rows <= kFewRows && !any_rows && (b_packed || has_unit(b_strides));
      case Form::few_columns:
        return cols <= kFewRows && !b_packed && has_unit(a_strides);
      default:
        return false;
    }
  }
  // `lanes`: elements per vector.
  GEX_IN_EVERY_VARIANT constexpr Form by_rule(std::int64_t lanes) const {
    for (Form form : {Form::few_rows, Form::few_columns})
      if (can(form)) return form;
    if (can(Form::turned) && turned_is_cheaper(lanes)) return Form::turned;
    return can(Form::in_place) ? Form::in_place : Form::packed;
  }

 private:
  GEX_IN_EVERY_VARIANT static constexpr bool has_unit(const std::int64_t (&strides)[2]) {
    return strides[0] == 1 || strides[1] == 1;
  }
  GEX_IN_EVERY_VARIANT constexpr std::int64_t padded(std::int64_t lines) const {
    return (lines + panel() - 1) / panel() * panel();
  }
  // In fifths of a vector multiplication; moving an element to another layout takes two.
  GEX_IN_EVERY_VARIANT constexpr bool turned_is_cheaper(std::int64_t lanes) const {
    const std::int64_t here = 5 * ((cols + lanes - 1) / lanes) * rows * depth + 2 * cols * depth;
    const std::int64_t there = 5 * ((rows + lanes - 1) / lanes) * cols * depth + 2 * rows * cols +
                               (a_strides[0] == 1 ? 0 : 2 * rows * depth);
    return there < here;
  }
};

// `dims`: see problems::matmul_dims.
GEX_IN_EVERY_VARIANT constexpr MatmulSizes matmul_sizes(DType a, DType b, bool b_packed,
                                                        bool any_rows, bool computed,
                                                        const std::int64_t* dims) {
  namespace at = matmul_dims;
  return {dims[at::m],
          dims[at::n],
          dims[at::k],
          {dims[at::a_strides + 2], dims[at::a_strides + 3]},
          {dims[at::b_strides + 2], dims[at::b_strides + 3]},
          a,
          b,
          b_packed,
          any_rows,
          computed};
}

// Whether a matmul of bf16 pairs (bf16_pairs.hpp) reads the right operand in place, along its
// contiguous columns. For many rows packing takes less time than adding up the lanes of each sum.
GEX_IN_EVERY_VARIANT constexpr bool columns_in_place(DType a, DType b, bool b_packed, bool any_rows,
                                                     const std::int64_t* dims) {
  namespace at = matmul_dims;
  const std::int64_t rows = dims[at::m], depth = dims[at::k];
  if (a != DType::bf16 || b != DType::bf16 || b_packed || dims[at::b_strides + 2] != 1)
    return false;
  if (any_rows) return depth >= kMostDotRows;
  return depth > 0 && rows <= kMostDotRows && rows * kDepthOfDotRow <= depth;
}

}  // namespace gex::kernels
