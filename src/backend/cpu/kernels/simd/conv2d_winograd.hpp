#pragma once
// 3x3 convolution with stride 1 by Winograd's algorithm F(4x4, 3x3): tiles of 4x4 results are
// computed from 6x6 inputs with 36 multiplications for each pair of channels instead of 144. Inputs
// and weights are transformed, multiplied position by position as matrices (tiles times channels),
// and the sums are transformed back. The weights are transformed ahead of time, in f64. The order
// of additions of an element depends only on the sizes.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/gemm_in_place.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// The transforms of one row or column of a tile, for interpolation at 0, 1, -1, 2, -2 and infinity.
struct WinogradTransform {
  template <class V>
  static GEX_INLINE void input(const V (&d)[6], V (&out)[6]) {
    const V even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
    const V near = d[4] - d[2], far = 2.0f * (d[3] - d[1]);
    out[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = near + far;
    out[4] = near - far;
    out[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
  }
  template <class V>
  static GEX_INLINE void result(const V (&s)[6], V (&out)[4]) {
    const V sum1 = s[1] + s[2], difference1 = s[1] - s[2];
    const V sum2 = s[3] + s[4], difference2 = s[3] - s[4];
    out[0] = s[0] + sum1 + sum2;
    out[1] = difference1 + 2.0f * difference2;
    out[2] = sum1 + 4.0f * sum2;
    out[3] = difference1 + 8.0f * difference2 + s[5];
  }
  static void weights(const double (&g)[3], double (&out)[6]) {
    out[0] = g[0] / 4;
    out[1] = -(g[0] + g[1] + g[2]) / 6;
    out[2] = -(g[0] - g[1] + g[2]) / 6;
    out[3] = g[0] / 24 + g[1] / 12 + g[2] / 6;
    out[4] = g[0] / 24 - g[1] / 12 + g[2] / 6;
    out[5] = g[2];
  }
};

struct WinogradConv {
  static constexpr int m = kWinogradTile;
  static constexpr int kIn = m + 2, kPositions = kWinogradPositions;
  static constexpr int lanes = kLanes<float>;
  static constexpr i64 kWidth = kPanel<float>;
  using Transform = WinogradTransform;
  using V = Vec<float>;

  // Tiles [y0, y1) x [x0, x1) of one image.
  struct Block {
    i64 y0, y1, x0, x1;
    i64 across() const { return x1 - x0; }
    i64 tiles() const { return (y1 - y0) * across(); }
  };

  const Columns<float>& columns;
  const Conv2dContext& context;
  i64 channels, channel_stride, most_tiles, tiles_x;
  // Scratch, in the order of winograd_tiles_at_once().
  float* inputs;    // [position][tile][channel_stride]
  float* sums;      // [position][tile][panel]
  float* pixels;    // [pixel][panel]
  float* finished;  // [channel of the panel][pixel]
  float* image;     // [row][column][lanes]: some channels of a block, with zeros around

  WinogradConv(const Columns<float>& of, const Conv2dContext& c, const ConvSizes& sizes,
               std::byte* scratch)
      : columns(of),
        context(c),
        channels(sizes.in),
        channel_stride(winograd_channel_stride(sizes.in)),
        most_tiles(winograd_tiles_at_once(sizes.in)),
        tiles_x(ceil_div(sizes.out_w, m)) {
    inputs = reinterpret_cast<float*>(scratch);
    sums = inputs + kPositions * most_tiles * channel_stride;
    pixels = sums + kPositions * most_tiles * kWidth;
    finished = pixels + m * m * most_tiles * kWidth;
    image = finished + m * m * most_tiles * kWidth;
  }

  // Rows of tiles [row0, row1) for output channels [first, last), whole panels except for the last.
  // `weights`: [panel][position][channel][panel].
  template <class Finish>
  void run(i64 plane, const float* weights, i64 first, i64 last, i64 row0, i64 row1,
           const Finish& finish) {
    const i64 across = smaller(tiles_x, most_tiles);
    const i64 down = larger(most_tiles / tiles_x, i64{1});
    for (i64 y = row0; y < row1; y += down)
      for (i64 x = 0; x < tiles_x; x += across) {
        const Block block{y, smaller(y + down, row1), x, smaller(x + across, tiles_x)};
        transform_inputs(plane, block);
        for (i64 o = first; o < last; o += kWidth) {
          const i64 width = smaller(kWidth, last - o);
          multiply(weights + o / kWidth * kPositions * channels * kWidth, block.tiles(), width);
          finish_panel(block, o, width, finish);
        }
      }
  }

  void transform_inputs(i64 plane, const Block& block) {
    const i64 row = (m * block.across() + 2) * lanes;
    for (i64 c = 0; c < channels; c += lanes) {
      with_storage<float>(context.x, columns.data, [&](auto* base) {
        copy_image(base + plane + c * columns.strides[1], smaller(i64{lanes}, channels - c), block);
      });
      float* to = inputs + c;
      for (i64 y = 0; y < block.y1 - block.y0; ++y)
        for (i64 x = 0; x < block.across(); ++x, to += channel_stride)
          transform_tile(image + m * (y * row + x * lanes), row, to,
                         block.tiles() * channel_stride);
    }
  }

  // The inputs of a block for at most `lanes` channels.
  template <class S>
  void copy_image(const S* from, i64 count, const Block& block) {
    const i64 height = m * (block.y1 - block.y0) + 2, width = m * block.across() + 2;
    const i64 top = columns.input_y(m * block.y0, 0), left = columns.input_x(m * block.x0, 0);
    const i64 first = smaller(larger(-left, i64{0}), width);
    const i64 last = larger(smaller(columns.width - left, width), first);
    for (i64 r = 0; r < height; ++r) {
      float* to = image + r * width * lanes;
      const i64 y = top + r;
      if (y < 0 || y >= columns.height) {
        fill_zero(to, width);
        continue;
      }
      fill_zero(to, first);
      copy_row(to + first * lanes,
               from + y * columns.strides[2] + (left + first) * columns.strides[3], last - first,
               count);
      fill_zero(to + last * lanes, width - last);
    }
  }
  static void fill_zero(float* to, i64 pixels) {
    for (i64 i = 0; i < pixels; ++i) store(to + i * lanes, V{});
  }
  // to[pixel][lane] = from[lane][pixel]; lanes beyond the last channel are zero.
  template <class S>
  void copy_row(float* to, const S* from, i64 count, i64 planes) const {
    const i64 plane = columns.strides[1], step = columns.strides[3];
    if (planes < lanes) fill_zero(to, count);
    if (planes == lanes && step == 1 && count >= lanes) {
      i64 i = 0;
      for (; i + lanes <= count; i += lanes)
        transpose_square<float>(to + i * lanes, lanes, from + i, plane);
      // The remainder as a square that overlaps the previous one.
      if (i < count)
        transpose_square<float>(to + (count - lanes) * lanes, lanes, from + count - lanes, plane);
      return;
    }
    pack_elements(to, lanes, count, planes, from, step, plane);
  }

  static GEX_INLINE void transform_tile(const float* from, i64 row, float* to, i64 position) {
    V half[kIn][kIn];
#pragma GCC unroll 8
    for (int x = 0; x < kIn; ++x) {
      V column[kIn], out[kIn];
#pragma GCC unroll 8
      for (int y = 0; y < kIn; ++y) column[y] = load<float>(from + y * row + x * lanes);
      Transform::input(column, out);
#pragma GCC unroll 8
      for (int y = 0; y < kIn; ++y) half[y][x] = out[y];
    }
#pragma GCC unroll 8
    for (int y = 0; y < kIn; ++y) {
      V out[kIn];
      Transform::input(half[y], out);
#pragma GCC unroll 8
      for (int x = 0; x < kIn; ++x) store(to + (y * kIn + x) * position, out[x]);
    }
  }

  // sums[position][tile][panel] = inputs[position] * weights[position]
  void multiply(const float* weights, i64 tiles, i64 width) const {
    for (int position = 0; position < kPositions; ++position) {
      const float* left = inputs + position * tiles * channel_stride;
      const float* right = weights + position * channels * kWidth;
      float* out = sums + position * tiles * kWidth;
      for_each_row_group(0, tiles, [&](i64 first, int rows) {
        const auto two = in_place_kernel_for<float, 2, false>(rows);
        const auto one = in_place_kernel_for<float, 1, false>(rows);
        for (i64 c = 0; c < width; c += 2 * lanes)
          for (i64 k = 0; k < channels; k += kDepth)
            (width - c > lanes ? two : one)(
                smaller(kDepth, channels - k), left + first * channel_stride + k, channel_stride,
                right + k * kWidth + c, kWidth, out + first * kWidth + c, kWidth, k > 0);
      });
    }
  }

  template <class Finish>
  void finish_panel(const Block& block, i64 channel, i64 width, const Finish& finish) const {
    const i64 rows = smaller(m * block.y1, columns.out_h) - m * block.y0;
    const i64 across = smaller(m * block.x1, columns.out_w) - m * block.x0;
    const float* from = sums;
    for (i64 y = 0; y < rows; y += m)
      for (i64 x = 0; x < m * block.across(); x += m, from += kWidth)
        for (i64 c = 0; c < width; c += lanes)
          transform_sums(from + c, block.tiles() * kWidth, pixels + (y * across + x) * kWidth + c,
                         across, smaller(i64{m}, rows - y), smaller(i64{m}, across - x));
    const i64 count = rows * across;
    const bool planes = count == columns.out_h * columns.out_w;
    const i64 stride = planes ? count : m * m * most_tiles;
    pack_contiguous_cols(finished, stride, width, count, pixels, kWidth);
    if (planes) return finish(finished, channel, i64{0}, width * count);
    const i64 start = m * block.y0 * columns.out_w + m * block.x0;
    for (i64 i = 0; i < width; ++i) {
      const float* values = finished + i * stride;
      if (across == columns.out_w) {
        finish(values, channel + i, start, count);
        continue;
      }
      for (i64 y = 0; y < rows; ++y)
        finish(values + y * across, channel + i, start + y * columns.out_w, across);
    }
  }

  static GEX_INLINE void transform_sums(const float* from, i64 position, float* to, i64 across,
                                        i64 rows, i64 cols) {
    V half[m][kIn];
#pragma GCC unroll 8
    for (int x = 0; x < kIn; ++x) {
      V column[kIn], out[m];
#pragma GCC unroll 8
      for (int y = 0; y < kIn; ++y) column[y] = load<float>(from + (y * kIn + x) * position);
      Transform::result(column, out);
#pragma GCC unroll 8
      for (int y = 0; y < m; ++y) half[y][x] = out[y];
    }
#pragma GCC unroll 8
    for (int y = 0; y < m; ++y) {
      V out[m];
      Transform::result(half[y], out);
      if (y >= rows) break;
#pragma GCC unroll 8
      for (int x = 0; x < m; ++x)
        if (x < cols) store(to + (y * across + x) * kWidth, out[x]);
    }
  }
};

// Transformed weights of the panels [begin, end): [panel][position][channel][panel], zero beyond
// the last output channel. Dims: conv_pack_dims.
template <class S>
void pack_winograd_weights(const S* weights, float* packed, const i64* dims, i64 begin, i64 end) {
  namespace at = conv_pack_dims;
  constexpr int in = kWinogradTile + 2;
  constexpr i64 width = kPanel<float>;
  const i64 channels = dims[at::c];
  const i64* s = dims + at::w_strides;
  for (i64 panel = begin; panel < end; ++panel)
    for (i64 c = 0; c < channels; ++c)
      for (i64 i = 0; i < width; ++i) {
        double half[3][in] = {}, out[in][in] = {};
        const i64 o = panel * width + i;
        for (int y = 0; y < 3 && o < dims[at::o]; ++y) {
          const S* row = weights + o * s[0] + c * s[1] + y * s[2];
          const double g[3] = {widen(row[0]), widen(row[s[3]]), widen(row[2 * s[3]])};
          WinogradTransform::weights(g, half[y]);
        }
        for (int x = 0; x < in; ++x) {
          const double g[3] = {half[0][x], half[1][x], half[2][x]};
          double column[in];
          WinogradTransform::weights(g, column);
          for (int y = 0; y < in; ++y) out[y][x] = column[y];
        }
        float* to = packed + panel * in * in * channels * width + c * width + i;
        for (int k = 0; k < in * in; ++k)
          to[k * channels * width] = static_cast<float>(out[k / in][k % in]);
      }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
