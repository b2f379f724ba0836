#pragma once
// dW[o][tap] = sum over all images and output pixels of G[o][pixel] * X[pixel shifted by the tap]:
// a matmul whose rows are taps and whose columns are output channels. Rows of the column matrix are
// gathered as the left operand, so the image is never unfolded in memory; the gradient is packed
// into panels. Thin groups use ThinWeightGrad.

#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/conv2d_weight_grad_thin.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct ConvWeightGrad {
  const Conv2dContext& context;
  void* const* buffers;
  const i64* dims;
  TileScratch<T> scratch;
  Columns<T> columns;
  i64 group_in, group_out, taps, pixels, depth;
  const i64 *xs, *ws, *gs;
  ThinWeightGrad<T> thin;

  ConvWeightGrad(const Conv2dContext& c, void* const* b, const i64* d, std::byte* s)
      : context(c),
        buffers(b),
        dims(d),
        scratch(tile_scratch<T>(s)),
        columns(c, b[0], d),
        group_in(d[conv2d_dims::c] / c.groups),
        group_out(d[conv2d_dims::o] / c.groups),
        taps(group_in * columns.kernel_h * columns.kernel_w),
        pixels(columns.out_h * columns.out_w),
        depth(d[conv2d_dims::n] * pixels),
        xs(d + conv2d_dims::x_strides),
        ws(d + conv2d_dims::w_strides),
        gs(d + conv2d_dims::y_strides),
        thin(columns, c, scratch, b, d) {}

  // Splits [k, k + slice) of the pixels of all images at the ends of images: fn(image, pixel,
  // distance from k, count).
  template <class Fn>
  GEX_INLINE void for_each_image(i64 k, i64 slice, const Fn& fn) const {
    i64 image = k / pixels, pixel = k % pixels;
    for (i64 at = 0; at < slice; ++image, pixel = 0) {
      const i64 n = smaller(pixels - pixel, slice - at);
      fn(image, pixel, at, n);
      at += n;
    }
  }

  // Every tap reads the plane without shift or padding.
  bool reads_planes() const {
    return columns.kernel_h == 1 && columns.kernel_w == 1 && context.stride[0] == 1 &&
           context.stride[1] == 1 && context.pad[0] == 0 && context.pad[1] == 0 &&
           columns.out_w == columns.width && xs[2] == columns.out_w * xs[3];
  }

  void pack_taps(T* dst, i64 group, i64 first, i64 rows, i64 k, i64 slice) const {
    const bool planes = reads_planes();
    for_each_image(k, slice, [&](i64 image, i64 pixel, i64 at, i64 n) {
      const i64 plane = image * xs[0] + group * group_in * xs[1];
      if (planes) {
        const MatrixView x = {columns.data, context.x, plane, xs[1], xs[3]};
        pack_view(dst + at, kDepthStride, rows, n, x, first, pixel);
        return;
      }
      with_storage<T>(context.x, columns.data, [&](auto* base) {
        columns.for_each_output_row(pixel, n, [&](i64 y, i64 x, i64 from, i64 count) {
          if (reads_vectors())
            gather_vectors(dst + at + from, base + plane, first, rows, y, x, count);
          else
            gather_taps(dst + at + from, base + plane, first, rows, y, x, count);
        });
      });
    });
  }

  static constexpr i64 kVectorTaps = 8;  // of a row of the kernel, at most
  // Pixels of a row are adjacent or every second one, so that a vector of them is loaded at once.
  bool reads_vectors() const {
    return xs[3] == 1 && context.stride[1] <= 2 && columns.kernel_w <= kVectorTaps;
  }

  // A part of an output row, for each tap, in vectors. The last one may extend into the next part,
  // which is written afterwards, or behind the slice.
  template <class S>
  void gather_vectors(T* dst, const S* plane, i64 first, i64 rows, i64 y, i64 x, i64 count) const {
    constexpr i64 lanes = kLanes<T>;
    static_assert(kDepthStride - kDepth >= lanes);
    for (i64 at = 0; at < count; at += lanes) {
      const i64 pixels = smaller(lanes, count - at);
      if (context.stride[1] == 1)
        gather_vector<1>(dst + at, plane, first, rows, y, x + at, pixels);
      else
        gather_vector<2>(dst + at, plane, first, rows, y, x + at, pixels);
    }
  }
  template <int kStep, class S>
  GEX_INLINE void gather_vector(T* dst, const S* plane, i64 first, i64 rows, i64 y, i64 x,
                                i64 pixels) const {
    using Reads = TapColumns<T, 1, kStep, kVectorBytes>;
    Reads reads[kVectorTaps];
    for (i64 t = 0; t < columns.kernel_w; ++t) {
      const i64 from = columns.input_x(x, t);
      reads[t] = Reads(-from, columns.width - from, pixels);
    }
    Tap t = columns.tap(first);
    for (i64 r = 0; r < rows; ++r, dst += kDepthStride, columns.next(t)) {
      const i64 row = columns.input_y(y, t.y);
      Vec<T> values[1] = {};
      if (row >= 0 && row < columns.height)
        reads[t.x].load(plane + t.channel * xs[1] + row * xs[2] + columns.input_x(x, t.x), values);
      store(dst, values[0]);
    }
  }

  // A part of an output row, for each tap.
  template <class S>
  GEX_INLINE void gather_taps(T* dst, const S* plane, i64 first, i64 rows, i64 y, i64 x,
                              i64 count) const {
    Tap t = columns.tap(first);
    auto inside = columns.inside(t.x);
    const bool same = columns.kernel_w == 1;
    for (i64 r = 0; r < rows; ++r, dst += kDepthStride, columns.next(t)) {
      if (!same) inside = columns.inside(t.x);
      const i64 row = columns.input_y(y, t.y);
      const i64 last = row < 0 || row >= columns.height ? 0 : inside.last - x;
      columns.gather(dst, plane + t.channel * xs[1] + row * xs[2] + columns.input_x(x, t.x) * xs[3],
                     context.stride[1] * xs[3], inside.first - x, last, count);
    }
  }

  void pack_gradient(T* space, i64 channel, i64 k, i64 slice, i64 cols) const {
    const bool dense = gs[2] == columns.out_w * gs[3];
    for (i64 c = 0; c < cols; c += kPanel<T>) {
      const i64 width = smaller(kPanel<T>, cols - c);
      T* panel = space + c * kDepth;
      for_each_image(k, slice, [&](i64 image, i64 pixel, i64 at, i64 n) {
        const i64 base = image * gs[0] + (channel + c) * gs[1];
        MatrixView g = {buffers[1], context.w, base, gs[3], gs[1]};
        if (dense) {
          pack_view(panel + at * kPanel<T>, kPanel<T>, n, width, g, pixel, 0);
          return;
        }
        columns.for_each_output_row(pixel, n, [&](i64 y, i64 x, i64 from, i64 count) {
          g.offset = base + y * gs[2];
          pack_view(panel + (at + from) * kPanel<T>, kPanel<T>, count, width, g, x, 0);
        });
      });
      zero_columns(panel, kPanel<T>, slice, width, kPanel<T>);
    }
  }

  // The tile is [tap][channel], the result [channel][tap].
  void store_tile(i64 row, i64 height, i64 channel, i64 width) {
    const i64 stride = tile_stride<T>(width);
    Tap t = columns.tap(row);
    const auto offset = [&] { return t.channel * ws[1] + t.y * ws[2] + t.x * ws[3]; };
    const bool dense = ws[3] == 1 && ws[2] == columns.kernel_w && ws[1] == columns.kernel_h * ws[2];
    if (dense) {
      // The packed operands are no longer needed: their memory is used to transpose the tile.
      T* turned = scratch.left;
      static_assert(kTileElements <= kLeftRows * kDepthStride + kTileCols * kDepth);
      pack_contiguous_cols(turned, height, width, height, scratch.tile, stride);
      for (i64 o = 0; o < width; ++o)
        store_row(turned + o * height, height, context.y, buffers[2],
                  (channel + o) * ws[0] + offset(), 1);
      return;
    }
    for (i64 i = 0; i < height; ++i, columns.next(t))
      store_row(scratch.tile + i * stride, width, context.y, buffers[2], channel * ws[0] + offset(),
                ws[0]);
  }

  void run_rectangle(i64 group, i64 row0, i64 row1, i64 col0, i64 col1) {
    if (thin.fits()) return thin.run(group, row0, row1);
    for_each_tile<T>(row0, row1, col0, col1, [&](i64 row, i64 height, i64 col, i64 width) {
      const i64 channel = group * group_out + col;
      multiply_tile(
          height, width, depth,
          [&](T* dst, i64 r, i64 count, i64 k, i64 slice) {
            pack_taps(dst, group, row + r, count, k, slice);
          },
          [&](T* space, i64 k, i64 slice, i64&) -> const T* {
            pack_gradient(space, channel, k, slice, width);
            return space;
          },
          scratch);
      store_tile(row, height, channel, width);
    });
  }

  void run(i64 begin, i64 end) {
    for_each_rectangle(begin, end, ceil_div(taps, kUnitRows), ceil_div(group_out, kUnitCols),
                       [&](i64 group, i64 r0, i64 r1, i64 c0, i64 c1) {
                         run_rectangle(group, r0 * kUnitRows, smaller(r1 * kUnitRows, taps),
                                       c0 * kUnitCols, smaller(c1 * kUnitCols, group_out));
                       });
  }
};

void conv2d_weight_grad(const void* context, void* const* buffers, const i64* dims, i64 begin,
                        i64 end, std::byte* scratch) {
  const auto& c = *static_cast<const Conv2dContext*>(context);
  if (c.x == DType::f64)
    ConvWeightGrad<double>(c, buffers, dims, scratch).run(begin, end);
  else
    ConvWeightGrad<float>(c, buffers, dims, scratch).run(begin, end);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
