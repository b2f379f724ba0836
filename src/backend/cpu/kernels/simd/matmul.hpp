#pragma once
// C[b] = A[b] * B[b] for a range of output units. See backend/cpu/kernels/matmul.hpp for dims and
// buffers.

#include <cstdint>

#include "backend/cpu/kernels/pack_dims.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/gemv.hpp"
#include "backend/cpu/kernels/simd/matmul_launch.hpp"
#include "backend/cpu/kernels/simd/matmul_small.hpp"
#include "backend/cpu/kernels/simd/pairs.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct Matmul : MatmulLaunch<T> {
  using Launch = MatmulLaunch<T>;
  using Launch::batch_offset;
  using Launch::buffers;
  using Launch::cols;
  using Launch::context;
  using Launch::depth;
  using Launch::dims;
  using Launch::finish_row;
  using Launch::rows;
  using Launch::scratch;
  Form form;
  i64 few_step;  // between rows of a packed operand of few rows

  Matmul(const MatmulContext& c, void* const* b, const i64* d, std::byte* s)
      : Launch(c, b, d, s), form(form_of(c, d)), few_step(few_stride(depth)) {}

  static Form form_of(const MatmulContext& c, const i64* d) {
    if (c.form != Form::by_rule) return c.form;
    return matmul_sizes(c.a, c.b, c.b_packed, c.any_rows, Launch::is_computed(c), d)
        .by_rule(kLanes<T>);
  }

  // Rows of `left` are few; `right` is the large operand, [depth][columns].
  // finish(tile, tile_stride, first column, columns).
  template <class Finish>
  void run_few(i64 few, const MatrixView& left, const MatrixView& right, i64 first, i64 last,
               const Finish& finish) {
    const i64 step = kFewCols / few / kPanel<T> * kPanel<T>;
    i64 packed_at = -1;
    for (i64 c = first; c < last; c += step) {
      const i64 count = smaller(step, last - c);
      for (i64 i = 0; i < few * step; ++i) scratch.tile[i] = T{};
      for (i64 k = 0; k < depth; k += kFewRowsDepth) {
        const i64 slice = smaller(kFewRowsDepth, depth - k);
        if (packed_at != k) pack_view(scratch.left, few_step, few, slice, left, 0, k);
        packed_at = k;
        if (right.computed) {
          multiply_few_by_computed(few, right, k, slice, c, count, step);
          continue;
        }
        with_storage<T>(right.dtype, right.data, [&](auto* base) {
          auto* b = base + right.offset + k * right.row_stride + c * right.col_stride;
          if (right.row_stride == 1)
            multiply_few_by_dots(few, count, slice, scratch.left, few_step, b, right.col_stride,
                                 scratch.tile, step, true);
          else
            multiply_few_by_rows(few, count, slice, scratch.left, few_step, b, right.row_stride,
                                 scratch.tile, step);
        });
      }
      finish(scratch.tile, step, c, count);
    }
  }

  // Blocks of the large operand exist one at a time: a few columns that stay in the first-level
  // cache where it is dense along depth, so that a call computes many elements; else a few rows.
  // How depth is cut depends on nothing else.
  void multiply_few_by_computed(i64 few, const MatrixView& right, i64 k, i64 slice, i64 col,
                                i64 cols, i64 tile_step) {
    const bool by_rows = right.col_stride == 1;
    const i64 deep = by_rows ? kDepth : kComputedDepth;
    const i64 wide = by_rows ? kTileCols : kComputedCols;
    for (i64 i = 0; i < slice; i += deep)
      for (i64 j = 0; j < cols; j += wide) {
        const i64 part = smaller(deep, slice - i), width = smaller(wide, cols - j);
        computed_block(scratch.panels, right, k + i, part, col + j, width);
        if (by_rows)
          multiply_few_by_rows(few, width, part, scratch.left + i, few_step, scratch.panels, width,
                               scratch.tile + j, tile_step);
        else
          multiply_few_by_dots(few, width, part, scratch.left + i, few_step, scratch.panels, part,
                               scratch.tile + j, tile_step, true);
      }
  }

  void run_packed(i64 batch, const MatrixView& a, const MatrixView& b, i64 row0, i64 row1, i64 col0,
                  i64 col1) {
    for_each_tile<T>(row0, row1, col0, col1, [&](i64 row, i64 height, i64 col, i64 width) {
      multiply_tile(
          height, width, depth,
          [&](T* dst, i64 r, i64 count, i64 k, i64 slice) {
            pack_view(dst, kDepthStride, count, slice, a, row + r, k);
          },
          [&](T* space, i64 k, i64 slice, i64& panel_stride) -> const T* {
            if (context.b_packed) return packed_slice(space, b, k, slice, col, width, panel_stride);
            pack_panels(space, b, k, slice, col, width);
            return space;
          },
          scratch);
      for (i64 i = 0; i < height; ++i)
        finish_row(scratch.tile + i * tile_stride<T>(width), batch, row + i, col, width);
    });
  }

  // Panels packed ahead of time are used in place if no widening is needed.
  const T* packed_slice(T* space, const MatrixView& b, i64 k, i64 slice, i64 col, i64 width,
                        i64& panel_stride) {
    const T* result = space;
    with_storage<T>(b.dtype, b.data, [&](auto* base) {
      const i64 panel_size = packed_panel_elements<T>(base, depth);
      auto* from = base + b.offset + col / kPanel<T> * panel_size + k * kPanel<T>;
      if constexpr (sizeof(*from) == sizeof(T)) {
        panel_stride = panel_size;
        result = from;
      } else {
        for (i64 p = 0; p < ceil_div(width, kPanel<T>); ++p)
          widen_panel(space + p * kDepth * kPanel<T>, from + p * panel_size, slice);
      }
    });
    return result;
  }
  template <class S>
  static void widen_panel(T* to, const S* from, i64 slice) {
    if constexpr (kPackedAsPairs<S>)
      widen_pairs(to, from, slice);
    else
      pack_contiguous_rows(to, 0, 1, slice * kPanel<T>, from, 0);
  }

  void run_few_packed(i64 batch, const MatrixView& a, const MatrixView& b, i64 col0, i64 col1) {
    const i64 step = kFewCols / rows / kPanel<T> * kPanel<T>;
    i64 packed_at = -1;
    for (i64 c = col0; c < col1; c += step) {
      const i64 count = smaller(step, col1 - c);
      for (i64 i = 0; i < rows * step; ++i) scratch.tile[i] = T{};
      for (i64 k = 0; k < depth; k += kFewRowsDepth) {
        const i64 slice = smaller(kFewRowsDepth, depth - k);
        if (packed_at != k) pack_view(scratch.left, few_step, rows, slice, a, 0, k);
        packed_at = k;
        with_storage<T>(b.dtype, b.data, [&](auto* base) {
          const i64 panel_size = packed_panel_elements<T>(base, depth);
          for (i64 p = 0; p < count; p += kPanel<T>)
            multiply_few_by_panel(
                rows, slice, scratch.left, few_step,
                base + b.offset + (c + p) / kPanel<T> * panel_size + k * kPanel<T>,
                scratch.tile + p, step);
        });
      }
      for (i64 r = 0; r < rows; ++r) finish_row(scratch.tile + r * step, batch, r, c, count);
    }
  }

  void run_rectangle(i64 batch, i64 row0, i64 row1, i64 col0, i64 col1) {
    const MatrixView a = this->left(batch), b = this->right(batch);
    switch (form) {
      case Form::few_rows:
        if (context.b_packed) return run_few_packed(batch, a, b, col0, col1);
        return run_few(rows, a, b, col0, col1, [&](const T* tile, i64 stride, i64 col, i64 count) {
          for (i64 r = 0; r < rows; ++r) finish_row(tile + r * stride, batch, r, col, count);
        });
      case Form::few_columns:
        return run_few(cols, b.transposed(), a.transposed(), row0, row1,
                       [&](const T* tile, i64 stride, i64 row, i64 count) {
                         for (i64 i = 0; i < count; ++i) {
                           T values[kFewRows];
                           for (i64 c = 0; c < cols; ++c) values[c] = tile[c * stride + i];
                           finish_row(values, batch, row + i, 0, cols);
                         }
                       });
      case Form::in_place:
      case Form::turned:
        return run_small(batch, a, b, row0, row1, col0, col1);
      default:
        return run_packed(batch, a, b, row0, row1, col0, col1);
    }
  }

  void run_small(i64 batch, const MatrixView& a, const MatrixView& b, i64 row0, i64 row1, i64 col0,
                 i64 col1) {
    SmallProduct<T> product{a, b, depth, scratch};
    const auto finish = [&](const T* values, i64 row, i64 col, i64 count) {
      finish_row(values, batch, row, col, count);
    };
    if (form == Form::turned) return product.run_turned(row0, row1, col0, col1, finish);
    constexpr int at = matmul_dims::c_strides;
    constexpr DType stored = sizeof(T) == 8 ? DType::f64 : DType::f32;
    const bool as_stored = !context.epilogue.fn && context.c == stored && dims[at + 3] == 1;
    T* result = as_stored ? static_cast<T*>(buffers[2]) + batch_offset(batch, at) : nullptr;
    product.run(row0, row1, col0, col1, result, dims[at + 2], finish);
  }

  void run(i64 begin, i64 end) {
    this->for_each_part(begin, end, [&](i64 batch, i64 row0, i64 row1, i64 col0, i64 col1) {
      run_rectangle(batch, row0, row1, col0, col1);
    });
  }
};

// Instead of the packed form, and for as many rows as take longer than reading their columns.
inline bool takes_pairs(const MatmulContext& c, const i64* dims) {
  const Form form = Matmul<float>::form_of(c, dims);
  return form == Form::packed ||
         (form == Form::few_rows && dims[matmul_dims::m] > kFewRowsWithoutPairs &&
          !c.prologues[1].fn && columns_in_place(c.a, c.b, c.b_packed, c.any_rows, dims));
}

void matmul(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
            std::byte* scratch) {
  const auto& c = *static_cast<const MatmulContext*>(context);
  if (c.by_pairs && takes_pairs(c, dims))
    c.by_pairs(context, buffers, dims, begin, end, scratch);
  else if (c.a == DType::f64)
    Matmul<double>(c, buffers, dims, scratch).run(begin, end);
  else
    Matmul<float>(c, buffers, dims, scratch).run(begin, end);
}

// Storage of panels packed ahead keeps the operand's dtype: half the bytes to read for bf16. Only
// bits are copied, so an unsigned type of the right size represents the dtype.
template <class Bits, i64 panel>
void pack_ahead(void* const* buffers, const i64* dims, i64 begin, i64 end) {
  const i64 inner = dims[pack_dims::batch1], cols = dims[pack_dims::n], depth = dims[pack_dims::k];
  const i64* stride = dims + pack_dims::b_strides;
  const i64 panels = ceil_div(cols, panel);
  for (i64 unit = begin; unit < end; ++unit) {
    const i64 batch = unit / panels, first = unit % panels * panel;
    const i64 width = smaller(panel, cols - first);
    const Bits* from = static_cast<const Bits*>(buffers[0]) + batch / inner * stride[0] +
                       batch % inner * stride[1] + first * stride[3];
    Bits* to = static_cast<Bits*>(buffers[1]) + unit * panel * depth;
    for (i64 k = 0; k < depth; ++k) {
      for (i64 c = 0; c < width; ++c) to[k * panel + c] = from[k * stride[2] + c * stride[3]];
      for (i64 c = width; c < panel; ++c) to[k * panel + c] = 0;
    }
  }
}

// bf16: pairs, see pairs.hpp.
void pack_pairs_ahead(void* const* buffers, const i64* dims, i64 begin, i64 end) {
  const i64 inner = dims[pack_dims::batch1], cols = dims[pack_dims::n], depth = dims[pack_dims::k];
  const i64* stride = dims + pack_dims::b_strides;
  constexpr i64 panel = kPanel<float>;
  const i64 panels = ceil_div(cols, panel);
  for (i64 unit = begin; unit < end; ++unit) {
    const i64 batch = unit / panels, first = unit % panels * panel;
    const i64 width = smaller(panel, cols - first);
    const BF16* from = static_cast<const BF16*>(buffers[0]) + batch / inner * stride[0] +
                       batch % inner * stride[1] + first * stride[3];
    const PairSource source{from, stride[3], stride[2], width, depth};
    std::uint32_t* to = static_cast<std::uint32_t*>(buffers[1]) + unit * panel * source.pairs();
    pack_pair_columns(to, panel, source);
    for (i64 p = 0; p < source.pairs(); ++p)
      for (i64 c = width; c < panel; ++c) to[p * panel + c] = 0;
  }
}

void matmul_pack(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
                 std::byte*) {
  switch (static_cast<const MatmulContext*>(context)->b) {
    case DType::f64:
      return pack_ahead<std::uint64_t, kPanel<double>>(buffers, dims, begin, end);
    case DType::f32:
      return pack_ahead<std::uint32_t, kPanel<float>>(buffers, dims, begin, end);
    case DType::bf16:
      return pack_pairs_ahead(buffers, dims, begin, end);
    default:
      return pack_ahead<std::uint16_t, kPanel<float>>(buffers, dims, begin, end);
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
