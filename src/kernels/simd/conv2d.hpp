#pragma once
// Y[image] = W * X[image] per group, seen as a product of W[o][c*kh*kw] with the columns that each
// output pixel reads. Columns are gathered while a panel is packed: no im2col matrix exists.

#include "kernels/conv2d_dims.hpp"
#include "kernels/simd/gemm.hpp"
#include "kernels/simd/tile_io.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// With fewer output channels in a group than this, packed columns would hardly be reused.
constexpr i64 kDirectChannels = 4;
static_assert(kDirectChannels <= kTileRows);

template <class T>
struct Conv2d {
  const Conv2dContext& context;
  void* const* buffers;
  const i64* dims;
  TileScratch<T> scratch;
  BoundEpilogue epilogue;
  i64 group_in, group_out, kernel_h, kernel_w, out_h, out_w, depth, cols;
  const i64 *xs, *ws, *ys;

  Conv2d(const Conv2dContext& c, void* const* b, const i64* d, std::byte* s)
      : context(c),
        buffers(b),
        dims(d),
        scratch(tile_scratch<T>(s)),
        epilogue(c.epilogue, b + 2, d, scratch.rest),
        group_in(d[conv2d_dims::c] / c.groups),
        group_out(d[conv2d_dims::o] / c.groups),
        kernel_h(d[conv2d_dims::kh]),
        kernel_w(d[conv2d_dims::kw]),
        out_h(d[conv2d_dims::oh]),
        out_w(d[conv2d_dims::ow]),
        depth(group_in * kernel_h * kernel_w),
        cols(out_h * out_w),
        xs(d + conv2d_dims::x_strides),
        ws(d + conv2d_dims::w_strides),
        ys(d + conv2d_dims::y_strides) {}

  // One weight tap or one input channel and tap: the k-th row of the column matrix.
  struct Tap {
    i64 channel, y, x;
  };
  Tap tap(i64 k) const {
    return {k / (kernel_h * kernel_w), k / kernel_w % kernel_h, k % kernel_w};
  }
  void next(Tap& t) const {
    if (++t.x < kernel_w) return;
    t.x = 0;
    if (++t.y < kernel_h) return;
    t.y = 0;
    ++t.channel;
  }

  void finish_row(const T* values, i64 image, i64 channel, i64 col, i64 count) {
    if (context.epilogue.fn) {
      epilogue.run(values, (image * dims[conv2d_dims::o] + channel) * cols + col, count);
      return;
    }
    const i64 base = image * ys[0] + channel * ys[1];
    for_each_output_row(col, count, [&](i64 y, i64 x, i64 at, i64 n) {
      store_row(values + at, n, context.y, buffers[2], base + y * ys[2] + x * ys[3], ys[3]);
    });
  }

  // Cuts columns [col, col + count) at the ends of output rows: fn(y, x, distance from col, n).
  template <class Fn>
  GEX_INLINE void for_each_output_row(i64 col, i64 count, const Fn& fn) const {
    i64 y = col / out_w, x = col % out_w;
    for (i64 at = 0; at < count;) {
      const i64 n = smaller(out_w - x, count - at);
      fn(y, x, at, n);
      at += n;
      x = 0;
      ++y;
    }
  }

  // dst[i] = X[channel plane][y][x0 + i*step], zero outside the image.
  template <class S>
  GEX_INLINE void gather_row(T* dst, const S* plane, i64 y, i64 x0, i64 step, i64 count) const {
    const i64 height = dims[conv2d_dims::h], width = dims[conv2d_dims::w];
    // Inside for i in [first, last).
    i64 first = x0 >= 0 ? 0 : smaller(count, ceil_div(-x0, step));
    i64 last = x0 >= width ? 0 : smaller(count, (width - 1 - x0) / step + 1);
    if (y < 0 || y >= height || first >= last) first = last = count;
    for (i64 i = 0; i < first; ++i) dst[i] = T{};
    const i64 stride = step * xs[3];
    const S* from = plane + y * xs[2] + x0 * xs[3];
    i64 i = first;
    if (stride == 1)
      for (; i + kLanes<T> <= last; i += kLanes<T>) store(dst + i, load<T>(from + i));
    for (; i < last; ++i) dst[i] = widen(from[i * stride]);
    for (; i < count; ++i) dst[i] = T{};
  }

  i64 input_y(i64 y, const Tap& t) const {
    return y * context.stride[0] - context.pad[0] + t.y * context.dilation[0];
  }
  i64 input_x(i64 x, const Tap& t) const {
    return x * context.stride[1] - context.pad[1] + t.x * context.dilation[1];
  }
  i64 plane_offset(i64 image, i64 group, i64 channel) const {
    return image * xs[0] + (group * group_in + channel) * xs[1];
  }

  void pack_columns(T* space, i64 image, i64 group, i64 k, i64 slice, i64 col, i64 width) const {
    with_storage<T>(context.x, buffers[0], [&](auto* base) {
      for (i64 c = 0; c < width; c += kPanel<T>) {
        const i64 n = smaller(kPanel<T>, width - c);
        T* row = space + c * kDepth;
        Tap t = tap(k);
        for (i64 i = 0; i < slice; ++i, row += kPanel<T>, next(t)) {
          auto* plane = base + plane_offset(image, group, t.channel);
          for_each_output_row(col + c, n, [&](i64 y, i64 x, i64 at, i64 count) {
            gather_row(row + at, plane, input_y(y, t), input_x(x, t), context.stride[1], count);
          });
          for (i64 j = n; j < kPanel<T>; ++j) row[j] = T{};
        }
      }
    });
  }

  // A 1x1 kernel that steps over dense pixels reads the image as a matrix [channel][pixel].
  bool is_plain_product() const {
    return kernel_h == 1 && kernel_w == 1 && context.stride[0] == 1 && context.stride[1] == 1 &&
           context.pad[0] == 0 && context.pad[1] == 0 && out_w == dims[conv2d_dims::w] &&
           out_h == dims[conv2d_dims::h] && xs[2] == out_w * xs[3];
  }

  void pack_weights(T* dst, i64 first_channel, i64 rows, i64 k, i64 slice) const {
    const MatrixView all = {buffers[1], context.w, first_channel * ws[0], ws[0], ws[3]};
    if (ws[2] == kernel_w * ws[3] && ws[1] == kernel_h * ws[2]) {
      pack_view(dst, kDepthStride, rows, slice, all, 0, k);
      return;
    }
    Tap t = tap(k);
    for (i64 i = 0; i < slice; ++i, next(t)) {
      MatrixView one = all;
      one.offset += t.channel * ws[1] + t.y * ws[2] + t.x * ws[3];
      pack_view(dst + i, kDepthStride, rows, 1, one, 0, 0);
    }
  }

  void run_packed(i64 image, i64 group, i64 row0, i64 row1, i64 col0, i64 col1) {
    const bool plain = is_plain_product();
    const MatrixView x = {buffers[0], context.x, plane_offset(image, group, 0), xs[1], xs[3]};
    for (i64 c = col0; c < col1; c += kTileCols) {
      const i64 width = smaller(kTileCols, col1 - c);
      for (i64 r = row0; r < row1; r += kTileRows) {
        const i64 height = smaller(kTileRows, row1 - r);
        const i64 channel = group * group_out + r;
        multiply_tile(
            height, width, depth,
            [&](T* dst, i64 k, i64 slice) { pack_weights(dst, channel, height, k, slice); },
            [&](T* space, i64 k, i64 slice, i64&) -> const T* {
              if (plain)
                pack_panels(space, x, k, slice, c, width);
              else
                pack_columns(space, image, group, k, slice, c, width);
              return space;
            },
            scratch);
        for (i64 i = 0; i < height; ++i)
          finish_row(scratch.tile + i * kTileCols, image, channel + i, c, width);
      }
    }
  }

  // acc[i] += weight * in[i]. Whole vectors only (both arrays have room): a scalar tail could be
  // rounded differently, and where a tail falls depends on the range.
  GEX_INLINE static void add_scaled(T* __restrict acc, T weight, const T* __restrict in, i64 n) {
    for (i64 i = 0; i < n; i += kLanes<T>)
      store(acc + i, load<T>(acc + i) + splat(weight) * load<T>(in + i));
  }

  // Depthwise and other thin groups: each input row is widened and padded once, then every tap of
  // every output channel reads it shifted.
  void run_direct(i64 image, i64 group, i64 col0, i64 col1) {
    constexpr i64 kMaxReach = 2048;
    const i64 reach = (kernel_w - 1) * context.dilation[1];
    const bool share_row = context.stride[1] == 1 && reach <= kMaxReach;
    static_assert(kTileCols + kMaxReach + kPanelBytes <= kTileRows * kDepthStride);
    const i64 first = group * group_out;
    for_each_output_row(col0, col1 - col0, [&](i64 y, i64 x_begin, i64 at, i64 n) {
      for (i64 done = 0; done < n; done += kTileCols) {
        const i64 count = smaller(kTileCols, n - done), x = x_begin + done;
        for (i64 o = 0; o < group_out; ++o)
          for (i64 i = 0; i < count; ++i) scratch.tile[o * kTileCols + i] = T{};
        Tap t = {};
        for (i64 k = 0; k < depth; ++k, next(t)) {
          if (t.x == 0 || !share_row) gather_taps(image, group, t, y, x, count, share_row, reach);
          const T* in = scratch.left + (share_row ? t.x * context.dilation[1] : 0);
          for (i64 o = 0; o < group_out; ++o)
            add_scaled(scratch.tile + o * kTileCols, weight(first + o, t), in, count);
        }
        for (i64 o = 0; o < group_out; ++o)
          finish_row(scratch.tile + o * kTileCols, image, first + o, col0 + at + done, count);
      }
    });
  }
  void gather_taps(i64 image, i64 group, const Tap& t, i64 y, i64 x, i64 count, bool share_row,
                   i64 reach) {
    with_storage<T>(context.x, buffers[0], [&](auto* base) {
      gather_row(scratch.left, base + plane_offset(image, group, t.channel), input_y(y, t),
                 input_x(x, t), context.stride[1], share_row ? count + reach : count);
    });
  }
  T weight(i64 channel, const Tap& t) const {
    T value{};
    with_storage<T>(context.w, buffers[1], [&](auto* base) {
      value = widen(base[channel * ws[0] + t.channel * ws[1] + t.y * ws[2] + t.x * ws[3]]);
    });
    return value;
  }

  void run(i64 begin, i64 end) {
    for_each_rectangle(begin, end, ceil_div(group_out, kUnitRows), ceil_div(cols, kUnitCols),
                       [&](i64 batch, i64 r0, i64 r1, i64 c0, i64 c1) {
                         const i64 image = batch / context.groups, group = batch % context.groups;
                         const i64 col0 = c0 * kUnitCols, col1 = smaller(c1 * kUnitCols, cols);
                         if (group_out <= kDirectChannels)
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
