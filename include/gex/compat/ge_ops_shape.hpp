#pragma once
// Ops of GE that take sizes, axes or places as tensors. The values must be known when the graph is
// built: constants, Shape() of a tensor, and arithmetic, slices and concatenations of them; sizes
// that are determined at run time stay symbolic.

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/compat/ge_ops.hpp"

namespace ge::es {

namespace detail {

inline std::string TextOf(const gex::es::Size& size) {
  const gex_size c = size.c();
  return c.expression == nullptr ? std::to_string(c.number) : c.expression;
}
inline bool IsNumber(const gex::es::Size& size) { return size.c().expression == nullptr; }
inline gex::es::Size Combine(const gex::es::Size& a, const char* sign, const gex::es::Size& b) {
  const std::int64_t x = a.c().number, y = b.c().number;
  if (IsNumber(a) && IsNumber(b) && *sign != '/')
    return *sign == '+' ? x + y : *sign == '-' ? x - y : x * y;
  return "(" + TextOf(a) + ")" + sign + "(" + TextOf(b) + ")";
}

inline Sizes SizesOfValue(const std::string& op, const EsTensorHolder& tensor);

// Elementwise; a list of one size is broadcast.
inline Sizes Combine(const Sizes& a, const char* sign, const Sizes& b) {
  Sizes sizes;
  const std::size_t count = a.size() == 1 ? b.size() : a.size();
  for (std::size_t k = 0; k < count; ++k)
    sizes.push_back(Combine(a.at(a.size() == 1 ? 0 : k), sign, b.at(b.size() == 1 ? 0 : k)));
  return sizes;
}

inline Sizes SizesOfConstant(const std::string& op, const EsTensorHolder& tensor) {
  const gex::es::Tensor value = gex::es::ConstantOf(tensor);
  Sizes sizes;
  if (value.dtype() == gex::es::DType::i32)
    for (std::int32_t size : value.ToVector<std::int32_t>()) sizes.emplace_back(size);
  else if (value.dtype() == gex::es::DType::i64)
    for (std::int64_t size : value.ToVector<std::int64_t>()) sizes.emplace_back(size);
  else
    throw gex::es::Error(GEX_TYPE_MISMATCH, op + " takes integers, got " + tensor.type());
  return sizes;
}

inline Sizes SizesOfNode(const std::string& op, const EsTensorHolder& tensor) {
  const std::string kind = gex::es::OpOf(tensor);
  const std::vector<EsTensorHolder> operands =
      kind.empty() ? std::vector<EsTensorHolder>() : gex::es::OperandsOf(tensor);
  const auto operand = [&](std::size_t k) { return SizesOfValue(op, operands.at(k)); };
  if (kind == "dim") return {gex::es::Size(gex::es::AttrOf(tensor, "size"))};
  if (kind == "cast" || kind == "reshape") return operand(0);
  if (kind == "add") return Combine(operand(0), "+", operand(1));
  if (kind == "sub") return Combine(operand(0), "-", operand(1));
  if (kind == "mul") return Combine(operand(0), "*", operand(1));
  if (kind == "floor_div") return Combine(operand(0), "//", operand(1));
  if (kind == "cat") {
    Sizes sizes;
    for (std::size_t k = 0; k < operands.size(); ++k)
      for (const gex::es::Size& size : operand(k)) sizes.push_back(size);
    return sizes;
  }
  if (kind == "slice") {
    const Sizes all = operand(0);
    const std::int64_t start = gex::es::IntegersOf(tensor, "starts").at(0);
    const std::int64_t step = gex::es::IntegersOf(tensor, "steps").at(0);
    const std::int64_t count = gex::es::IntegersOf(tensor, "sizes").at(0);
    Sizes sizes;
    for (std::int64_t k = 0; k < count; ++k)
      sizes.push_back(all.at(static_cast<std::size_t>(start + k * step)));
    return sizes;
  }
  throw gex::es::Error(GEX_UNSUPPORTED,
                       op + ": " + tensor.name() + " is computed by " +
                           (kind.empty() ? "no op" : "'" + kind + "'") +
                           "; give constants, Shape() of a tensor, or sums, products, slices and "
                           "concatenations of them");
}

// The integers of a list, whose values may be sizes determined at run time.
inline Sizes SizesOfValue(const std::string& op, const EsTensorHolder& tensor) {
  if (tensor.rank() > 1)
    throw gex::es::Error(GEX_SHAPE_MISMATCH,
                         op + " takes a list of integers, got " + tensor.type());
  return gex::es::IsConstant(tensor) ? SizesOfConstant(op, tensor) : SizesOfNode(op, tensor);
}
// `like` has the graph in which numbers become constants.
inline Sizes SizesOf(const char* op, const EsTensorLike& list, const EsTensorHolder& like) {
  return SizesOfValue(op, list.In(gex::es::detail::Access::BuildingOf(like), gex::es::DType::i64));
}
inline Axes NumbersOf(const char* op, const EsTensorLike& list, const EsTensorHolder& like) {
  Axes numbers;
  for (const gex::es::Size& size : SizesOf(op, list, like)) {
    if (!IsNumber(size))
      throw gex::es::Error(GEX_UNSUPPORTED, std::string(op) + " takes numbers, got the size " +
                                                TextOf(size) + ", which is known at run time");
    numbers.push_back(size.c().number);
  }
  return numbers;
}
inline Axes AxesIn(const char* op, const EsTensorHolder& x, const EsTensorLike& axes) {
  return AxesOf(x, NumbersOf(op, axes, x));
}
inline gex::es::Size NumberOfElements(const Sizes& sizes) {
  gex::es::Size product = 1;
  for (const gex::es::Size& size : sizes) product = Combine(product, "*", size);
  return product;
}
// One size may be -1, derived from the others, or 0, which keeps that of x.
inline Sizes Completed(const EsTensorHolder& x, Sizes shape) {
  const Sizes from = x.sizes();
  gex::es::Size others = 1;
  std::size_t derived = shape.size();
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (IsNumber(shape[k]) && shape[k].c().number == -1) {
      if (derived != shape.size())
        throw gex::es::Error(GEX_SHAPE_MISMATCH, "Reshape: only one size can be -1");
      derived = k;
      continue;
    }
    others = Combine(others, "*", shape[k]);
  }
  if (derived == shape.size()) return shape;
  const gex::es::Size all = NumberOfElements(from);
  if (IsNumber(all) && IsNumber(others)) {
    if (others.c().number == 0 || all.c().number % others.c().number != 0)
      throw gex::es::Error(GEX_SHAPE_MISMATCH, "Reshape: " + x.type() + " has no whole number of " +
                                                   std::to_string(others.c().number) + " elements");
    shape[derived] = all.c().number / others.c().number;
  } else {
    shape[derived] = Combine(all, "//", others);
  }
  return shape;
}
// Sizes as a tensor of GE: i32 unless another type is asked for.
inline EsTensorHolder Tensorised(const EsTensorHolder& like, const Sizes& sizes, DataType type) {
  const gex::es::detail::BuildingPtr& building = gex::es::detail::Access::BuildingOf(like);
  std::vector<EsTensorLike> parts;
  for (const gex::es::Size& size : sizes) {
    const EsTensorHolder one =
        gex::es::detail::AddNode(building, "dim", {}, {{"size", size}}, 1)[0];
    parts.emplace_back(gex::es::Reshape(one, {gex::es::Size(1)}));
  }
  const EsTensorHolder list =
      parts.empty() ? gex::es::detail::AddConstant(
                          building, gex::es::Tensor::Of<std::int64_t>({0}, {}), gex::es::DType::i64)
                    : gex::es::Cat(parts);
  return gex::es::Cast(list, ToDType(type));
}

// Exact types, so that these functions are chosen before gex's own of the same name.
template <class T>
inline constexpr bool kIsList =
    std::is_same_v<T, EsTensorHolder> || std::is_same_v<T, EsTensorLike> ||
    std::is_same_v<T, Axes> || std::is_same_v<T, std::vector<std::int32_t>>;
template <class T>
using IfList = std::enable_if_t<kIsList<T>, int>;

}  // namespace detail

// --- sizes ---------------------------------------------------------------------------------------

inline EsTensorHolder Shape(const EsTensorHolder& x, DataType dtype = DT_INT32) {
  return detail::Tensorised(x, x.sizes(), dtype);
}
inline EsTensorHolder Rank(const EsTensorHolder& x) {
  return gex::es::detail::AddConstant(
      gex::es::detail::Access::BuildingOf(x),
      gex::es::Tensor::Of<std::int64_t>({}, {static_cast<std::int64_t>(x.rank())}),
      gex::es::DType::i32);
}
inline EsTensorHolder Size(const EsTensorHolder& x, DataType dtype = DT_INT32) {
  return gex::es::Reshape(detail::Tensorised(x, {detail::NumberOfElements(x.sizes())}, dtype),
                          detail::Sizes());
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder Reshape(const EsTensorHolder& x, const T& shape, std::int64_t axis = 0,
                       std::int64_t num_axes = -1) {
  if (axis != 0 || num_axes != -1)
    throw gex::es::Error(GEX_UNSUPPORTED, "Reshape: axis and num_axes are not supported");
  return gex::es::Reshape(x, detail::Completed(x, detail::SizesOf("Reshape", shape, x)));
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder Transpose(const EsTensorHolder& x, const T& perm) {
  return gex::es::Transpose(x, detail::NumbersOf("Transpose", perm, x));
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder BroadcastTo(const EsTensorHolder& x, const T& shape) {
  return gex::es::Expand(x, detail::SizesOf("BroadcastTo", shape, x));
}
inline EsTensorHolder Fill(const EsTensorLike& dims, const EsTensorHolder& value) {
  return gex::es::Expand(gex::es::Reshape(value, detail::Sizes()),
                         detail::SizesOf("Fill", dims, value));
}
// Whole numbers from start up to limit, by constants.
inline EsTensorHolder Range(const EsTensorHolder& start, const EsTensorLike& limit,
                            const EsTensorLike& delta) {
  const gex::es::Size first = detail::SizesOf("Range", start, start).at(0),
                      last = detail::SizesOf("Range", limit, start).at(0);
  const std::int64_t step = detail::NumbersOf("Range", delta, start).at(0);
  if (step != 1)
    throw gex::es::Error(GEX_UNSUPPORTED,
                         "Range: delta is " + std::to_string(step) + "; only 1 is supported");
  const auto& building = gex::es::detail::Access::BuildingOf(start);
  const EsTensorHolder places = gex::es::detail::AddNode(
      building, "iota", {}, {{"size", detail::Combine(last, "-", first)}}, 1)[0];
  return gex::es::Add(gex::es::Cast(places, start.dtype()), start);
}

// --- parts ---------------------------------------------------------------------------------------

// A size of -1: up to the end.
inline EsTensorHolder Slice(const EsTensorHolder& x, const EsTensorLike& offsets,
                            const EsTensorLike& size) {
  const detail::Sizes starts = detail::SizesOf("Slice", offsets, x), all = x.sizes();
  detail::Sizes sizes = detail::SizesOf("Slice", size, x);
  if (starts.size() != all.size() || sizes.size() != all.size())
    throw gex::es::Error(GEX_SHAPE_MISMATCH,
                         "Slice: one offset and one size for each axis of " + x.type());
  for (std::size_t k = 0; k < sizes.size(); ++k)
    if (detail::IsNumber(sizes[k]) && sizes[k].c().number == -1)
      sizes[k] = detail::Combine(all[k], "-", starts[k]);
  return gex::es::Slice(x, starts, Axes(x.rank(), 1), sizes);
}
// Bit k of a mask is for axis k: `begin_mask` and `end_mask` ignore begin or end there,
// `shrink_axis_mask` selects one index and removes the axis.
inline EsTensorHolder StridedSlice(const EsTensorHolder& x, const EsTensorLike& begin,
                                   const EsTensorLike& end, const EsTensorLike& strides,
                                   std::int64_t begin_mask = 0, std::int64_t end_mask = 0,
                                   std::int64_t ellipsis_mask = 0, std::int64_t new_axis_mask = 0,
                                   std::int64_t shrink_axis_mask = 0) {
  if (ellipsis_mask != 0 || new_axis_mask != 0)
    throw gex::es::Error(GEX_UNSUPPORTED,
                         "StridedSlice: ellipsis_mask and new_axis_mask are not supported");
  const detail::Sizes all = x.sizes();
  const Axes first = detail::NumbersOf("StridedSlice", begin, x),
             last = detail::NumbersOf("StridedSlice", end, x),
             steps = detail::NumbersOf("StridedSlice", strides, x);
  detail::Sizes starts, sizes, kept;
  Axes by;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const bool given = k < first.size();
    const auto is_set = [&](std::int64_t mask) { return given && ((mask >> k) & 1) != 0; };
    const std::int64_t step = given ? steps.at(k) : 1;
    if (step <= 0) throw gex::es::Error(GEX_UNSUPPORTED, "StridedSlice: strides are positive");
    const auto place = [&](std::int64_t at) {
      return at < 0 ? detail::Combine(all[k], "-", -at) : gex::es::Size(at);
    };
    gex::es::Size from = given && !is_set(begin_mask) ? place(first[k]) : gex::es::Size(0);
    gex::es::Size to = given && !is_set(end_mask) ? place(last.at(k)) : all[k];
    if (detail::IsNumber(all[k]) && detail::IsNumber(to))
      to = std::min(to.c().number, all[k].c().number);
    if (is_set(shrink_axis_mask)) to = detail::Combine(from, "+", 1);
    const gex::es::Size span = detail::Combine(to, "-", from);
    starts.push_back(from);
    by.push_back(step);
    if (step == 1)
      sizes.push_back(span);
    else if (detail::IsNumber(span))
      sizes.emplace_back((span.c().number + step - 1) / step);
    else
      sizes.push_back(detail::Combine(detail::Combine(span, "+", step - 1), "//", step));
    if (!is_set(shrink_axis_mask)) kept.push_back(sizes.back());
  }
  const EsTensorHolder part = gex::es::Slice(x, starts, by, sizes);
  return kept.size() == all.size() ? part : gex::es::Reshape(part, kept);
}
inline std::vector<EsTensorHolder> SplitV(const EsTensorHolder& x, const EsTensorLike& size_splits,
                                          const EsTensorLike& split_dim, std::int64_t num_split,
                                          std::int64_t y_num = 0) {
  const detail::Sizes sizes = detail::SizesOf("SplitV", size_splits, x);
  if (static_cast<std::int64_t>(sizes.size()) != num_split || (y_num != 0 && y_num != num_split))
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "SplitV: " + std::to_string(sizes.size()) +
                                                   " sizes, num_split is " +
                                                   std::to_string(num_split));
  const auto axis =
      static_cast<std::size_t>(detail::AxisOf(x, detail::NumbersOf("SplitV", split_dim, x).at(0)));
  std::vector<EsTensorHolder> parts;
  detail::Sizes starts(x.rank(), 0), all = x.sizes();
  for (const gex::es::Size& size : sizes) {
    all[axis] = size;
    parts.push_back(gex::es::Slice(x, starts, Axes(x.rank(), 1), all));
    starts[axis] = detail::Combine(starts[axis], "+", size);
  }
  return parts;
}
inline std::vector<EsTensorHolder> SplitVD(const EsTensorHolder& x, const Axes& size_splits,
                                           std::int64_t split_dim, std::int64_t num_split) {
  return SplitV(x, size_splits, split_dim, num_split);
}
// The axis as a tensor.
inline EsTensorHolder ConcatV2(const std::vector<EsTensorHolder>& x,
                               const EsTensorHolder& concat_dim, std::int64_t N = 0) {
  return Concat(concat_dim, x, N);
}
inline EsTensorHolder Tile(const EsTensorHolder& x, const EsTensorLike& multiples) {
  const detail::Sizes times = detail::SizesOf("Tile", multiples, x), sizes = x.sizes();
  if (times.size() != sizes.size())
    throw gex::es::Error(GEX_SHAPE_MISMATCH, "Tile: one multiple for each axis of " + x.type());
  detail::Sizes apart, spread, joined;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    apart.emplace_back(1);
    apart.push_back(sizes[k]);
    spread.push_back(times[k]);
    spread.push_back(sizes[k]);
    joined.push_back(detail::Combine(times[k], "*", sizes[k]));
  }
  return gex::es::Reshape(gex::es::Expand(gex::es::Reshape(x, apart), spread), joined);
}
inline EsTensorHolder TileD(const EsTensorHolder& x, const Axes& multiples) {
  return Tile(x, multiples);
}
// [rank, 2]: numbers before and after each axis.
inline EsTensorHolder Pad(const EsTensorHolder& x, const EsTensorHolder& paddings) {
  const EsTensorHolder list =
      gex::es::Reshape(paddings, {gex::es::Size(static_cast<std::int64_t>(2 * x.rank()))});
  const detail::Sizes numbers = gex::es::IsConstant(paddings)
                                    ? detail::SizesOfConstant("Pad", paddings)
                                    : detail::SizesOfValue("Pad", list);
  detail::Sizes low, high;
  for (std::size_t k = 0; k + 1 < numbers.size(); k += 2) {
    low.push_back(numbers[k]);
    high.push_back(numbers[k + 1]);
  }
  return gex::es::Pad(x, low, high);
}

// --- reductions, gathers -------------------------------------------------------------------------

template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceSum(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceSum(x, detail::AxesIn("ReduceSum", x, axes), keep_dims);
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceMean(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceMean(x, detail::AxesIn("ReduceMean", x, axes), keep_dims);
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceMax(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceMax(x, detail::AxesIn("ReduceMax", x, axes), keep_dims);
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceMin(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceMin(x, detail::AxesIn("ReduceMin", x, axes), keep_dims);
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceProd(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceProd(x, detail::AxesIn("ReduceProd", x, axes), keep_dims);
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceAll(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceAll(x, detail::AxesIn("ReduceAll", x, axes), keep_dims);
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder ReduceAny(const EsTensorHolder& x, const T& axes, bool keep_dims = false) {
  return gex::es::ReduceAny(x, detail::AxesIn("ReduceAny", x, axes), keep_dims);
}
inline EsTensorHolder ArgMaxV2(const EsTensorHolder& x, const EsTensorLike& dimension,
                               DataType dtype = DT_INT64) {
  return gex::es::Cast(gex::es::Argmax(x, detail::AxesIn("ArgMaxV2", x, dimension)),
                       ToDType(dtype));
}
inline EsTensorHolder ArgMin(const EsTensorHolder& x, const EsTensorLike& dimension,
                             DataType dtype = DT_INT64) {
  return gex::es::Cast(gex::es::Argmin(x, detail::AxesIn("ArgMin", x, dimension)), ToDType(dtype));
}
template <class T, detail::IfList<T> = 0>
EsTensorHolder Cumsum(const EsTensorHolder& x, const T& axis, bool exclusive = false,
                      bool reverse = false) {
  const Axes axes = detail::AxesIn("Cumsum", x, axis);
  const EsTensorHolder y = reverse ? gex::es::Flip(x, axes) : x;
  const EsTensorHolder sums = gex::es::Cumsum(y, axes.at(0));
  const EsTensorHolder before = exclusive ? gex::es::Sub(sums, y) : sums;
  return reverse ? gex::es::Flip(before, axes) : before;
}
inline TopKOutput TopKV2(const EsTensorHolder& x, const EsTensorLike& k, bool sorted = true,
                         std::int64_t dim = -1, bool largest = true,
                         std::int64_t indices_dtype = DT_INT32) {
  const auto [values, indices] = gex::es::Topk(x, detail::SizesOf("TopKV2", k, x).at(0),
                                               detail::AxisOf(x, dim), largest, sorted);
  return {values, gex::es::Cast(indices, ToDType(static_cast<DataType>(indices_dtype)))};
}
inline TopKOutput TopK(const EsTensorHolder& x, const EsTensorLike& k, bool sorted = true,
                       bool largest = true, std::int64_t dim = -1) {
  return TopKV2(x, k, sorted, dim, largest);
}
inline EsTensorHolder GatherV2(const EsTensorHolder& x, const EsTensorLike& indices,
                               const EsTensorLike& axis, std::int64_t batch_dims = 0) {
  if (batch_dims != 0)
    throw gex::es::Error(GEX_UNSUPPORTED, "GatherV2: batch_dims is not supported");
  return GatherV2D(x, indices, detail::NumbersOf("GatherV2", axis, x).at(0));
}
// Each row of the indices (their last axis) is a position on the first axes of x.
inline EsTensorHolder GatherNd(const EsTensorHolder& x, const EsTensorHolder& indices) {
  const std::int64_t count = indices.shape().at(indices.rank() - 1);
  std::vector<EsTensorLike> places;
  Axes axes;
  for (std::int64_t k = 0; k < count; ++k) {
    places.emplace_back(Squeeze(SplitD(indices, -1, count)[static_cast<std::size_t>(k)], {-1}));
    axes.push_back(k);
  }
  return gex::es::Index(x, places, axes);
}
inline EsTensorHolder ScatterElements(const EsTensorHolder& data, const EsTensorLike& indices,
                                      const EsTensorLike& updates, std::int64_t axis = 0,
                                      const char* reduction = "none") {
  const std::string how = reduction;
  return gex::es::Scatter(data, indices, updates, detail::AxisOf(data, axis),
                          how == "none" ? "set" : how);
}
// 1 (on) at the index on the new axis, which comes last unless it is given.
inline EsTensorHolder OneHot(const EsTensorHolder& x, const EsTensorLike& depth,
                             const EsTensorHolder& on_value, const EsTensorHolder& off_value,
                             std::int64_t axis = -1) {
  const auto& building = gex::es::detail::Access::BuildingOf(x);
  const EsTensorHolder places = gex::es::detail::AddNode(
      building, "iota", {}, {{"size", detail::SizesOf("OneHot", depth, x).at(0)}}, 1)[0];
  const auto rank = static_cast<std::int64_t>(x.rank());
  const std::int64_t at = axis < 0 ? axis + rank + 1 : axis;
  detail::Sizes beside(static_cast<std::size_t>(rank) + 1, 1);
  beside.at(static_cast<std::size_t>(at)) = places.sizes()[0];
  return gex::es::Where(
      gex::es::Eq(ExpandDims(x, at), gex::es::Reshape(gex::es::Cast(places, x.dtype()), beside)),
      on_value, off_value);
}
inline EsTensorHolder MaskedFill(const EsTensorHolder& x, const EsTensorHolder& mask,
                                 const EsTensorLike& value) {
  return gex::es::Where(mask, value, x);
}
inline EsTensorHolder Triu(const EsTensorHolder& x, std::int64_t diagonal = 0) {
  return gex::es::Triangle(x, diagonal, true);
}
inline EsTensorHolder Tril(const EsTensorHolder& x, std::int64_t diagonal = 0) {
  return gex::es::Triangle(x, diagonal, false);
}
inline EsTensorHolder ReverseV2(const EsTensorHolder& x, const EsTensorLike& axis) {
  return gex::es::Flip(x, detail::AxesIn("ReverseV2", x, axis));
}

}  // namespace ge::es
