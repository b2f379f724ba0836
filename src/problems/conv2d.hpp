#pragma once
// 2-d convolution, its gradients, and 1-d convolution with height 1. A bias is part of the
// epilogue.
//
// Convolution. Buffers: [X, W, Y], or with an epilogue [X, W, extra...]; then the inputs of X's
// prologue. The epilogue's grid is the dense [N, O, OH, OW].
//
// With steps `up` it is a transposed convolution: result (y, x) sums the pixels (v, u) and the taps
// (i, j) for which v*up[0] + i = y + pad[0] and u*up[1] + j = x + pad[1]. Strides and dilations are
// then 1 and there is one group.
//
// Gradient of the weights. w is the dtype of the output gradient G, y that of the weight gradient.
// Buffers: [X, G, dW]; the dims have the strides of dW in place of W's and those of G in place of
// Y's.
//
// Gradient of the input. x is the dtype of the input gradient, y that of the output gradient.
// Buffers: [G, W, dX]; the dims have the strides of dX in place of X's and those of G, whose
// columns are adjacent, in place of Y's. Only for strides of 2, dilations of 1 and square 3x3 or
// 5x5 kernels.

#include <array>
#include <cstdint>

#include "base/dtype.hpp"

namespace gex::problems {

// Positions in the dims of a launch. Strides count elements.
namespace conv2d_dims {
enum : int {
  n,
  c,
  h,
  w,
  o,
  oh,
  ow,
  kh,
  kw,
  x_strides,                  // n, c, h, w
  w_strides = x_strides + 4,  // o, c/groups, kh, kw
  y_strides = w_strides + 4,  // n, o, oh, ow; ignored with an epilogue
  count = y_strides + 4,      // the dims of the epilogue follow
};
}

struct Conv2dProblem {
  DType x = DType::f32;
  DType w = DType::f32;  // as a and b of matmul.hpp
  DType y = DType::f32;  // f32, f16, bf16; f64 or f32 for f64; i32; ignored with an epilogue
  std::array<std::int64_t, 2> stride = {1, 1};  // height, width
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::array<std::int64_t, 2> pad = {0, 0};  // before the first row and column; the padding after
                                             // the last follows from the output's size
  std::int64_t border = 0;                   // value of the padding, of integers alone
  std::array<std::int64_t, 2> up = {1, 1};
  std::int64_t groups = 1;
  bool w_packed = false;    // W is in the layout of the target's pack function
  bool winograd = false;    // and transformed for Winograd's algorithm
  bool x_computed = false;  // by a prologue, as f32 or f64; then X's rows are dense

  bool operator==(const Conv2dProblem&) const = default;
};

// The results of one axis of a transposed convolution at start, start + up, ...: they read the taps
// first_tap, first_tap + up, ... at neighbouring pixels, the q-th of them from pixel q + shift
// down.
struct UpPhase {
  std::int64_t first_tap, taps, shift;
};
[[gnu::always_inline]] constexpr UpPhase up_phase(std::int64_t start, std::int64_t up,
                                                  std::int64_t pad, std::int64_t kernel) {
  const std::int64_t tap = (start + pad) % up;
  return {tap, tap < kernel ? (kernel - tap + up - 1) / up : 0, (start + pad) / up};
}
// The pixels that the q-th results of all phases read: q + first ... q + last.
struct UpReach {
  std::int64_t first, last;
};
[[gnu::always_inline]] constexpr UpReach up_reach(std::int64_t up, std::int64_t pad,
                                                  std::int64_t kernel) {
  UpReach reach = {pad / up, pad / up};
  for (std::int64_t start = 0; start < up; ++start) {
    const UpPhase p = up_phase(start, up, pad, kernel);
    const std::int64_t first = p.shift - (p.taps > 0 ? p.taps - 1 : 0);
    if (first < reach.first) reach.first = first;
    if (p.shift > reach.last) reach.last = p.shift;
  }
  return reach;
}

// Limits of the kernel for transposed convolutions: phases, products of a sum, and pixels that one
// result of each phase reads in all channels.
inline constexpr std::int64_t kMostUpPhases = 64;
inline constexpr std::int64_t kMostUpDepth = 5120;
inline constexpr std::int64_t kMostUpPixels = 96 * 1024;
[[gnu::always_inline]] constexpr bool has_up_kernel(std::int64_t channels, std::int64_t kernel_h,
                                                    std::int64_t kernel_w,
                                                    const std::int64_t (&up)[2],
                                                    const std::int64_t (&pad)[2]) {
  if (channels < 1 || kernel_h < 1 || kernel_w < 1 || up[0] < 1 || up[1] < 1) return false;
  if (up[0] > kMostUpPhases || up[1] > kMostUpPhases || up[0] * up[1] > kMostUpPhases) return false;
  const std::int64_t taps = ((kernel_h + up[0] - 1) / up[0]) * ((kernel_w + up[1] - 1) / up[1]);
  const UpReach y = up_reach(up[0], pad[0], kernel_h), x = up_reach(up[1], pad[1], kernel_w);
  const std::int64_t pixels = (y.last - y.first + 1) * (x.last - x.first + 1);
  return taps <= kMostUpDepth / channels && pixels <= kMostUpPixels / channels;
}

struct Conv2dWeightGradProblem {
  Conv2dProblem conv;
  bool operator==(const Conv2dWeightGradProblem&) const = default;
};

struct Conv2dInputGradProblem {
  Conv2dProblem conv;
  bool operator==(const Conv2dInputGradProblem&) const = default;
};

}  // namespace gex::problems
