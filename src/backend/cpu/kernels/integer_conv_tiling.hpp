#pragma once
// The tiles of integer_conv2d.hpp: the same formulas for the numbers of a launch and for Dims.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "backend/cpu/kernels/integer_tile.hpp"
#include "base/dim/dim.hpp"
#include "problems/conv2d.hpp"

namespace gex::kernels {

inline constexpr std::int64_t kTileChannels = 48;  // output channels of a unit
inline constexpr std::int64_t kTilePixels = 256;   // for kIntegerTileRows output channels or more
inline constexpr std::int64_t kTileWidth = 64;     // of kernels with more than one tap

inline std::int64_t floordiv(std::int64_t a, std::int64_t b) { return a / b; }
inline std::int64_t ceildiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t min(std::int64_t a, std::int64_t b) { return std::min(a, b); }
inline std::int64_t max(std::int64_t a, std::int64_t b) { return std::max(a, b); }

// How the pixels that a tile reads along one axis are stored: taps whose pixels are a multiple of
// the stride apart read the same lines. A tap `period` steps further reads the lines of the tap
// before, `shift` further down.
struct TapPhases {
  std::int64_t stride, dilation, period;

  TapPhases(std::int64_t of_stride, std::int64_t of_dilation)
      : stride(of_stride),
        dilation(of_dilation),
        period(of_stride / std::gcd(of_stride, of_dilation)) {}

  std::int64_t first_of(std::int64_t phase) const { return phase * dilation % stride; }
  std::int64_t shift(std::int64_t tap) const { return tap * dilation / stride; }
  // Shift of the last tap of a phase.
  std::int64_t reach(std::int64_t phase, std::int64_t taps) const {
    return shift(phase + (taps - 1 - phase) / period * period);
  }
};

template <class N>
struct ConvTiling {
  N group_in, group_out;
  N height, width;  // of the result; one row if kernels have one tap
  N tile_height, tile_width;
  N tiles_down, tiles_across;
  N channel_blocks;             // of a group
  N sum_rows;                   // output channels that are computed at once
  N unit_groups, group_blocks;  // groups of a unit; of all groups
  N units;

  ConvTiling(const problems::Conv2dProblem& p, const N* d) {
    namespace at = problems::conv2d_dims;
    const N one(1);
    group_in = floordiv(d[at::c], N(p.groups));
    group_out = floordiv(d[at::o], N(p.groups));
    // 0 for one tap, else 1.
    const N taps = max(N(0), min(one, d[at::kh] * d[at::kw] - one));
    height = one + taps * (d[at::oh] - one);
    width = d[at::ow] * (one + (one - taps) * (d[at::oh] - one));
    sum_rows = max(one, min(group_out, N(kIntegerTileRows)));
    const N pixels = floordiv(N(kTilePixels * kIntegerTileRows), sum_rows);
    const N widest = pixels - taps * (pixels - N(kTileWidth));
    tiles_across = max(one, ceildiv(width, widest));
    tile_width = max(one, ceildiv(width, tiles_across));
    tiles_down = max(one, ceildiv(height, max(one, floordiv(pixels, tile_width))));
    tile_height = max(one, ceildiv(height, tiles_down));
    channel_blocks = ceildiv(group_out, N(kTileChannels));
    unit_groups = max(one, floordiv(N(kTileChannels), max(one, group_out)));
    group_blocks = ceildiv(N(p.groups), unit_groups);
    // An empty result has no units.
    const N some = min(one, d[at::oh] * d[at::ow]);
    units = d[at::n] * group_blocks * tiles_down * tiles_across * channel_blocks * some;
  }
};

// Groups of four products of a sum.
template <class N>
N groups_of(bool by_taps, const N& channels, const N& kernel_h, const N& kernel_w) {
  return by_taps ? channels * kernel_h * ceildiv(kernel_w, N(kGroupBytes))
                 : ceildiv(channels, N(kGroupBytes)) * kernel_h * kernel_w;
}
// Whether a sum takes fewer groups of four if they are taps of a row instead of channels.
inline bool reads_by_taps(std::int64_t channels, std::int64_t kernel_h, std::int64_t kernel_w) {
  return groups_of(true, channels, kernel_h, kernel_w) <
         groups_of(false, channels, kernel_h, kernel_w);
}

// The copy of a part of the image for a tile of this size, and the sums of four bytes it is read
// by.
template <class N>
struct ConvImage {
  bool by_taps;
  N rows, pitch;  // of a phase, in groups of four bytes
  N lines;        // phases times channels, or groups of them
  N groups;       // of four bytes, of a sum
  N columns;      // sums of a tile, and unused ones at the ends of its rows
  N plane;        // bytes of a channel that a phase reads, with what its last taps reach

  ConvImage(const problems::Conv2dProblem& p, bool in_taps, const N& channels, const N& kernel_h,
            const N& kernel_w, const N& tile_height, const N& tile_width)
      : by_taps(in_taps) {
    const TapPhases y(p.stride[0], p.dilation[0]), x(p.stride[1], p.dilation[1]);
    const N one(1), four(kGroupBytes), panel(kPanelColumns);
    rows = tile_height + floordiv((kernel_h - one) * N(y.dilation), N(y.stride));
    const N reach = (kernel_w - one) * N(x.dilation);
    pitch = tile_width + floordiv(reach, N(x.stride));
    const N rows_apart = min(kernel_h, N(y.period));
    groups = groups_of(in_taps, channels, kernel_h, kernel_w);
    lines = in_taps ? channels * rows_apart * ceildiv(kernel_w, four)
                    : ceildiv(channels, four) * rows_apart * min(kernel_w, N(x.period));
    columns = ceildiv((tile_height - one) * pitch + tile_width, panel) * panel;
    plane = rows * pitch * N(x.stride) + reach;
  }
  N bytes() const { return lines * rows * pitch * N(kGroupBytes); }
};

}  // namespace gex::kernels
