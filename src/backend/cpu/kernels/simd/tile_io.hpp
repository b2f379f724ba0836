#pragma once
// Input and output of a tile: operands of a run-time dtype are read, finished rows go through the
// epilogue or directly to strided memory. And the iteration over a range of grid units.

#include <cstdint>

#include "backend/cpu/kernels/simd/context.hpp"
#include "backend/cpu/kernels/simd/pack.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Calls fn with a typed pointer. T = double serves f64 alone, T = float the three others.
template <class T, class Fn>
GEX_INLINE void with_storage(DType dtype, const void* p, const Fn& fn) {
  if constexpr (sizeof(T) == 8) {
    fn(static_cast<const double*>(p));
  } else {
    switch (dtype) {
      case DType::f16:
        return fn(static_cast<const F16*>(p));
      case DType::bf16:
        return fn(static_cast<const BF16*>(p));
      default:
        return fn(static_cast<const float*>(p));
    }
  }
}

// The prologue of one launch: computes elements of an operand on demand.
struct BoundPrologue {
  const PrologueCall& call;
  const i64* dims;
  std::byte* staging;  // kStagedElements of accumulator type, shared by the prologues of a launch
  void* buffers[kMaxPrologueInputs + 1];

  BoundPrologue(const PrologueCall& prologue, void* const* launch_buffers, const i64* launch_dims,
                std::byte* space)
      : call(prologue), dims(launch_dims + prologue.dims_begin), staging(space) {
    for (int i = 0; i < prologue.input_buffers; ++i)
      buffers[i] = launch_buffers[prologue.first_buffer + i];
  }
  BoundPrologue(const BoundPrologue&) = delete;

  // dst[0] corresponds to element `begin` of the operand's grid.
  template <class T>
  void fill(T* dst, i64 begin, i64 count) {
    if (count <= 0) return;
    // Integer arithmetic, because the address of element 0 may not be a valid pointer.
    buffers[call.input_buffers] = reinterpret_cast<void*>(
        reinterpret_cast<std::uintptr_t>(dst) - static_cast<std::uintptr_t>(begin) * sizeof(T));
    call.fn(call.context, buffers, dims, begin, begin + count, nullptr);
  }
};

// A matrix in memory, or one whose elements a prologue computes; strides count elements, and one of
// a computed matrix's two is 1.
struct MatrixView {
  const void* data;
  DType dtype;
  i64 offset, row_stride, col_stride;
  BoundPrologue* computed = nullptr;

  MatrixView transposed() const { return {data, dtype, offset, col_stride, row_stride, computed}; }
};

// Computes a block of a computed matrix in `space`, with the same dense axis.
template <class T>
MatrixView computed_block(T* space, const MatrixView& m, i64 row, i64 rows, i64 col, i64 cols) {
  const DType dtype = sizeof(T) == 8 ? DType::f64 : DType::f32;
  if (m.col_stride == 1) {
    for (i64 r = 0; r < rows; ++r)
      m.computed->fill(space + r * cols, m.offset + (row + r) * m.row_stride + col, cols);
    return {space, dtype, 0, cols, 1};
  }
  for (i64 c = 0; c < cols; ++c)
    m.computed->fill(space + c * rows, m.offset + row + (col + c) * m.col_stride, rows);
  return {space, dtype, 0, 1, rows};
}

template <class T>
void pack_computed(T* dst, i64 dst_stride, i64 rows, i64 cols, const MatrixView& m, i64 row,
                   i64 col) {
  if (m.col_stride == 1) {
    for (i64 r = 0; r < rows; ++r)
      m.computed->fill(dst + r * dst_stride, m.offset + (row + r) * m.row_stride + col, cols);
    return;
  }
  T* space = reinterpret_cast<T*>(m.computed->staging);
  const i64 step = larger(i64{1}, kStagedElements / larger(i64{1}, rows));
  for (i64 c = 0; c < cols; c += step) {
    const i64 count = smaller(step, cols - c);
    computed_block(space, m, row, rows, col + c, count);
    pack_rows(dst + c, dst_stride, rows, count, space, 1, rows);
  }
}

template <class T>
void pack_view(T* dst, i64 dst_stride, i64 rows, i64 cols, const MatrixView& m, i64 row, i64 col) {
  if (m.computed) return pack_computed(dst, dst_stride, rows, cols, m, row, col);
  with_storage<T>(m.dtype, m.data, [&](auto* base) {
    pack_rows(dst, dst_stride, rows, cols,
              base + m.offset + row * m.row_stride + col * m.col_stride, m.row_stride,
              m.col_stride);
  });
}

// The panels of columns [col, col + cols) of `m`, rows [k, k + depth), the last one zero-padded.
template <class T>
void pack_panels(T* space, const MatrixView& m, i64 k, i64 depth, i64 col, i64 cols) {
  if (m.computed && m.col_stride == 1 && cols > kPanel<T>) {
    // Whole rows at a time, so that a prologue call covers more than one panel.
    T* rows = reinterpret_cast<T*>(m.computed->staging);
    const i64 step = kStagedElements / cols;
    for (i64 i = 0; i < depth; i += step) {
      const i64 count = smaller(step, depth - i);
      pack_panels(space + i * kPanel<T>, computed_block(rows, m, k + i, count, col, cols), 0, count,
                  0, cols);
    }
    return;
  }
  for (i64 c = 0; c < cols; c += kPanel<T>) {
    const i64 width = smaller(kPanel<T>, cols - c);
    T* panel = space + c * kDepth;
    pack_view(panel, kPanel<T>, depth, width, m, k, col + c);
    zero_columns(panel, kPanel<T>, depth, width, kPanel<T>);
  }
}

template <class T, class S>
GEX_INLINE void narrow_row(const T* values, i64 count, S* out, i64 stride) {
  i64 i = 0;
  if constexpr (sizeof(S) <= sizeof(T) && !(sizeof(T) == 8 && sizeof(S) == 4))
    if (stride == 1)
      for (; i + kLanes<T> <= count; i += kLanes<T>) store_narrow(out + i, load<T>(values + i));
  for (; i < count; ++i) narrow(values[i], out + i * stride);
}

template <class T>
void store_row(const T* values, i64 count, DType dtype, void* base, i64 offset, i64 stride) {
  switch (dtype) {
    case DType::f32:
      return narrow_row(values, count, static_cast<float*>(base) + offset, stride);
    case DType::f64:
      if constexpr (sizeof(T) == 8)
        narrow_row(values, count, static_cast<double*>(base) + offset, stride);
      return;
    case DType::f16:
      if constexpr (sizeof(T) == 4)
        narrow_row(values, count, static_cast<F16*>(base) + offset, stride);
      return;
    default:
      if constexpr (sizeof(T) == 4)
        narrow_row(values, count, static_cast<BF16*>(base) + offset, stride);
      return;
  }
}

// The epilogue of one launch, called for segments of the dense output grid.
struct BoundEpilogue {
  const EpilogueCall& call;
  const i64* dims;
  std::byte* scratch;
  void* buffers[1 + kMaxEpilogueBuffers];

  BoundEpilogue(const EpilogueCall& epilogue, void* const* extra, const i64* launch_dims,
                std::byte* rest)
      : call(epilogue), dims(launch_dims + epilogue.dims_begin), scratch(rest) {
    for (int i = 0; i < epilogue.extra_buffers; ++i) buffers[1 + i] = extra[i];
  }

  // values[0] is the accumulator of element `begin` of the grid.
  template <class T>
  void run(const T* values, i64 begin, i64 count) {
    // Integer arithmetic, because the address of element 0 may not be a valid pointer.
    buffers[0] = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(values) -
                                         static_cast<std::uintptr_t>(begin) * sizeof(T));
    call.fn(call.context, buffers, dims, begin, begin + count, scratch);
  }
};

// Combines the units of [begin, end) into rectangles: fn(batch, row units [a, b), column units [c,
// d)). Units are numbered (batch*col_units + col)*row_units + row.
template <class Fn>
void for_each_rectangle(i64 begin, i64 end, i64 row_units, i64 col_units, const Fn& fn) {
  while (begin < end) {
    const i64 row = begin % row_units;
    const i64 col = begin / row_units % col_units;
    const i64 batch = begin / row_units / col_units;
    const i64 left = end - begin;
    if (row == 0 && left >= row_units) {
      const i64 columns = smaller(left / row_units, col_units - col);
      fn(batch, i64{0}, row_units, col, col + columns);
      begin += columns * row_units;
    } else {
      const i64 rows = smaller(left, row_units - row);
      fn(batch, row, row + rows, col, col + 1);
      begin += rows;
    }
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
