#pragma once
// Ops under GE's names. Those of gex's own ops with the same name (gex/es/ops.hpp) are listed here
// so that es::Add finds them too.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gex/compat/ge.hpp"
#include "gex/es.hpp"
#include "gex/pass.hpp"

namespace ge::es {

using gex::es::EsTensorLike;
using Axes = std::vector<std::int64_t>;

namespace detail {

using Sizes = gex::es::Shape;  // ge::Shape is another class

inline Axes AxesOf(const EsTensorHolder& x, Axes axes) {
  const auto rank = static_cast<std::int64_t>(x.rank());
  if (axes.empty())
    for (std::int64_t k = 0; k < rank; ++k) axes.push_back(k);
  for (std::int64_t& axis : axes) {
    if (axis < -rank || axis >= rank)
      throw gex::es::Error(GEX_SHAPE_MISMATCH,
                           "axis " + std::to_string(axis) + " of " + x.type() + " is out of range");
    if (axis < 0) axis += rank;
  }
  return axes;
}
inline std::int64_t AxisOf(const EsTensorHolder& x, std::int64_t axis) {
  return AxesOf(x, {axis})[0];
}
inline bool IsAbsent(const EsTensorLike& x) { return x.holder().empty() && !x.is_constant(); }
inline EsTensorHolder Turned(const char* op, const EsTensorHolder& x, bool turn) {
  const std::size_t rank = x.rank();
  if (rank < 2)
    throw gex::es::Error(GEX_SHAPE_MISMATCH, std::string(op) + " takes matrices, got " + x.type());
  if (!turn) return x;
  Axes perm = AxesOf(x, {});
  std::swap(perm[rank - 2], perm[rank - 1]);
  return gex::es::Transpose(x, perm);
}
// NCHW: two numbers are those of H and W, four those of all axes.
inline Axes OfPixels(const char* what, const Axes& values) {
  if (values.size() == 2) return values;
  if (values.size() == 4) return {values[2], values[3]};
  throw gex::es::Error(GEX_INVALID_ARGUMENT, std::string(what) + " has " +
                                                 std::to_string(values.size()) +
                                                 " numbers; expected 2 (H, W) or 4 (N, C, H, W)");
}
// Of the sizes of axes first to last.
inline gex::es::Size Product(const Sizes& sizes, std::int64_t first, std::int64_t last) {
  std::string expression = "1";
  for (std::int64_t k = first; k <= last; ++k) {
    const gex_size size = sizes[static_cast<std::size_t>(k)].c();
    const bool is_number = size.expression == nullptr;
    expression += "*(" + (is_number ? std::to_string(size.number) : size.expression) + ")";
  }
  return expression;
}
// The value of a constant of one integer.
inline std::int64_t Number(const char* op, const EsTensorHolder& x) {
  const gex::es::Tensor value = gex::es::ConstantOf(x);
  if (value.size() == 1 && value.dtype() == gex::es::DType::i32)
    return value.ToVector<std::int32_t>()[0];
  if (value.size() == 1 && value.dtype() == gex::es::DType::i64)
    return value.ToVector<std::int64_t>()[0];
  throw gex::es::Error(GEX_TYPE_MISMATCH,
                       std::string(op) + ": the axis is one i32 or i64, got " + x.type());
}
inline EsTensorHolder Full(const EsTensorHolder& like, double value) {
  return gex::es::Add(gex::es::Mul(like, 0.0), value);
}

}  // namespace detail

// The same names in both.
using gex::es::Abs;
using gex::es::Acos;
using gex::es::Add;
using gex::es::Asin;
using gex::es::Atan;
using gex::es::Ceil;
using gex::es::Cos;
using gex::es::Cosh;
using gex::es::Div;
using gex::es::Elu;
using gex::es::Erf;
using gex::es::Exp;
using gex::es::Expm1;
using gex::es::Floor;
using gex::es::FloorDiv;
using gex::es::Gelu;
using gex::es::LeakyRelu;
using gex::es::Log;
using gex::es::Log1p;
using gex::es::Maximum;
using gex::es::Minimum;
using gex::es::Mish;
using gex::es::Mod;
using gex::es::Mul;
using gex::es::Neg;
using gex::es::Pow;
using gex::es::Reciprocal;
using gex::es::Relu;
using gex::es::Reshape;
using gex::es::Round;
using gex::es::Rsqrt;
using gex::es::Sigmoid;
using gex::es::Sign;
using gex::es::Silu;
using gex::es::Sin;
using gex::es::Sinh;
using gex::es::Softplus;
using gex::es::Sqrt;
using gex::es::Sub;
using gex::es::Tan;
using gex::es::Tanh;
using gex::es::Transpose;
using gex::es::Trunc;

// A constant in a pattern that matches any constant, unless values of constants are matched.
inline EsTensorHolder Const(EsGraphBuilder& builder) { return builder.CreateScalar(0.0f); }

// --- matmul, conv --------------------------------------------------------------------------------

// x1 @ x2 + bias, for matrices that may be transposed.
inline EsTensorHolder MatMul(const EsTensorHolder& x1, const EsTensorHolder& x2,
                             const EsTensorLike& bias = nullptr, bool transpose_x1 = false,
                             bool transpose_x2 = false) {
  for (const EsTensorHolder* x : {&x1, &x2})
    if (x->rank() != 2)
      throw gex::es::Error(GEX_SHAPE_MISMATCH, "MatMul takes matrices, got " + x->type());
  const EsTensorHolder product = gex::es::Matmul(detail::Turned("MatMul", x1, transpose_x1),
                                                 detail::Turned("MatMul", x2, transpose_x2));
  return detail::IsAbsent(bias) ? product : gex::es::Add(product, bias);
}
inline EsTensorHolder MatMulV2(const EsTensorHolder& x1, const EsTensorHolder& x2,
                               const EsTensorLike& bias = nullptr, bool transpose_x1 = false,
                               bool transpose_x2 = false) {
  return MatMul(x1, x2, bias, transpose_x1, transpose_x2);
}
inline EsTensorHolder BatchMatMul(const EsTensorHolder& x1, const EsTensorHolder& x2,
                                  bool adj_x1 = false, bool adj_x2 = false) {
  return gex::es::Matmul(detail::Turned("BatchMatMul", x1, adj_x1),
                         detail::Turned("BatchMatMul", x2, adj_x2));
}
inline EsTensorHolder BatchMatMulV2(const EsTensorHolder& x1, const EsTensorHolder& x2,
                                    const EsTensorLike& bias = nullptr, bool adj_x1 = false,
                                    bool adj_x2 = false) {
  const EsTensorHolder product = BatchMatMul(x1, x2, adj_x1, adj_x2);
  return detail::IsAbsent(bias) ? product : gex::es::Add(product, bias);
}
// NCHW. Pads are those of the top, bottom, left and right.
inline EsTensorHolder Conv2D(const EsTensorHolder& x, const EsTensorHolder& filter,
                             const EsTensorLike& bias, const Axes& strides, const Axes& pads,
                             const Axes& dilations = {1, 1, 1, 1}, std::int64_t groups = 1) {
  if (pads.size() != 4 || pads[0] != pads[1] || pads[2] != pads[3])
    throw gex::es::Error(GEX_UNSUPPORTED,
                         "Conv2D: pads are (top, bottom, left, right), equal on both sides; for "
                         "others put PadD before it");
  const EsTensorHolder y =
      gex::es::Conv2d(x, filter, detail::OfPixels("Conv2D: strides", strides), {pads[0], pads[2]},
                      detail::OfPixels("Conv2D: dilations", dilations), groups);
  if (detail::IsAbsent(bias)) return y;
  return gex::es::Add(y, gex::es::Reshape(bias, {bias.holder().sizes().at(0), 1, 1}));
}
// GE's full list of parameters: the offset is that of quantised products, which are not supported.
inline EsTensorHolder Conv2D(const EsTensorHolder& x, const EsTensorHolder& filter,
                             const EsTensorLike& bias, const EsTensorLike& offset_w,
                             const Axes& strides, const Axes& pads,
                             const Axes& dilations = {1, 1, 1, 1}, std::int64_t groups = 1,
                             const char* data_format = "NCHW") {
  if (!detail::IsAbsent(offset_w))
    throw gex::es::Error(GEX_UNSUPPORTED, "Conv2D: offset_w is not supported; pass nullptr");
  if (std::string(data_format) != "NCHW")
    throw gex::es::Error(GEX_UNSUPPORTED, std::string("Conv2D: data_format is ") + data_format +
                                              "; only NCHW is supported");
  return Conv2D(x, filter, bias, strides, pads, dilations, groups);
}
// alpha * a @ b + beta * c, as one node until composite ops are expanded.
inline EsTensorHolder GEMM(const EsTensorHolder& a, const EsTensorHolder& b,
                           const EsTensorHolder& c, const EsTensorLike& alpha,
                           const EsTensorLike& beta, bool transpose_a = false,
                           bool transpose_b = false) {
  static const bool registered = [] {
    gex::es::RegisterOp(
        "ge.gemm", "alpha * a @ b + beta * c", {"a", "b", "c", "alpha", "beta"},
        [](gex::es::EsGraphBuilder&, const std::vector<EsTensorHolder>& x) {
          return std::vector<EsTensorHolder>{gex::es::Add(
              gex::es::Mul(gex::es::Matmul(x[0], x[1]), x[3]), gex::es::Mul(x[2], x[4]))};
        });
    return true;
  }();
  (void)registered;
  return gex::es::detail::Op("ge.gemm",
                             {detail::Turned("GEMM", a, transpose_a),
                              detail::Turned("GEMM", b, transpose_b), c, alpha, beta},
                             {}, 1, true)[0];
}
inline EsTensorHolder BiasAdd(const EsTensorHolder& x, const EsTensorHolder& bias) {
  if (x.rank() <= 2) return gex::es::Add(x, bias);
  detail::Sizes shape(x.rank() - 1, 1);
  shape[0] = bias.sizes()[0];
  return gex::es::Add(x, gex::es::Reshape(bias, shape));
}

// --- one element at a time -----------------------------------------------------------------------

inline EsTensorHolder RealDiv(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Div(x1, x2);
}
inline EsTensorHolder FloorMod(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Mod(x1, x2);
}
inline EsTensorHolder Equal(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Eq(x1, x2);
}
inline EsTensorHolder NotEqual(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Ne(x1, x2);
}
inline EsTensorHolder Greater(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Gt(x1, x2);
}
inline EsTensorHolder GreaterEqual(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Ge(x1, x2);
}
inline EsTensorHolder Less(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Lt(x1, x2);
}
inline EsTensorHolder LessEqual(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::Le(x1, x2);
}
inline EsTensorHolder LogicalAnd(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::BitAnd(x1, x2);
}
inline EsTensorHolder LogicalOr(const EsTensorLike& x1, const EsTensorLike& x2) {
  return gex::es::BitOr(x1, x2);
}
inline EsTensorHolder LogicalNot(const EsTensorLike& x) { return gex::es::BitNot(x); }
inline EsTensorHolder Select(const EsTensorLike& condition, const EsTensorLike& x1,
                             const EsTensorLike& x2) {
  return gex::es::Where(condition, x1, x2);
}
inline EsTensorHolder SelectV2(const EsTensorLike& condition, const EsTensorLike& then,
                               const EsTensorLike& other) {
  return gex::es::Where(condition, then, other);
}
inline EsTensorHolder Square(const EsTensorHolder& x) { return gex::es::Mul(x, x); }
inline EsTensorHolder SquaredDifference(const EsTensorLike& x1, const EsTensorLike& x2) {
  return Square(gex::es::Sub(x1, x2));
}
inline EsTensorHolder Inv(const EsTensorLike& x) { return gex::es::Reciprocal(x); }
inline EsTensorHolder Rint(const EsTensorLike& x) { return gex::es::Round(x); }
inline EsTensorHolder Adds(const EsTensorHolder& x, double value) { return gex::es::Add(x, value); }
inline EsTensorHolder Muls(const EsTensorHolder& x, double value) { return gex::es::Mul(x, value); }
// (shift + scale * x) ^ power
inline EsTensorHolder Power(const EsTensorHolder& x, double power = 1, double scale = 1,
                            double shift = 0) {
  return gex::es::Pow(gex::es::Add(gex::es::Mul(x, scale), shift), power);
}
inline EsTensorHolder AddN(const std::vector<EsTensorHolder>& x) {
  if (x.empty()) throw gex::es::Error(GEX_INVALID_ARGUMENT, "AddN takes at least one tensor");
  EsTensorHolder sum = x[0];
  for (std::size_t k = 1; k < x.size(); ++k) sum = gex::es::Add(sum, x[k]);
  return sum;
}
inline EsTensorHolder ClipByValue(const EsTensorLike& x, const EsTensorLike& low,
                                  const EsTensorLike& high) {
  return gex::es::Minimum(gex::es::Maximum(x, low), high);
}
inline EsTensorHolder Relu6(const EsTensorLike& x) { return ClipByValue(x, 0.0, 6.0); }
inline EsTensorHolder PRelu(const EsTensorHolder& x, const EsTensorLike& weight) {
  return gex::es::Where(gex::es::Gt(x, 0.0), x, gex::es::Mul(x, weight));
}
inline EsTensorHolder Swish(const EsTensorHolder& x, double scale = 1) {
  return scale == 1 ? gex::es::Silu(x) : gex::es::Mul(x, gex::es::Sigmoid(gex::es::Mul(x, scale)));
}
inline EsTensorHolder HardSwish(const EsTensorLike& x) { return gex::es::Hardswish(x); }
inline EsTensorHolder HardSigmoid(const EsTensorLike& x) { return gex::es::Hardsigmoid(x); }
inline EsTensorHolder FastGelu(const EsTensorHolder& x) {
  return gex::es::Mul(x, gex::es::Sigmoid(gex::es::Mul(x, 1.702)));
}
inline EsTensorHolder Identity(const EsTensorHolder& x) { return x; }
inline EsTensorHolder ZerosLike(const EsTensorHolder& x) { return detail::Full(x, 0); }
inline EsTensorHolder OnesLike(const EsTensorHolder& x) { return detail::Full(x, 1); }
inline EsTensorHolder Cast(const EsTensorLike& x, DataType dst_type) {
  return gex::es::Cast(x, ToDType(dst_type));
}

// --- reductions: no axes means all axes ----------------------------------------------------------

inline EsTensorHolder ReduceSumD(const EsTensorHolder& x, const Axes& axes,
                                 bool keep_dims = false) {
  return gex::es::ReduceSum(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ReduceMeanD(const EsTensorHolder& x, const Axes& axes,
                                  bool keep_dims = false) {
  return gex::es::ReduceMean(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ReduceMaxD(const EsTensorHolder& x, const Axes& axes,
                                 bool keep_dims = false) {
  return gex::es::ReduceMax(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ReduceMinD(const EsTensorHolder& x, const Axes& axes,
                                 bool keep_dims = false) {
  return gex::es::ReduceMin(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ReduceProdD(const EsTensorHolder& x, const Axes& axes,
                                  bool keep_dims = false) {
  return gex::es::ReduceProd(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ReduceAnyD(const EsTensorHolder& x, const Axes& axes,
                                 bool keep_dims = false) {
  return gex::es::ReduceAny(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ReduceAllD(const EsTensorHolder& x, const Axes& axes,
                                 bool keep_dims = false) {
  return gex::es::ReduceAll(x, detail::AxesOf(x, axes), keep_dims);
}
inline EsTensorHolder ArgMaxD(const EsTensorHolder& x, std::int64_t dimension) {
  return gex::es::Argmax(x, {detail::AxisOf(x, dimension)});
}
inline EsTensorHolder ArgMinD(const EsTensorHolder& x, std::int64_t dimension) {
  return gex::es::Argmin(x, {detail::AxisOf(x, dimension)});
}
inline EsTensorHolder CumsumD(const EsTensorHolder& x, std::int64_t axis) {
  return gex::es::Cumsum(x, detail::AxisOf(x, axis));
}
inline EsTensorHolder SoftmaxV2(const EsTensorHolder& x, const Axes& axes = {-1}) {
  if (axes.size() != 1) throw gex::es::Error(GEX_UNSUPPORTED, "SoftmaxV2 takes one axis");
  return gex::es::Softmax(x, detail::AxisOf(x, axes[0]));
}
inline EsTensorHolder LogSoftmaxV2(const EsTensorHolder& x, const Axes& axes = {-1}) {
  if (axes.size() != 1) throw gex::es::Error(GEX_UNSUPPORTED, "LogSoftmaxV2 takes one axis");
  return gex::es::LogSoftmax(x, detail::AxisOf(x, axes[0]));
}
struct TopKOutput {
  EsTensorHolder values, indices;
};
inline TopKOutput TopKD(const EsTensorHolder& x, std::int64_t k, bool sorted = true,
                        std::int64_t dim = -1, bool largest = true) {
  const auto [values, indices] = gex::es::Topk(x, k, detail::AxisOf(x, dim), largest, sorted);
  return {values, indices};
}

// --- shapes --------------------------------------------------------------------------------------

// N is the number of inputs; 0: derived from the list.
inline EsTensorHolder ConcatV2(const std::vector<EsTensorLike>& x, std::int64_t concat_dim,
                               std::int64_t N = 0) {
  if (N != 0 && N != static_cast<std::int64_t>(x.size()))
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "ConcatV2: N is " + std::to_string(N) + ", given " +
                                                   std::to_string(x.size()) + " tensors");
  return gex::es::Cat(x, concat_dim);
}
inline EsTensorHolder ConcatD(const std::vector<EsTensorLike>& x, std::int64_t concat_dim,
                              std::int64_t N = 0) {
  return ConcatV2(x, concat_dim, N);
}
inline std::vector<EsTensorHolder> Split(std::int64_t split_dim, const EsTensorHolder& x,
                                         std::int64_t num_split) {
  return gex::es::Split(x, num_split, split_dim);
}
// The axis as a constant; the number of outputs is given twice in GE.
inline std::vector<EsTensorHolder> Split(const EsTensorHolder& split_dim, const EsTensorHolder& x,
                                         std::int64_t num_split, std::int64_t y_num) {
  if (y_num != num_split)
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "Split: num_split is " + std::to_string(num_split) +
                                                   ", but " + std::to_string(y_num) +
                                                   " outputs are asked for");
  return gex::es::Split(x, num_split, detail::AxisOf(x, detail::Number("Split", split_dim)));
}
inline EsTensorHolder Concat(const EsTensorHolder& concat_dim, const std::vector<EsTensorHolder>& x,
                             std::int64_t N = 0) {
  return ConcatV2(std::vector<EsTensorLike>(x.begin(), x.end()),
                  detail::Number("Concat", concat_dim), N);
}
inline std::vector<EsTensorHolder> SplitD(const EsTensorHolder& x, std::int64_t split_dim,
                                          std::int64_t num_split) {
  return gex::es::Split(x, num_split, detail::AxisOf(x, split_dim));
}
inline EsTensorHolder TransposeD(const EsTensorHolder& x, const Axes& perm) {
  return gex::es::Transpose(x, perm);
}
inline EsTensorHolder Permute(const EsTensorHolder& x, const Axes& order) {
  return gex::es::Transpose(x, order);
}
// Axes of the result, as in GE.
inline EsTensorHolder Unsqueeze(const EsTensorHolder& x, const Axes& axes) {
  detail::Sizes shape = x.sizes();
  const auto rank = static_cast<std::int64_t>(x.rank() + axes.size());
  for (std::int64_t axis : axes) {
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at > static_cast<std::int64_t>(shape.size()))
      throw gex::es::Error(GEX_SHAPE_MISMATCH,
                           "Unsqueeze: axis " + std::to_string(axis) + " of " + x.type());
    shape.insert(shape.begin() + at, gex::es::Size(1));
  }
  return gex::es::Reshape(x, shape);
}
inline EsTensorHolder ExpandDims(const EsTensorHolder& x, std::int64_t axis) {
  return Unsqueeze(x, {axis});
}
// No axes means all axes of size 1.
inline EsTensorHolder Squeeze(const EsTensorHolder& x, const Axes& axes = {}) {
  const std::vector<std::int64_t> known = x.shape();
  const detail::Sizes sizes = x.sizes();
  std::vector<bool> drop(known.size());
  if (axes.empty())
    for (std::size_t k = 0; k < known.size(); ++k) drop[k] = known[k] == 1;
  else
    for (std::int64_t axis : detail::AxesOf(x, axes)) {
      if (known[static_cast<std::size_t>(axis)] != 1)
        throw gex::es::Error(GEX_SHAPE_MISMATCH, "Squeeze: axis " + std::to_string(axis) + " of " +
                                                     x.type() + " is not 1");
      drop[static_cast<std::size_t>(axis)] = true;
    }
  detail::Sizes shape;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    if (!drop[k]) shape.push_back(sizes[k]);
  return gex::es::Reshape(x, shape);
}
inline EsTensorHolder FlattenV2(const EsTensorHolder& x, std::int64_t axis = 1,
                                std::int64_t end_axis = -1) {
  const std::int64_t first = detail::AxisOf(x, axis), last = detail::AxisOf(x, end_axis);
  const detail::Sizes sizes = x.sizes();
  detail::Sizes shape(sizes.begin(), sizes.begin() + first);
  shape.push_back(detail::Product(sizes, first, last));
  shape.insert(shape.end(), sizes.begin() + last + 1, sizes.end());
  return gex::es::Reshape(x, shape);
}
inline EsTensorHolder Flatten(const EsTensorHolder& x, std::int64_t axis = 1) {
  return FlattenV2(x, axis);
}
inline EsTensorHolder BroadcastToD(const EsTensorHolder& x, const detail::Sizes& shape) {
  return gex::es::Expand(x, shape);
}
inline EsTensorHolder Pack(const std::vector<EsTensorHolder>& x, std::int64_t axis = 0) {
  std::vector<EsTensorLike> parts;
  for (const EsTensorHolder& part : x) parts.emplace_back(ExpandDims(part, axis));
  return gex::es::Cat(parts,
                      axis < 0 ? axis + static_cast<std::int64_t>(x.at(0).rank()) + 1 : axis);
}
inline std::vector<EsTensorHolder> Unpack(const EsTensorHolder& x, std::int64_t num,
                                          std::int64_t axis = 0) {
  std::vector<EsTensorHolder> parts;
  for (const EsTensorHolder& part : SplitD(x, axis, num))
    parts.push_back(Squeeze(part, {detail::AxisOf(x, axis)}));
  return parts;
}
inline EsTensorHolder GatherV2D(const EsTensorHolder& x, const EsTensorLike& indices,
                                std::int64_t axis = 0) {
  return gex::es::Index(x, {indices}, {detail::AxisOf(x, axis)});
}
inline EsTensorHolder Gather(const EsTensorHolder& x, const EsTensorLike& indices) {
  return GatherV2D(x, indices, 0);
}
inline EsTensorHolder GatherElements(const EsTensorHolder& x, const EsTensorLike& index,
                                     std::int64_t dim = 0) {
  return gex::es::TakeAlong(x, index, detail::AxisOf(x, dim));
}
inline EsTensorHolder SliceD(const EsTensorHolder& x, const detail::Sizes& offsets,
                             const detail::Sizes& size) {
  return gex::es::Slice(x, offsets, Axes(x.rank(), 1), size);
}
// Two numbers for each axis: before and after.
inline EsTensorHolder PadD(const EsTensorHolder& x, const std::vector<Axes>& paddings) {
  detail::Sizes low, high;
  for (const Axes& padding : paddings) {
    if (padding.size() != 2)
      throw gex::es::Error(GEX_INVALID_ARGUMENT, "PadD: two numbers for each axis");
    low.emplace_back(padding[0]);
    high.emplace_back(padding[1]);
  }
  return gex::es::Pad(x, low, high);
}

}  // namespace ge::es
