#pragma once
// Y[image] = W * X[image] per group, seen as a product of W[o][c*kh*kw] with the columns that each
// output pixel reads. Columns are gathered while a panel is packed: no im2col matrix exists.

#include "kernels/simd/columns.hpp"
#include "kernels/simd/gemm.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// With at most this many output channels in a group, packed columns would hardly be reused.
constexpr i64 kDirectChannels = 4;

template <class T>
struct Conv2d {
  const Conv2dContext& context;
  void* const* buffers;
  const i64* dims;
  TileScratch<T> scratch;
  BoundEpilogue epilogue;
  Columns<T> columns;
  i64 group_in, group_out, depth, cols;
  const i64 *xs, *ws, *ys;

  Conv2d(const Conv2dContext& c, void* const* b, const i64* d, std::byte* s)
      : context(c),
        buffers(b),
        dims(d),
        scratch(tile_scratch<T>(s)),
        epilogue(c.epilogue, b + 2, d, scratch.rest),
        columns(c, b[0], d),
        group_in(d[conv2d_dims::c] / c.groups),
        group_out(d[conv2d_dims::o] / c.groups),
        depth(group_in * columns.kernel_h * columns.kernel_w),
        cols(columns.out_h * columns.out_w),
        xs(d + conv2d_dims::x_strides),
        ws(d + conv2d_dims::w_strides),
        ys(d + conv2d_dims::y_strides) {}

  void finish_row(const T* values, i64 image, i64 channel, i64 col, i64 count) {
    if (context.epilogue.fn) {
      epilogue.run(values, (image * dims[conv2d_dims::o] + channel) * cols + col, count);
      return;
    }
    const i64 base = image * ys[0] + channel * ys[1];
    columns.for_each_output_row(col, count, [&](i64 y, i64 x, i64 at, i64 n) {
      store_row(values + at, n, context.y, buffers[2], base + y * ys[2] + x * ys[3], ys[3]);
    });
  }

  // Offset of the first plane that a group reads.
  i64 plane(i64 image, i64 group) const { return image * xs[0] + group * group_in * xs[1]; }

  // A 1x1 kernel that steps over dense pixels reads the image as a matrix [channel][pixel].
  bool is_plain_product() const {
    return columns.kernel_h == 1 && columns.kernel_w == 1 && context.stride[0] == 1 &&
           context.stride[1] == 1 && context.pad[0] == 0 && context.pad[1] == 0 &&
           columns.out_w == columns.width && columns.out_h == columns.height &&
           xs[2] == columns.out_w * xs[3];
  }

  void pack_weights(T* dst, i64 first_channel, i64 rows, i64 k, i64 slice) const {
    const MatrixView all = {buffers[1], context.w, first_channel * ws[0], ws[0], ws[3]};
    if (ws[2] == columns.kernel_w * ws[3] && ws[1] == columns.kernel_h * ws[2]) {
      pack_view(dst, kDepthStride, rows, slice, all, 0, k);
      return;
    }
    Tap t = columns.tap(k);
    for (i64 i = 0; i < slice; ++i, columns.next(t)) {
      MatrixView one = all;
      one.offset += t.channel * ws[1] + t.y * ws[2] + t.x * ws[3];
      pack_view(dst + i, kDepthStride, rows, 1, one, 0, 0);
    }
  }

  void run_packed(i64 image, i64 group, i64 row0, i64 row1, i64 col0, i64 col1) {
    const bool plain = is_plain_product();
    const MatrixView x = {buffers[0], context.x, plane(image, group), xs[1], xs[3]};
    for_each_tile<T>(row0, row1, col0, col1, [&](i64 row, i64 height, i64 col, i64 width) {
      const i64 channel = group * group_out + row;
      multiply_tile(
          height, width, depth,
          [&](T* dst, i64 r, i64 count, i64 k, i64 slice) {
            pack_weights(dst, channel + r, count, k, slice);
          },
          [&](T* space, i64 k, i64 slice, i64&) -> const T* {
            if (plain)
              pack_panels(space, x, k, slice, col, width);
            else
              columns.pack(space, plane(image, group), k, slice, col, width);
            return space;
          },
          scratch);
      for (i64 i = 0; i < height; ++i)
        finish_row(scratch.tile + i * tile_stride<T>(width), image, channel + i, col, width);
    });
  }

  // Depthwise and other thin groups: taps of one input channel are gathered as rows ready for
  // vectors, and every output channel sums them in registers. Where the kernel steps by one pixel,
  // one gathered row serves all taps of a kernel row.
  static constexpr i64 kTaps = 64;  // of one channel, summed at once
  // A gathered row has room for the reach of a kernel and for the vector at its last element.
  static constexpr i64 kRowStride = 2 * kTileCols + kPanel<T>;
  static_assert(kTaps * kRowStride <= kTileRows * kDepthStride + kTileCols * kDepth);

  T* direct_weights() const { return scratch.tile + kDirectChannels * kTileCols; }
  bool is_direct() const {
    return group_out <= kDirectChannels &&
           group_out * depth <= kTileRows * kTileCols - kDirectChannels * kTileCols;
  }

  void run_direct(i64 image, i64 group, i64 col0, i64 col1) {
    Tap t = {};
    for (i64 k = 0; k < depth; ++k, columns.next(t))
      with_storage<T>(context.w, buffers[1], [&](auto* base) {
        for (i64 o = 0; o < group_out; ++o)
          direct_weights()[o * depth + k] =
              widen(base[(group * group_out + o) * ws[0] + t.channel * ws[1] + t.y * ws[2] +
                         t.x * ws[3]]);
      });
    columns.for_each_output_row(col0, col1 - col0, [&](i64 y, i64 x, i64 at, i64 n) {
      for (i64 done = 0; done < n; done += kTileCols) {
        const i64 count = smaller(kTileCols, n - done);
        sum_taps(plane(image, group), y, x + done, count);
        for (i64 o = 0; o < group_out; ++o)
          finish_row(scratch.tile + o * kTileCols, image, group * group_out + o, col0 + at + done,
                     count);
      }
    });
  }

  // tile[o][i] = the sum over all channels and taps for output (y, x + i).
  void sum_taps(i64 group_plane, i64 y, i64 x, i64 count) const {
    const i64 reach = (columns.kernel_w - 1) * context.dilation[1];
    const bool share = context.stride[1] == 1 && reach <= kTileCols;
    const T* rows[kTaps];
    i64 waiting = 0, summed = 0;
    Tap t = {};
    for (i64 o = 0; o < group_out; ++o)
      for (i64 i = 0; i < round_up(count, kPanel<T>); ++i) scratch.tile[o * kTileCols + i] = T{};
    for (i64 k = 0; k < depth; ++k, columns.next(t)) {
      if (share && waiting > 0 && t.x > 0) {
        rows[waiting] = rows[waiting - 1] + context.dilation[1];
      } else {
        T* row = scratch.left + waiting * kRowStride;
        gather_tap(row, group_plane + t.channel * xs[1], y, t.y, x, t.x,
                   share ? count + reach : count);
        rows[waiting] = row;
      }
      if (++waiting < kTaps && k + 1 < depth) continue;
      for (i64 o = 0; o < group_out; ++o)
        add_taps(scratch.tile + o * kTileCols, rows, direct_weights() + o * depth + summed, waiting,
                 count);
      summed += waiting;
      waiting = 0;
    }
  }

  // row[i] = the input that output x + i reads through a tap (or, shared, its neighbours).
  void gather_tap(T* row, i64 plane_offset, i64 y, i64 tap_y, i64 x, i64 tap_x, i64 count) const {
    const i64 input_y = columns.input_y(y, tap_y), input_x = columns.input_x(x, tap_x);
    const i64 step = context.stride[1];
    const i64 first = input_x >= 0 ? 0 : ceil_div(-input_x, step);
    const bool outside = input_y < 0 || input_y >= columns.height || input_x >= columns.width;
    const i64 last = outside ? 0 : (columns.width - 1 - input_x) / step + 1;
    with_storage<T>(context.x, buffers[0], [&](auto* base) {
      columns.gather(row, base + plane_offset + input_y * xs[2] + input_x * xs[3], step * xs[3],
                     first, last, count);
    });
  }

  // Whole vectors only (all rows have room): a scalar tail could be rounded differently, and where
  // a tail falls depends on the range.
  static void add_taps(T* __restrict acc, const T* const* rows, const T* weights, i64 taps,
                       i64 count) {
    constexpr int lanes = kLanes<T>;
    i64 i = 0;
    for (; i + lanes < count; i += 2 * lanes) {
      Vec<T> sum0 = load<T>(acc + i), sum1 = load<T>(acc + i + lanes);
      for (i64 t = 0; t < taps; ++t) {
        sum0 += splat(weights[t]) * load<T>(rows[t] + i);
        sum1 += splat(weights[t]) * load<T>(rows[t] + i + lanes);
      }
      store(acc + i, sum0);
      store(acc + i + lanes, sum1);
    }
    if (i < count) {
      Vec<T> sum = load<T>(acc + i);
      for (i64 t = 0; t < taps; ++t) sum += splat(weights[t]) * load<T>(rows[t] + i);
      store(acc + i, sum);
    }
  }

  void run(i64 begin, i64 end) {
    for_each_rectangle(begin, end, ceil_div(group_out, kUnitRows), ceil_div(cols, kUnitCols),
                       [&](i64 batch, i64 r0, i64 r1, i64 c0, i64 c1) {
                         const i64 image = batch / context.groups, group = batch % context.groups;
                         const i64 col0 = c0 * kUnitCols, col1 = smaller(c1 * kUnitCols, cols);
                         if (is_direct())
                           run_direct(image, group, col0, col1);
                         else
                           run_packed(image, group, r0 * kUnitRows,
                                      smaller(r1 * kUnitRows, group_out), col0, col1);
                       });
  }
};

void conv2d(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
            std::byte* scratch) {
  const auto& c = *static_cast<const Conv2dContext*>(context);
  if (c.x == DType::f64)
    Conv2d<double>(c, buffers, dims, scratch).run(begin, end);
  else
    Conv2d<float>(c, buffers, dims, scratch).run(begin, end);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
