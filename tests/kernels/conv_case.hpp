#pragma once
// A convolution test case: shared by forward and gradient tests.

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/conv2d.hpp"
#include "support.hpp"

namespace gex::test {

struct ConvCase {
  kernels::Conv2dProblem problem;
  i64 n = 1, c, h, w, o, kh, kw;
  std::array<i64, 2> pad_after = {-1, -1};  // -1: equal to the padding before the first
  std::vector<int> x_order = {0, 1, 2, 3}, w_order = {0, 1, 2, 3}, y_order = {0, 1, 2, 3};

  i64 out_size(int axis) const {
    const i64 in = axis ? w : h, kernel = axis ? kw : kh;
    const i64 after = pad_after[axis] < 0 ? problem.pad[axis] : pad_after[axis];
    if (is_transposed()) return (in - 1) * problem.up[axis] + kernel - problem.pad[axis] - after;
    return (in + problem.pad[axis] + after - problem.dilation[axis] * (kernel - 1) - 1) /
               problem.stride[axis] +
           1;
  }

  bool is_transposed() const { return problem.up[0] > 1 || problem.up[1] > 1; }

  std::vector<i64> x_sizes() const { return {n, c, h, w}; }
  std::vector<i64> w_sizes() const { return {o, c / problem.groups, kh, kw}; }
  std::vector<i64> y_sizes() const { return {n, o, out_size(0), out_size(1)}; }

  // As kernels take them.
  std::vector<i64> dims(const std::vector<i64>& xs, const std::vector<i64>& ws,
                        const std::vector<i64>& ys) const {
    std::vector<i64> dims = {n, c, h, w, o, out_size(0), out_size(1), kh, kw};
    for (const auto* strides : {&xs, &ws, &ys})
      dims.insert(dims.end(), strides->begin(), strides->end());
    return dims;
  }

  // The pixel that a tap reads for a result; none in the border.
  std::optional<std::pair<i64, i64>> pixel(i64 y, i64 x, i64 ky, i64 kx) const {
    i64 iy = y * problem.stride[0] - problem.pad[0] + ky * problem.dilation[0];
    i64 ix = x * problem.stride[1] - problem.pad[1] + kx * problem.dilation[1];
    if (is_transposed()) {
      iy = y + problem.pad[0] - ky, ix = x + problem.pad[1] - kx;
      if (iy % problem.up[0] != 0 || ix % problem.up[1] != 0) return std::nullopt;
      iy /= problem.up[0], ix /= problem.up[1];
    }
    if (iy < 0 || iy >= h || ix < 0 || ix >= w) return std::nullopt;
    return std::pair(iy, ix);
  }

  // For sums of products whose magnitudes add up to `magnitude`.
  double tolerance(double value, double magnitude) const {
    const double sums = problem.x == DType::f64 ? 1e-14 : 3e-6;
    const double subnormal = problem.y == DType::f16 ? 0x1p-25 : 0;  // half of their distance
    return magnitude * sums + std::fabs(value) * unit_of(problem.y) + subnormal;
  }
};

// Rows shorter and longer than vectors of any width, with borders up to beyond the kernel.
inline std::vector<ConvCase> single_channels_with_few_taps() {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  std::vector<ConvCase> cases;
  for (const i64 taps : {3, 5})
    for (const i64 stride : {1, 2})
      for (const i64 width : {1, 7, 14, 16, 17, 33})
        for (const i64 pad : {0, 1, 6}) {
          if (width + 2 * pad < taps) continue;
          const DType d = dtypes[cases.size() % 4];
          cases.push_back({.problem = {.x = d,
                                       .w = d,
                                       .y = d,
                                       .stride = {stride, stride},
                                       .pad = {pad, pad},
                                       .groups = 3},
                           .n = 2,
                           .c = 3,
                           .h = 6,
                           .w = width,
                           .o = cases.size() % 2 ? 3 : 6,
                           .kh = taps,
                           .kw = taps});
        }
  return cases;
}

inline i64 place(const std::vector<i64>& strides, i64 a, i64 b, i64 c, i64 d) {
  return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
}

struct Sum {
  double value = 0, magnitude = 0;
  void add(double product) {
    value += product;
    magnitude += std::fabs(product);
  }
};

}  // namespace gex::test
