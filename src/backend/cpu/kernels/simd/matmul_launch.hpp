#pragma once
// One launch of a matmul, shared by its forms: operands of a batch as matrices, output of finished
// rows to the epilogue or to memory, and the rectangles of a range of the grid.

#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"
#include "problems/matmul.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct MatmulLaunch {
  const MatmulContext& context;
  void* const* buffers;
  const i64* dims;
  TileScratch<T> scratch;
  BoundPrologue made_a, made_b;
  BoundEpilogue epilogue;
  i64 rows, cols, depth;

  MatmulLaunch(const MatmulContext& c, void* const* b, const i64* d, std::byte* s)
      : context(c),
        buffers(b),
        dims(d),
        scratch(tile_scratch<T>(s, space_of(c, d))),
        made_a(c.prologues[0], b, d, scratch.rest),
        made_b(c.prologues[1], b, d, scratch.rest),
        epilogue(c.epilogue, b + 2, d, scratch.rest + (is_computed(c) ? staged_bytes<T>() : 0)),
        rows(d[matmul_dims::m]),
        cols(d[matmul_dims::n]),
        depth(d[matmul_dims::k]) {}

  // The kernel of pairs has a layout of its own in the largest scratch.
  static MatmulScratch<i64> space_of(const MatmulContext& c, const i64* d) {
    namespace at = matmul_dims;
    if (reads_pairs(c.a, c.b)) return kLargestScratch;
    return matmul_scratch(d[at::m], d[at::n], d[at::k],
                          right_operand(c.a, c.b, c.b_packed, is_computed(c)));
  }
  static bool is_computed(const MatmulContext& c) { return c.prologues[0].fn || c.prologues[1].fn; }

  // Offset of a batch in an operand whose strides start at `at`.
  i64 batch_offset(i64 batch, int at) const {
    const i64 inner = dims[matmul_dims::batch1];
    return batch / inner * dims[at] + batch % inner * dims[at + 1];
  }
  MatrixView operand(int index, DType dtype, int at, i64 batch, BoundPrologue& made) {
    return {buffers[index], dtype,        batch_offset(batch, at),
            dims[at + 2],   dims[at + 3], context.prologues[index].fn ? &made : nullptr};
  }
  MatrixView left(i64 batch) {
    return operand(0, context.a, matmul_dims::a_strides, batch, made_a);
  }
  MatrixView right(i64 batch) {
    return operand(1, context.b, matmul_dims::b_strides, batch, made_b);
  }

  void finish_row(const T* values, i64 batch, i64 row, i64 col, i64 count) {
    if (context.epilogue.fn) {
      epilogue.run(values, (batch * rows + row) * cols + col, count);
      return;
    }
    constexpr int at = matmul_dims::c_strides;
    const i64 offset = batch_offset(batch, at) + row * dims[at + 2] + col * dims[at + 3];
    store_row(values, count, context.c, buffers[2], offset, dims[at + 3]);
  }

  // fn(batch, row0, row1, col0, col1) for the units [begin, end) of the grid.
  template <class Fn>
  void for_each_part(i64 begin, i64 end, const Fn& fn) {
    for_each_rectangle(begin, end, ceil_div(rows, kUnitRows), ceil_div(cols, kUnitCols),
                       [&](i64 batch, i64 r0, i64 r1, i64 c0, i64 c1) {
                         fn(batch, r0 * kUnitRows, smaller(r1 * kUnitRows, rows), c0 * kUnitCols,
                            smaller(c1 * kUnitCols, cols));
                       });
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
