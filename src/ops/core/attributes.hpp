#pragma once
// Attribute structs used by more than their own op (builders, passes, importers). Others are in the
// file of their definition.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "ir/attrs.hpp"
#include "ir/type.hpp"

namespace gex::ops {

using Ints = std::vector<std::int64_t>;
using Dims = std::vector<Dim>;

struct Cast {
  DType dtype = DType::f32;
  static constexpr auto fields() { return std::tuple{field("dtype", &Cast::dtype)}; }
};

// reduce_*, argmax, argmin: axes are non-negative and ascending.
struct Reduce {
  Ints axes;
  bool keepdim = false;
  static constexpr auto fields() {
    return std::tuple{field("axes", &Reduce::axes), field("keepdim", &Reduce::keepdim)};
  }
};

struct Variance {
  Ints axes;
  bool keepdim = false;
  double correction = 1;
  static constexpr auto fields() {
    return std::tuple{field("axes", &Variance::axes), field("keepdim", &Variance::keepdim),
                      field("correction", &Variance::correction)};
  }
};

// reshape, expand: the result's shape.
struct ToShape {
  Dims shape;
  static constexpr auto fields() { return std::tuple{field("shape", &ToShape::shape)}; }
};

// out axis i is in axis perm[i].
struct Transpose {
  Ints perm;
  static constexpr auto fields() { return std::tuple{field("perm", &Transpose::perm)}; }
};

// out[i...] = in[starts + i*steps...]; one entry per axis; every index must be in range.
struct Slice {
  Dims starts;
  Ints steps;
  Dims sizes;
  static constexpr auto fields() {
    return std::tuple{field("starts", &Slice::starts), field("steps", &Slice::steps),
                      field("sizes", &Slice::sizes)};
  }
};

// flip, softmax over several axes.
struct Axes {
  Ints axes;
  static constexpr auto fields() { return std::tuple{field("axes", &Axes::axes)}; }
};

struct Roll {
  Ints axes;
  Dims starts;  // the element of each of these axes that comes first
  static constexpr auto fields() {
    return std::tuple{field("axes", &Roll::axes), field("starts", &Roll::starts)};
  }
};

// cat, softmax, cumsum, take_along.
struct Axis {
  std::int64_t axis = 0;
  static constexpr auto fields() { return std::tuple{field("axis", &Axis::axis)}; }
};

// Negative amounts crop.
struct Pad {
  Dims low;
  Dims high;
  double value = 0;
  static constexpr auto fields() {
    return std::tuple{field("low", &Pad::low), field("high", &Pad::high),
                      field("value", &Pad::value)};
  }
};

struct Full {
  DType dtype = DType::f32;
  double value = 0;
  Dims shape;
  static constexpr auto fields() {
    return std::tuple{field("dtype", &Full::dtype), field("value", &Full::value),
                      field("shape", &Full::shape)};
  }
};

struct Constant {
  TensorPtr value = std::make_shared<const HostTensor>();
  static constexpr auto fields() { return std::tuple{field("value", &Constant::value)}; }
};

// iota: 0, 1, ..., size-1.   dim: the size itself, as a 0-d tensor.
struct OneDim {
  Dim size;
  static constexpr auto fields() { return std::tuple{field("size", &OneDim::size)}; }
};

// `wide`: the result stays in the compute type (f32 for f16 and bf16) instead of being rounded to
// the operands' dtype, so that a bias or residual is added before the only rounding.
struct Matmul {
  bool wide = false;
  static constexpr auto fields() { return std::tuple{field("wide", &Matmul::wide)}; }
};

// Padding is equal on both sides; unequal sides need a separate pad.
struct Conv {
  Ints stride{1, 1};
  Ints padding{0, 0};
  Ints dilation{1, 1};
  std::int64_t groups = 1;
  bool wide = false;
  static constexpr auto fields() {
    return std::tuple{field("stride", &Conv::stride), field("padding", &Conv::padding),
                      field("dilation", &Conv::dilation), field("groups", &Conv::groups),
                      field("wide", &Conv::wide)};
  }
};

struct Attention {
  bool causal = false;
  double scale = 1;
  bool nan_if_fully_masked = false;  // a query that sees no key: NaN, as in softmax, not zeros
  static constexpr auto fields() {
    return std::tuple{field("causal", &Attention::causal), field("scale", &Attention::scale),
                      field("nan_if_fully_masked", &Attention::nan_if_fully_masked)};
  }
};

// layer_norm: the last `rank` axes are normalised, by the deviation as a divisor if `divide`, else
// by its reciprocal as a factor: they round differently. rms_norm likewise.
struct Norm {
  std::int64_t rank = 1;
  double eps = 1e-5;
  bool divide = false;
  static constexpr auto fields() {
    return std::tuple{field("rank", &Norm::rank), field("eps", &Norm::eps),
                      field("divide", &Norm::divide)};
  }
};

struct BatchNorm {
  double eps = 1e-5;
  static constexpr auto fields() { return std::tuple{field("eps", &BatchNorm::eps)}; }
};

// index: index tensor k addresses axis axes[k] of the input.
struct Index {
  Ints axes;
  static constexpr auto fields() { return std::tuple{field("axes", &Index::axes)}; }
};

// index_put. mode: set, add, mul, max or min.
struct IndexPut {
  Ints axes;
  std::string mode = "set";
  static constexpr auto fields() {
    return std::tuple{field("axes", &IndexPut::axes), field("mode", &IndexPut::mode)};
  }
};

// scatter along an axis (torch.scatter).
struct Scatter {
  std::int64_t axis = 0;
  std::string mode = "set";
  static constexpr auto fields() {
    return std::tuple{field("axis", &Scatter::axis), field("mode", &Scatter::mode)};
  }
};

// slice_update: the position of the source in input 0.
struct SliceUpdate {
  Dims starts;
  Ints steps;
  static constexpr auto fields() {
    return std::tuple{field("starts", &SliceUpdate::starts), field("steps", &SliceUpdate::steps)};
  }
};

}  // namespace gex::ops
