#pragma once
// Y[image] = W * X[image] per group, in one of the forms of form.hpp: narrow groups row by row or
// channel by channel; thin groups directly, plane by plane where they step by one pixel; transposed
// convolutions phase by phase; few channels as weights times pixels; most others as pixels times
// channels; the few that don't fit there as a product of W[o][c*kh*kw] with the columns that each
// output pixel reads, gathered while a panel is packed.

#include "backend/cpu/kernels/pack_dims.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/conv2d_channels.hpp"
#include "backend/cpu/kernels/simd/conv2d_direct.hpp"
#include "backend/cpu/kernels/simd/conv2d_pixels.hpp"
#include "backend/cpu/kernels/simd/conv2d_planes.hpp"
#include "backend/cpu/kernels/simd/conv2d_rows.hpp"
#include "backend/cpu/kernels/simd/conv2d_shifts.hpp"
#include "backend/cpu/kernels/simd/conv2d_transposed.hpp"
#include "backend/cpu/kernels/simd/conv2d_winograd.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct Conv2d {
  static constexpr i64 kScratchBytes = conv_scratch_bytes(sizeof(T));

  const Conv2dContext& context;
  void* const* buffers;
  const i64* dims;
  TileScratch<T> scratch;
  BoundPrologue made;
  BoundEpilogue epilogue;
  Columns<T> columns;
  i64 group_in, group_out, depth, cols;
  const i64 *xs, *ws, *ys;
  ConvSizes sizes;
  Form form;
  RowConv<T> rows;
  PlaneConv<T> planes;

  Conv2d(const Conv2dContext& c, void* const* b, const i64* d, std::byte* s)
      : context(c),
        buffers(b),
        dims(d),
        scratch(tile_scratch<T>(s)),
        made(c.prologue, b, d, s + kScratchBytes),
        epilogue(c.epilogue, b + 2, d, s + kScratchBytes + (c.prologue.fn ? staged_bytes<T>() : 0)),
        columns(c, b[0], d, c.prologue.fn ? &made : nullptr),
        group_in(d[conv2d_dims::c] / c.groups),
        group_out(d[conv2d_dims::o] / c.groups),
        depth(group_in * columns.kernel_h * columns.kernel_w),
        cols(columns.out_h * columns.out_w),
        xs(d + conv2d_dims::x_strides),
        ws(d + conv2d_dims::w_strides),
        ys(d + conv2d_dims::y_strides),
        sizes(conv_sizes(c.x, c.stride, c.dilation, c.pad, c.up, c.groups, c.prologue.fn != nullptr,
                         d)),
        form(form_of(c, sizes)),
        rows(columns, c, scratch, group_in, group_out),
        planes(columns, c, scratch, group_in, group_out) {}

  // Packed weights serve some of the forms.
  static Form form_of(const Conv2dContext& c, const ConvSizes& sizes) {
    if (c.form != Form::by_rule) return c.form;
    if (c.winograd) return Form::winograd;
    const Form rule = sizes.by_rule();
    return c.w_packed && !reads_panels(rule) ? Form::pixels : rule;
  }

  // Finished values: part of the plane of one channel, or whole planes of several channels.
  void finish_row(const T* values, i64 image, i64 channel, i64 col, i64 count) {
    if (context.epilogue.fn) {
      epilogue.run(values, (image * dims[conv2d_dims::o] + channel) * cols + col, count);
      return;
    }
    for (; count > cols; count -= cols, values += cols)
      finish_row(values, image, channel++, 0, cols);
    const i64 base = image * ys[0] + channel * ys[1];
    if (ys[2] == columns.out_w * ys[3])
      return store_row(values, count, context.y, buffers[2], base + col * ys[3], ys[3]);
    columns.for_each_output_row(col, count, [&](i64 y, i64 x, i64 at, i64 n) {
      store_row(values + at, n, context.y, buffers[2], base + y * ys[2] + x * ys[3], ys[3]);
    });
  }

  // Offset of the first plane that a group reads.
  i64 plane(i64 image, i64 group) const { return image * xs[0] + group * group_in * xs[1]; }

  // A 1x1 kernel with stride 1 over dense pixels reads the image as a matrix [channel][pixel].
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
    const MatrixView x = {buffers[0], context.x, plane(image, group),
                          xs[1],      xs[3],     columns.computed};
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

  void run_rectangle(i64 batch, i64 row0, i64 row1, i64 col0, i64 col1) {
    const i64 image = batch / context.groups, group = batch % context.groups;
    const i64 channel = group * group_out;
    const i64 group_weights =
        context.w_packed ? group * round_up(group_out, kPanel<T>) * depth : channel * ws[0];
    const MatrixView w = {buffers[1], context.w, group_weights, 0, 0};
    const auto finish = [&](const T* values, i64 o, i64 col, i64 count) {
      finish_row(values, image, channel + o, col, count);
    };
    PixelConv<T> pixels(columns, context, sizes, ws, reinterpret_cast<std::byte*>(scratch.tile));
    if (form == Form::pixels)
      pixels.run(plane(image, group), w, row0, row1, col0, col1, finish);
    else if (form == Form::product)
      pixels.run_product(plane(image, group), w, row0, row1, col0, col1, finish);
    else if (form == Form::shifts)
      ShiftConv<T>{pixels, columns, context, sizes}.run(plane(image, group), w, row0, row1, col0,
                                                        col1, finish);
    else if (form == Form::rows)
      rows.run(plane(image, group), w, ws, col0, col1, finish);
    else if (form == Form::direct && planes.fits())
      planes.run(plane(image, group), w, ws, col0, col1, finish);
    else if (form == Form::direct)
      DirectConv<T>{columns, context, sizes, scratch, group_in, group_out}.run(
          plane(image, group), w, ws, col0, col1, finish);
    else
      run_packed(image, group, row0, row1, col0, col1);
  }

  // The units of each channel block share the rows of tiles; some may have none.
  void run_winograd(i64 image, i64 row0, i64 row1, i64 unit0, i64 unit1, i64 col_units) {
    if constexpr (sizeof(T) == 4) {
      const i64 tile_rows = ceil_div(columns.out_h, kWinogradTile);
      WinogradConv conv(columns, context, sizes, reinterpret_cast<std::byte*>(scratch.tile));
      conv.run(plane(image, 0), static_cast<const float*>(buffers[1]), row0, row1,
               tile_rows * unit0 / col_units, tile_rows * unit1 / col_units,
               [&](const float* values, i64 o, i64 col, i64 count) {
                 finish_row(values, image, o, col, count);
               });
    }
  }

  // The units of each channel block share the windows; some may have none.
  void run_transposed(i64 image, i64 row0, i64 row1, i64 unit0, i64 unit1, i64 col_units) {
    PixelConv<T> pixels(columns, context, sizes, ws, reinterpret_cast<std::byte*>(scratch.tile));
    TransposedConv<T> conv(pixels, columns, context, sizes, ws);
    const MatrixView w = {buffers[1], context.w, 0, 0, 0};
    const i64 windows = conv.windows();
    conv.run(plane(image, 0), w, row0, row1, windows * unit0 / col_units,
             windows * unit1 / col_units, [&](const T* values, i64 o, i64 col, i64 count) {
               finish_row(values, image, o, col, count);
             });
  }

  // Whole planes, several at a time; units of the first and the last may belong to other workers.
  void run_channels(i64 begin, i64 end, i64 col_units) {
    const i64 first = begin / col_units, last = ceil_div(end, col_units);
    const MatrixView w = {buffers[1], context.w, 0, 0, 0};
    const ChannelConv<T> conv = {columns, context, sizes, scratch, ws, dims[conv2d_dims::o]};
    conv.run(w, first, last, [&](const T* values, i64 plane, i64 count, i64 col, i64 pixels) {
      const bool mine = plane * col_units >= begin && (plane + count) * col_units <= end;
      if (mine && pixels == cols && context.epilogue.fn)
        return epilogue.run(values, plane * cols, count * cols);
      for (i64 p = plane; p < plane + count; ++p, values += pixels) {
        const i64 from = larger(col, (begin - p * col_units) * kConvUnitPixels);
        const i64 to = smaller(col + pixels, (end - p * col_units) * kConvUnitPixels);
        if (from < to)
          finish_row(values + from - col, p / dims[conv2d_dims::o], p % dims[conv2d_dims::o], from,
                     to - from);
      }
    });
  }

  void run(i64 begin, i64 end) {
    const i64 row_units = ceil_div(group_out, kConvUnitChannels);
    const i64 col_units = ceil_div(cols, kConvUnitPixels);
    const auto run_units = [&](i64 batch, i64 r0, i64 r1, i64 c0, i64 c1) {
      if (form == Form::winograd)
        return run_winograd(batch, r0 * kConvUnitChannels,
                            smaller(r1 * kConvUnitChannels, group_out), c0, c1, col_units);
      if (form == Form::transposed)
        return run_transposed(batch, r0 * kConvUnitChannels,
                              smaller(r1 * kConvUnitChannels, group_out), c0, c1, col_units);
      run_rectangle(batch, r0 * kConvUnitChannels, smaller(r1 * kConvUnitChannels, group_out),
                    c0 * kConvUnitPixels, smaller(c1 * kConvUnitPixels, cols));
    };
    if (form == Form::channels) {
      if (begin < end) run_channels(begin, end, col_units);
    } else if (form == Form::direct || form == Form::rows) {
      // Such groups are one unit high, so whole planes follow one another.
      i64 batch = begin / col_units, unit = begin % col_units;
      for (i64 left = end - begin; left > 0; ++batch, unit = 0) {
        const i64 count = smaller(left, col_units - unit);
        run_units(batch, 0, 1, unit, unit + count);
        left -= count;
      }
    } else if (cols > kSmallImage)
      for_each_rectangle(begin, end, row_units, col_units, run_units);
    else
      for_each_rectangle(
          begin, end, col_units, row_units,
          [&](i64 batch, i64 c0, i64 c1, i64 r0, i64 r1) { run_units(batch, r0, r1, c0, c1); });
  }
};

// Weights of each group as panels [ceil(out/panel)][depth][panel], zero beyond the last channel.
template <class T, class S>
void pack_conv_weights(const S* weights, T* packed, i64 groups, const i64* dims, i64 begin,
                       i64 end) {
  namespace at = conv_pack_dims;
  const i64 group_out = dims[at::o] / groups, taps = dims[at::kh] * dims[at::kw];
  const i64 depth = dims[at::c] * taps, panels = ceil_div(group_out, kPanel<T>);
  const i64* s = dims + at::w_strides;
  for (i64 unit = begin; unit < end; ++unit) {
    const i64 channel = unit / panels * group_out, first = unit % panels * kPanel<T>;
    const i64 width = smaller(kPanel<T>, group_out - first);
    const S* from = weights + (channel + first) * s[0];
    T* to = packed + unit * depth * kPanel<T>;
    for (i64 k = 0; k < depth; ++k, to += kPanel<T>) {
      const i64 tap =
          k / taps * s[1] + k / dims[at::kw] % dims[at::kh] * s[2] + k % dims[at::kw] * s[3];
      for (i64 i = 0; i < kPanel<T>; ++i) to[i] = i < width ? widen(from[i * s[0] + tap]) : T{};
    }
  }
}

template <class T>
void pack_conv(i64 groups, void* const* buffers, const i64* dims, i64 begin, i64 end) {
  namespace at = conv_pack_dims;
  T* packed = static_cast<T*>(buffers[1]);
  with_storage<T>(static_cast<DType>(dims[at::source]), buffers[0], [&](auto* weights) {
    if constexpr (sizeof(T) == 4)
      if (dims[at::winograd] != 0) return pack_winograd_weights(weights, packed, dims, begin, end);
    if (dims[at::up] > 0)
      pack_up_weights(weights, packed, dims, begin, end);
    else
      pack_conv_weights(weights, packed, groups, dims, begin, end);
  });
}

void conv2d_pack(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
                 std::byte*) {
  const auto& c = *static_cast<const Conv2dContext*>(context);
  if (c.w == DType::f64)
    pack_conv<double>(c.groups, buffers, dims, begin, end);
  else
    pack_conv<float>(c.groups, buffers, dims, begin, end);
}

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
