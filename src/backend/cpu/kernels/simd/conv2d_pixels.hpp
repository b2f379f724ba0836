#pragma once
// Convolution as a matmul whose rows are output pixels and whose columns are output channels. The
// inputs of a pixel are broadcast one by one from memory, so no column matrix is made: only weights
// are packed, and a padded copy of the image if taps may fall outside.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/gemm_in_place.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Fewer than kMicroRows if that is 12: each row needs a register for its address.
constexpr int kPixelRows = kMicroRows == 12 ? 10 : kMicroRows;

// c[R][kVectors vectors] (+)= sum over k of pixels[r][offsets[k]] * b[k]. Rows of b and c are one
// panel apart.
template <class T, int R, int kVectors>
void pixel_kernel(i64 depth, const T* const* __restrict pixels, const i64* __restrict offsets,
                  const T* __restrict b, T* __restrict c, bool accumulate) {
  constexpr int lanes = kLanes<T>;
  Vec<T> acc[R][kVectors] = {};
  const T* from[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) from[r] = pixels[r];
  for (i64 k = 0; k < depth; ++k) {
    const i64 offset = offsets[k];
    Vec<T> right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = load<T>(b + k * kPanel<T> + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat(from[r][offset]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = mul_add(left, right[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* out = c + r * kPanel<T> + v * lanes;
      store(out, accumulate ? load<T>(out) + acc[r][v] : acc[r][v]);
    }
  }
}

template <class T>
using PixelKernel = void (*)(i64, const T* const*, const i64*, const T*, T*, bool);

template <class T, int kVectors, int... R>
GEX_INLINE PixelKernel<T> pixel_kernel_for(int rows) {
  static constexpr PixelKernel<T> table[] = {&pixel_kernel<T, R, kVectors>...};
  return table[rows - 1];
}
template <class T, int kVectors>
GEX_INLINE PixelKernel<T> pixel_kernel_for_rows(int rows) {
  if constexpr (kPixelRows == 10)
    return pixel_kernel_for<T, kVectors, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10>(rows);
  else
    return pixel_kernel_for<T, kVectors, 1, 2, 3, 4, 5, 6>(rows);
}

template <class T>
struct PixelConv {
  static constexpr i64 kFewPixels = 64;

  const Columns<T>& columns;
  const Conv2dContext& context;
  const ConvSizes& sizes;
  const i64* w_strides;
  i64 depth;
  // Scratch, in the order of conv_scratch_bytes().
  T* weights;       // [panels][depth][panel]
  T* image;         // [channel][row][column], with a border of zeros
  T* tile;          // [pixel][panel]
  T* finished;      // [channel of the panel][kConvPixels]
  i64* offsets;     // [depth]: from a pixel's first input to the k-th
  i64 packed = -1;  // the channel whose panel is first in `weights`

  PixelConv(const Columns<T>& of, const Conv2dContext& c, const ConvSizes& s, const i64* ws,
            std::byte* scratch)
      : columns(of), context(c), sizes(s), w_strides(ws), depth(s.depth()) {
    weights = reinterpret_cast<T*>(scratch);
    image = weights + kConvDepth * kPanel<T>;
    tile = image + kConvImage;
    finished = tile + kConvPixels * kPanel<T>;
    offsets = reinterpret_cast<i64*>(finished + kConvPixels * kPanel<T>);
  }

  // `plane`: offset of the group's first input plane; `w`: its weights.
  // finish(values, output channel of the group, column, count): of one channel, or whole planes of
  // some.
  template <class Finish>
  void run(i64 plane, const MatrixView& w, i64 row0, i64 row1, i64 col0, i64 col1,
           const Finish& finish) {
    const bool in_place = sizes.in_place();
    packed = -1;
    if (!in_place && sizes.rows_at_once() == 0)
      return run_by_columns(plane, w, row0, row1, col0, col1, finish);
    const T* data = image;
    i64 step_y = sizes.reach_x(), step_x = 1, step_c = 0, first_row = 0;
    const i64 most_rows = in_place ? columns.out_h : sizes.rows_at_once();
    if (in_place) {
      data = static_cast<const T*>(columns.data) + plane;
      step_y = columns.strides[2], step_x = columns.strides[3], step_c = columns.strides[1];
      set_offsets(step_c, step_y, step_x);
    }
    for (i64 col = col0; col < col1;) {
      const i64 y = col / columns.out_w;
      const i64 last_row = smaller(y + most_rows, ceil_div(col1, columns.out_w));
      const i64 end = smaller(last_row * columns.out_w, col1);
      if (!in_place) {
        const i64 input_rows = sizes.reach_y(last_row - y);
        pad_image(plane, columns.input_y(y, 0), input_rows);
        set_offsets(input_rows * step_y, step_y, step_x);
        first_row = y;
      }
      const auto pixel = [&](i64 at) {
        return data + (at / columns.out_w - first_row) * context.stride[0] * step_y +
               at % columns.out_w * context.stride[1] * step_x;
      };
      run_block(pixel, w, row0, row1, col, end, finish);
      col = end;
    }
  }

  // Rows that are too long to be copied whole: some columns at a time.
  template <class Finish>
  void run_by_columns(i64 plane, const MatrixView& w, i64 row0, i64 row1, i64 col0, i64 col1,
                      const Finish& finish) {
    const i64 step = context.stride[1], most = sizes.columns_at_once(), rows = sizes.reach_y(1);
    for (i64 col = col0; col < col1;) {
      const i64 y = col / columns.out_w, x = col % columns.out_w;
      const i64 count = smaller(smaller(most, columns.out_w - x), col1 - col);
      const i64 width = (count - 1) * step + (columns.kernel_w - 1) * context.dilation[1] + 1;
      pad_columns(plane, columns.input_y(y, 0), rows, columns.input_x(x, 0), width);
      set_offsets(rows * width, width, 1);
      run_block([&](i64 at) { return image + (at - col) * step; }, w, row0, row1, col, col + count,
                finish);
      col += count;
    }
  }

  // A 1x1 kernel over dense planes: a matmul of weights with pixels whose result is planes.
  template <class Finish>
  void run_product(i64 plane, const MatrixView& w, i64 row0, i64 row1, i64 col0, i64 col1,
                   const Finish& finish) {
    packed = -1;
    const bool in_place = sizes.in_place();
    const MatrixView x = {columns.data, context.x, plane, columns.strides[1], 1, columns.computed};
    const i64 step = kConvDepth / depth * kPanel<T>;
    for (i64 row = row0; row < row1; row += step) {
      const i64 height = smaller(step, row1 - row);
      const T* panels = panels_of(w, row, height);
      for (i64 col = col0; col < col1; col += kConvPixels) {
        const i64 width = smaller(kConvPixels, col1 - col), whole = width / kLanes<T> * kLanes<T>;
        if (in_place && whole < width) {
          pack_view(image, kPanel<T>, depth, width - whole, x, 0, col + whole);
          zero_columns(image, kPanel<T>, depth, width - whole, kPanel<T>);
        }
        RightInPlace<T> right = {static_cast<const T*>(x.data) + x.offset + col, x.row_stride,
                                 kPanel<T>, whole, image};
        if (!in_place) {
          const i64 padded = round_up(width, kPanel<T>);
          pack_view(image, padded, depth, width, x, 0, col);
          zero_columns(image, padded, depth, width, padded);
          right = {image, padded, kPanel<T>, padded, nullptr};
        }
        for (i64 r = 0; r < height; r += kPanel<T>)
          for_each_row_group(r, smaller(r + kPanel<T>, height), [&](i64 first, int count) {
            multiply_in_place<T, true>(count, width, depth,
                                       {panels + r * depth + (first - r), 1, kPanel<T>}, right,
                                       finished, kConvPixels);
            for (int i = 0; i < count; ++i)
              finish(finished + i * kConvPixels, row + first + i, col, width);
          });
      }
    }
  }

  void set_offsets(i64 step_c, i64 step_y, i64 step_x) const {
    Tap t = {};
    for (i64 k = 0; k < depth; ++k, columns.next(t))
      offsets[k] = t.channel * step_c + t.y * context.dilation[0] * step_y +
                   t.x * context.dilation[1] * step_x;
  }

  void pad_image(i64 plane, i64 first_y, i64 rows) const {
    if (columns.computed) return pad_computed(plane, first_y, rows);
    const i64 width = sizes.reach_x(), before = smaller(context.pad[1], width);
    const i64 inside = larger(i64{0}, smaller(columns.width, width - before));
    const i64* strides = columns.strides;
    with_storage<T>(context.x, columns.data, [&](auto* base) {
      T* to = image;
      for (i64 c = 0; c < sizes.in; ++c)
        for (i64 y = first_y; y < first_y + rows; ++y, to += width) {
          const bool outside = y < 0 || y >= columns.height;
          columns.gather(to, base + plane + c * strides[1] + y * strides[2] - before * strides[3],
                         strides[3], before, outside ? 0 : before + inside, width);
        }
    });
  }

  // image[channel][row][width] from column `first_x` of the input on, zero beside the image.
  void pad_columns(i64 plane, i64 first_y, i64 rows, i64 first_x, i64 width) const {
    const i64* strides = columns.strides;
    const i64 first = smaller(width, larger(i64{0}, -first_x));
    const i64 last = larger(first, smaller(width, columns.width - first_x));
    T* to = image;
    for (i64 c = 0; c < sizes.in; ++c)
      for (i64 y = first_y; y < first_y + rows; ++y, to += width) {
        const i64 end = y < 0 || y >= columns.height ? first : last;
        const i64 from = plane + c * strides[1] + y * strides[2] + first_x * strides[3];
        if (columns.computed) {
          for (i64 i = 0; i < width; ++i) to[i] = T{};
          columns.computed->fill(to + first, from + first, end - first);
          continue;
        }
        with_storage<T>(context.x, columns.data, [&](auto* base) {
          columns.gather(to, base + from, strides[3], first, end, width);
        });
      }
  }

  // The same from a computed image, in runs as long as its grid and the copy allow: a prologue is
  // called for many rows at once, and for whole planes if all their rows are needed.
  void pad_computed(i64 plane, i64 first_y, i64 rows) const {
    const i64 width = sizes.reach_x(), before = smaller(context.pad[1], width);
    const i64 inside = larger(i64{0}, smaller(columns.width, width - before));
    const i64* strides = columns.strides;
    const i64 y0 = smaller(larger(i64{0}, first_y), columns.height);
    const i64 y1 = larger(y0, smaller(columns.height, first_y + rows));
    const bool dense = strides[2] == columns.width;
    const bool planes =
        dense && y1 - y0 == columns.height && strides[1] == columns.height * columns.width;
    const bool unpadded = dense && inside == width && width == columns.width && y1 - y0 == rows;
    if (!unpadded)
      for (i64 i = 0; i < sizes.in * rows * width; ++i) image[i] = T{};
    const i64 runs = planes ? 1 : sizes.in, lines = (planes ? sizes.in : 1) * (y1 - y0);
    for (i64 run = 0; run < runs; ++run) {
      const i64 from = plane + run * strides[1] + y0 * strides[2];
      if (unpadded)
        columns.computed->fill(image + run * rows * width, from, lines * width);
      else
        place_lines(from, lines, dense, inside, [&](i64 line) {
          const i64 c = planes ? line / (y1 - y0) : run, y = planes ? line % (y1 - y0) : line;
          return image + (c * rows + y0 + y - first_y) * width + before;
        });
    }
  }

  // Writes lines of a computed image, from element `from` of its grid on, to the positions of
  // `place`.
  template <class Place>
  void place_lines(i64 from, i64 lines, bool dense, i64 inside, const Place& place) const {
    const i64 step = columns.strides[2];
    const i64 at_once = dense && step > 0 ? kStagedElements / step : 0;
    T* staged = reinterpret_cast<T*>(columns.computed->staging);
    for (i64 line = 0; line < lines; line += larger(i64{1}, at_once)) {
      if (at_once == 0) {
        columns.computed->fill(place(line), from + line * step, inside);
        continue;
      }
      const i64 count = smaller(at_once, lines - line);
      columns.computed->fill(staged, from + line * step, count * step);
      for (i64 i = 0; i < count; ++i)
        columns.gather(place(line + i), staged + i * step, 1, 0, inside, inside);
    }
  }

  // The panels of `count` channels.
  const T* panels_of(const MatrixView& w, i64 channel, i64 count) {
    if (context.w_packed) return static_cast<const T*>(w.data) + w.offset + channel * depth;
    if (packed != channel) pack_weights(w, channel, count);
    packed = channel;
    return weights;
  }

  void pack_weights(const MatrixView& w, i64 channel, i64 count) {
    const i64* s = w_strides;
    const bool dense = s[2] == columns.kernel_w * s[3] && s[1] == columns.kernel_h * s[2];
    for (i64 c = 0; c < count; c += kPanel<T>) {
      const i64 width = smaller(kPanel<T>, count - c);
      T* panel = weights + c * depth;
      MatrixView view = {w.data, w.dtype, w.offset + (channel + c) * s[0], s[3], s[0]};
      if (dense) {
        pack_view(panel, kPanel<T>, depth, width, view, 0, 0);
      } else {
        const i64 first = view.offset;
        Tap t = {};
        for (i64 k = 0; k < depth; ++k, columns.next(t)) {
          view.offset = first + t.channel * s[1] + t.y * s[2] + t.x * s[3];
          pack_view(panel + k * kPanel<T>, kPanel<T>, 1, width, view, 0, 0);
        }
      }
      zero_columns(panel, kPanel<T>, depth, width, kPanel<T>);
    }
  }

  template <class Pixel, class Finish>
  void run_block(const Pixel& pixel, const MatrixView& w, i64 row0, i64 row1, i64 col0, i64 col1,
                 const Finish& finish) {
    const i64 step = kConvDepth / depth * kPanel<T>;
    for (i64 row = row0; row < row1; row += step) {
      const i64 height = smaller(step, row1 - row);
      const T* panels = panels_of(w, row, height);
      for (i64 col = col0; col < col1; col += kConvPixels) {
        const i64 count = smaller(kConvPixels, col1 - col);
        const T* pixels[kConvPixels];
        for (i64 i = 0; i < count; ++i) pixels[i] = pixel(col + i);
        for (i64 r = 0; r < height; r += kPanel<T>) {
          const i64 width = smaller(kPanel<T>, height - r);
          multiply_pixels(pixels, count, panels + r * depth, width);
          const bool planes = count == columns.out_h * columns.out_w;
          const i64 stride = planes ? count : kConvPixels;
          pack_contiguous_cols(finished, stride, width, count, tile, kPanel<T>);
          if (planes)
            finish(finished, row + r, i64{0}, width * count);
          else
            for (i64 i = 0; i < width; ++i) finish(finished + i * stride, row + r + i, col, count);
        }
      }
    }
  }

  void multiply_pixels(const T* const* pixels, i64 count, const T* panel, i64 width) const {
    constexpr int lanes = kLanes<T>;
    const i64 groups = ceil_div(count, kPixelRows);
    const auto multiply = [&](i64 g, i64 c, i64 k) {
      const i64 first = count * g / groups;
      const int rows = static_cast<int>(count * (g + 1) / groups - first);
      const PixelKernel<T> kernel =
          width - c > lanes ? pixel_kernel_for_rows<T, 2>(rows) : pixel_kernel_for_rows<T, 1>(rows);
      kernel(smaller(kDepth, depth - k), pixels + first, offsets + k, panel + k * kPanel<T> + c,
             tile + first * kPanel<T> + c, k > 0);
    };
    // Of a small image the weights are the larger operand: a slice of them stays in the first-level
    // cache while all pixels are multiplied by it.
    if (count <= kFewPixels) {
      for (i64 k = 0; k < depth; k += kDepth)
        for (i64 c = 0; c < width; c += 2 * lanes)
          for (i64 g = 0; g < groups; ++g) multiply(g, c, k);
      return;
    }
    for (i64 g = 0; g < groups; ++g)
      for (i64 c = 0; c < width; c += 2 * lanes)
        for (i64 k = 0; k < depth; k += kDepth) multiply(g, c, k);
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
