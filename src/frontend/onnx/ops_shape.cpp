// Constants, sizes and views.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/strings.hpp"
#include "frontend/onnx/views.hpp"

namespace gex::onnx {

Value* dims_tensor(Graph& g, const Dims& dims) {
  std::vector<Value*> parts;
  Ints numbers;
  for (const Dim d : dims) {
    if (!d.is_const()) break;
    numbers.push_back(d.constant());
  }
  if (numbers.size() == dims.size())
    return ops::constant(g,
                         HostTensor::of_i64({static_cast<std::int64_t>(numbers.size())}, numbers));
  for (const Dim d : dims) parts.push_back(ops::reshape(g, ops::dim_value(g, d), {1}));
  return parts.size() == 1 ? parts[0] : ops::cat(g, parts, 0);
}

Value* nonnegative(Graph& g, Value* indices, Dim size) {
  Expr i = Expr(g, indices).to(DType::i64);
  return where(i < 0, i + Expr(g, ops::dim_value(g, size)), i);
}

Dims resolved_shape(const Row& r, const Dims& wanted, const Shape& from, bool allow_zero) {
  Dims shape = wanted;
  Dim rest(1);
  std::optional<std::size_t> open;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == Dim(0) && !allow_zero) {
      if (d >= from.size()) r.refuse(str("size 0 at axis ", d, " has no input size to copy"));
      shape[d] = from[d];
    }
    if (shape[d] == Dim(-1)) {
      if (open) r.refuse("more than one size is -1");
      open = d;
    } else {
      rest *= shape[d];
    }
  }
  if (open) {
    // Equal sizes on both sides cancel, so that no unneeded symbolic division remains.
    std::vector<Dim> numerator(from.begin(), from.end());
    Dim left(1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d == *open) continue;
      const auto same = std::ranges::find(numerator, shape[d]);
      if (!shape[d].is_const() && same != numerator.end())
        numerator.erase(same);
      else
        left *= shape[d];
    }
    if (left == Dim(0)) r.refuse("size -1 together with a size of 0");
    shape[*open] = floordiv(product(numerator), left);
  }
  return shape;
}

namespace {

Items constant_row(Row& r) {
  if (r.has_attr("value")) {
    HostTensor value = r.tensor_attr("value");  // rejects an attribute of another type
    return {r.state.constant(std::move(value), r.find("value")->tensor->elem)};
  }
  if (const auto* a = r.find("sparse_value"); a != nullptr && a->sparse)
    return {r.state.constant(tensor_of(&r.state.model, *a->sparse), a->sparse->values.elem)};
  if (r.has_attr("value_int"))
    return {r.state.constant(HostTensor::of_i64({}, std::vector{r.int_attr("value_int", 0)}),
                             Elem::i64)};
  if (r.has_attr("value_float"))
    return {r.state.constant(HostTensor::scalar(DType::f32, r.float_attr("value_float", 0)),
                             Elem::f32)};
  if (r.has_attr("value_ints")) {
    const Ints values = r.ints_attr("value_ints");
    return {r.state.constant(HostTensor::of_i64({static_cast<std::int64_t>(values.size())}, values),
                             Elem::i64)};
  }
  if (r.has_attr("value_floats")) {
    const auto values = r.floats_attr("value_floats");
    const std::vector<float> floats(values.begin(), values.end());
    return {r.state.constant(HostTensor::of({static_cast<std::int64_t>(floats.size())}, floats),
                             Elem::f32)};
  }
  if (r.has_attr("value_string"))
    return {r.state.constant(
        HostTensor::of_i64({}, std::vector{string_number(r.string_attr("value_string", ""))}),
        Elem::string)};
  if (r.has_attr("value_strings")) {
    Ints numbers;
    for (const std::string& text : r.strings_attr("value_strings"))
      numbers.push_back(string_number(text));
    return {r.state.constant(
        HostTensor::of_i64({static_cast<std::int64_t>(numbers.size())}, numbers), Elem::string)};
  }
  r.refuse("it has no value");
}

Items constant_of_shape(Row& r) {
  const Dims shape = r.dims(0, "sizes");
  Elem elem = Elem::f32;
  HostTensor value = HostTensor::scalar(DType::f32, 0);
  if (r.has_attr("value")) {
    value = r.tensor_attr("value");
    elem = r.find("value")->tensor->elem;
  }
  Value* one = ops::constant(r.g, std::move(value));
  return r.one(ops::expand(r.g, ops::reshape(r.g, one, {}), shape), elem);
}

Items shape_row(Row& r) {
  const Shape& shape = r.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  std::int64_t start = r.int_attr("start", 0), end = r.int_attr("end", rank);
  start = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<std::int64_t>(end < 0 ? end + rank : end, start, rank);
  return r.one(dims_tensor(r.g, Dims(shape.begin() + start, shape.begin() + end)), Elem::i64);
}

Items size_row(Row& r) { return r.one(ops::dim_value(r.g, product(r.shape())), Elem::i64); }

Items reshape_row(Row& r) {
  Dims wanted;
  if (r.opset < 5) {
    for (const std::int64_t d : r.ints_attr("shape")) wanted.emplace_back(d);
  } else {
    wanted = r.dims(1, "sizes of the result");
  }
  const Dims shape = resolved_shape(r, wanted, r.shape(), r.int_attr("allowzero", 0) != 0);
  return r.one(ops::reshape(r.g, r.in(0), shape));
}

Items flatten(Row& r) {
  const std::int64_t axis = r.int_attr("axis", 1);
  const Shape& s = r.shape();
  const auto at = static_cast<std::ptrdiff_t>(axis < 0 ? axis + r.rank() : axis);
  if (at < 0 || at > r.rank())
    r.refuse(str("axis ", axis, " of a tensor with ", r.rank(), " axes"));
  const Shape before(s.begin(), s.begin() + at), after(s.begin() + at, s.end());
  return r.one(ops::reshape(r.g, r.in(0), {product(before), product(after)}));
}

Ints axes_of(Row& r, int rank) {
  Ints axes = r.opset >= 13 && r.has(1) ? r.integers(1, "axes") : r.ints_attr("axes");
  for (std::int64_t& axis : axes) axis = normal_axis(axis, rank);
  return axes;
}

Items squeeze_row(Row& r) {
  const bool given = r.has(1) || r.has_attr("axes");
  const Ints axes = given ? axes_of(r, r.rank()) : Ints{};
  Shape shape;
  for (int d = 0; d < r.rank(); ++d) {
    const Dim size = r.shape()[static_cast<std::size_t>(d)];
    const bool drop = given ? std::ranges::find(axes, d) != axes.end() : size == Dim(1);
    if (!drop) shape.push_back(size);
  }
  return r.one(ops::reshape(r.g, r.in(0), shape));
}

Items unsqueeze_row(Row& r) {
  const std::size_t added =
      r.has(1) && r.opset >= 13 ? r.integers(1, "axes").size() : r.ints_attr("axes").size();
  const int rank = r.rank() + static_cast<int>(added);
  Ints axes = axes_of(r, rank);
  std::ranges::sort(axes);
  Shape shape = r.shape();
  for (const std::int64_t axis : axes) shape.insert(shape.begin() + axis, Dim(1));
  return r.one(ops::reshape(r.g, r.in(0), shape));
}

Items transpose_row(Row& r) {
  Ints perm = r.ints_attr("perm");
  if (!r.has_attr("perm"))
    for (int d = r.rank(); d-- > 0;) perm.push_back(d);
  return r.one(ops::transpose(r.g, r.in(0), perm));
}

Items concat(Row& r) {
  std::vector<Value*> parts;
  for (std::size_t i = 0; i < r.num_inputs(); ++i) parts.push_back(r.in(i));
  const std::int64_t axis = r.axis_attr("axis", r.opset < 4 ? 1 : 0, r.rank());
  return r.one(parts.size() == 1 ? parts[0] : ops::cat(r.g, parts, axis));
}

Items split(Row& r) {
  const std::int64_t axis = r.axis_attr("axis", 0, r.rank());
  const Dim size = r.shape()[static_cast<std::size_t>(axis)];
  Dims sizes;
  if (r.opset >= 13 && r.has(1)) {
    sizes = r.dims(1, "sizes of the parts");
  } else if (r.has_attr("split")) {
    for (const std::int64_t n : r.ints_attr("split")) sizes.emplace_back(n);
  } else {
    const auto parts = r.int_attr("num_outputs", static_cast<std::int64_t>(r.num_outputs()));
    const Dim each = ceildiv(size, parts);
    for (std::int64_t k = 0; k < parts; ++k)
      sizes.push_back(k + 1 < parts ? each : size - each * Dim(parts - 1));
  }
  Items parts;
  Dim at(0);
  for (const Dim n : sizes) {
    parts.push_back(Item::tensor(ops::slice(r.g, r.in(0), axis, at, n), r.elem()));
    at += n;
  }
  return parts;
}

// Where a slice begins, how many elements it has.
struct Span {
  Dim start, size;
};

Span span_of(const Row& r, Dim start, Dim end, std::int64_t step, Dim size) {
  // Exporters write such numbers for "to the end"; an axis of unknown size has fewer elements.
  constexpr std::int64_t kFar = 1'000'000'000;
  const auto clamped = [&](Dim at, Dim low, Dim high) {
    if (const auto n = at.as_const()) {
      if (*n >= kFar && !size.is_const()) return high;
      if (*n <= -kFar && !size.is_const()) return low;
      if (*n < 0) return max(size + at, low);
      return min(at, high);
    }
    if (known_lt(at, 0) == true) return max(size + at, low);
    if (provably_nonnegative(at)) return min(at, high);
    r.refuse(str("a slice from or to ", at, ", whose sign is not known"));
  };
  if (step > 0) {
    const Dim from = clamped(start, 0, size), to = clamped(end, 0, size);
    return {from, ceildiv(max(to - from, 0), step)};
  }
  // A backward slice begins inside the axis, also where NumPy's would be empty.
  const Dim from = min(clamped(start, 0, size - 1), size - 1), to = clamped(end, -1, size - 1);
  return {from, ceildiv(max(from - to, 0), -step)};
}

Items slice_row(Row& r) {
  Dims starts, ends;
  Ints axes, steps;
  if (r.opset < 10) {
    for (const std::int64_t n : r.ints_attr("starts")) starts.emplace_back(n);
    for (const std::int64_t n : r.ints_attr("ends")) ends.emplace_back(n);
    axes = r.ints_attr("axes");
  } else {
    starts = r.dims(1, "where the slice begins");
    ends = r.dims(2, "where the slice ends");
    if (r.has(3)) axes = r.integers(3, "axes");
    if (r.has(4)) steps = r.integers(4, "steps");
  }
  if (axes.empty())
    for (std::size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  steps.resize(starts.size(), 1);
  if (axes.size() != starts.size() || ends.size() != starts.size())
    r.refuse("starts, ends and axes have different lengths");
  Value* x = r.in(0);
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const std::int64_t axis = normal_axis(axes[k], r.rank());
    const Dim size = x->type().shape[static_cast<std::size_t>(axis)];
    if (steps[k] == 0) r.refuse("step 0");
    const Span span = span_of(r, starts[k], ends[k], steps[k], size);
    const std::int64_t step = steps[k];
    if (span.size == Dim(0)) {
      x = ops::slice(r.g, x, axis, 0, 0);
    } else if (step < 0) {
      // A negative step is a flip of a forward slice.
      const Dim first = span.start + (span.size - 1) * Dim(step);
      x = ops::flip(r.g, ops::slice(r.g, x, axis, first, span.size, -step), {axis});
    } else {
      x = ops::slice(r.g, x, axis, span.start, span.size, step);
    }
  }
  return r.one(x);
}

Items expand_row(Row& r) {
  const Dims wanted = r.dims(1, "sizes of the result");
  return r.one(ops::expand(r.g, r.in(0), broadcast_shapes(r.shape(), wanted, "Expand")));
}

Items tile(Row& r) {
  Dims repeats;
  if (r.opset < 6) {
    repeats = Dims(r.shape().size(), Dim(1));
    repeats[static_cast<std::size_t>(r.integer(2, "axis"))] = r.integer(1, "tiles");
  } else {
    repeats = r.dims(1, "repeats");
  }
  const Shape& s = r.shape();
  if (repeats.size() != s.size()) r.refuse("expected one number of repeats for each axis");
  Shape apart, spread, joined;
  for (std::size_t d = 0; d < s.size(); ++d) {
    apart.insert(apart.end(), {Dim(1), s[d]});
    spread.insert(spread.end(), {repeats[d], s[d]});
    joined.push_back(repeats[d] * s[d]);
  }
  if (std::ranges::find(joined, Dim(0)) != joined.end())
    return r.one(ops::full(r.g, r.dtype(), 0, joined));
  Value* x = ops::expand(r.g, ops::reshape(r.g, r.in(0), apart), spread);
  return r.one(ops::reshape(r.g, x, joined));
}

// The source of element i of a padded axis.
Expr source_place(Graph& g, const std::string& mode, Dim low, Dim size, Dim high) {
  Expr i = iota(g, low + size + high) - Expr(g, ops::dim_value(g, low));
  Expr n(g, ops::dim_value(g, size));
  if (mode == "edge") return max(min(i, n - 1), 0);
  if (mode == "wrap") return binary("mod", i, n);
  Expr last = max(n - 1, 1);  // reflect: forwards and backwards
  Expr m = binary("mod", i, last * 2.0);
  return where(m > n - 1, last * 2.0 - m, m);
}

}  // namespace

Value* padded(const Row& r, Value* x, const Dims& low, const Dims& high, const std::string& mode,
              Value* fill) {
  Graph& g = r.g;
  if (mode == "constant") {
    if (fill == nullptr) return ops::pad(g, x, low, high, 0);
    Value* inside = ops::pad(g, ops::full(g, DType::boolean, 1, x->type().shape), low, high, 0);
    return ops::where(g, inside, ops::pad(g, x, low, high, 0), ops::reshape(g, fill, {}));
  }
  for (std::size_t d = 0; d < low.size(); ++d) {
    if (low[d] == Dim(0) && high[d] == Dim(0)) continue;
    const auto axis = static_cast<std::int64_t>(d);
    x = ops::take(g, x, source_place(g, mode, low[d], x->type().shape[d], high[d]), axis);
  }
  return x;
}

namespace {

Items pad_row(Row& r) {
  const auto rank = static_cast<std::size_t>(r.rank());
  Dims pads;
  Value* fill = nullptr;
  if (r.opset < 11) {
    for (const std::int64_t n : r.ints_attr(r.opset < 2 ? "paddings" : "pads"))
      pads.emplace_back(n);
    fill = expr(r, 0).number(r.float_attr("value", 0));
  } else {
    pads = r.dims(1, "pads");
    if (r.has(2)) fill = r.in(2);
  }
  Ints axes;
  if (r.has(3))
    axes = r.integers(3, "axes");
  else
    for (std::size_t d = 0; d < rank; ++d) axes.push_back(static_cast<std::int64_t>(d));
  if (pads.size() != axes.size() * 2) r.refuse("expected two pads for each axis");
  Dims low(rank), high(rank);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<std::size_t>(normal_axis(axes[k], r.rank()));
    low[d] = pads[k];
    high[d] = pads[k + axes.size()];
  }
  return r.one(padded(r, r.in(0), low, high, r.string_attr("mode", "constant"), fill));
}

Items range_row(Row& r) {
  const Elem elem = r.elem();
  const bool whole =
      r.state.known_dims(r.in(0)) && r.state.known_dims(r.in(1)) && r.state.known_dims(r.in(2));
  if (!is_float(elem) || whole) {
    const Dims start = r.dims(0, "start"), limit = r.dims(1, "limit");
    const Dims step = r.dims(2, "delta");
    if (!step[0].is_const()) r.refuse("the sign of delta is not known");
    const std::int64_t delta = step[0].constant();
    if (delta == 0) r.refuse("delta is 0");
    const Dim count = delta > 0 ? max(ceildiv(limit[0] - start[0], delta), 0)
                                : max(ceildiv(start[0] - limit[0], -delta), 0);
    Expr k =
        iota(r.g, count) * static_cast<double>(delta) + Expr(r.g, ops::dim_value(r.g, start[0]));
    return r.one(k.to(r.dtype()), elem);
  }
  const double start = r.number(0, "start").get(0), limit = r.number(1, "limit").get(0);
  const double delta = r.number(2, "delta").get(0);
  const auto count = static_cast<std::int64_t>(std::max(0.0, std::ceil((limit - start) / delta)));
  HostTensor values(r.dtype(), {count});
  for (std::int64_t k = 0; k < count; ++k) values.set(k, start + static_cast<double>(k) * delta);
  return {r.state.constant(std::move(values), elem)};
}

Items eye_like(Row& r) {
  const auto elem = static_cast<Elem>(r.int_attr("dtype", static_cast<int>(r.elem())));
  const std::int64_t k = r.int_attr("k", 0);
  Expr row = unsqueeze(iota(r.g, r.shape()[0]), 1), column = iota(r.g, r.shape()[1]);
  return r.one((row + static_cast<double>(k) == column).to(storage_dtype(elem)), elem);
}

Items trilu(Row& r) {
  const bool upper = r.int_attr("upper", 1) != 0;
  Expr row = unsqueeze(iota(r.g, r.shape()[r.shape().size() - 2]), 1);
  Expr column = iota(r.g, r.shape().back());
  Expr k(r.g, r.has(1) ? ops::reshape(r.g, r.in(1), {}) : ops::scalar_int(r.g, DType::i64, 0));
  Expr kept = upper ? column - row >= k : column - row <= k;
  Expr x = expr(r, 0);
  Expr zero(r.g, ops::full(r.g, x.dtype(), 0, {}));
  return r.one(where(expand(kept, x.shape()), x, zero));
}

Items depth_to_space(Row& r) {
  const Dim b = r.int_attr("blocksize", 1);
  if (b.constant() < 1) r.refuse("blocksize is below 1");
  const Shape s = r.shape();
  const Dim c = floordiv(s[1], b * b);
  Expr x = expr(r, 0);
  if (r.string_attr("mode", "DCR") == "DCR")
    x = transpose(reshape(x, {s[0], b, b, c, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  else
    x = transpose(reshape(x, {s[0], c, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  return r.one(reshape(x, {s[0], c, s[2] * b, s[3] * b}));
}

Items space_to_depth(Row& r) {
  const Dim b = r.int_attr("blocksize", 1);
  if (b.constant() < 1) r.refuse("blocksize is below 1");
  const Shape s = r.shape();
  const Dim h = floordiv(s[2], b), w = floordiv(s[3], b);
  Expr x = reshape(expr(r, 0), {s[0], s[1], h, b, w, b});
  // The order of channels is that of DepthToSpace.
  const bool column_first = r.string_attr("mode", "DCR") == "CRD";
  x = column_first ? transpose(x, {0, 1, 3, 5, 2, 4}) : transpose(x, {0, 3, 5, 1, 2, 4});
  return r.one(reshape(x, {s[0], s[1] * b * b, h, w}));
}

Items center_crop_pad(Row& r) {
  const Dims wanted = r.dims(1, "sizes of the result");
  Ints axes = r.ints_attr("axes");
  if (wanted.size() != (r.has_attr("axes") ? axes.size() : r.shape().size()))
    r.refuse("expected one size for each axis");
  if (!r.has_attr("axes"))
    for (int d = 0; d < r.rank(); ++d) axes.push_back(d);
  Value* x = r.in(0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<std::size_t>(normal_axis(axes[k], r.rank()));
    const Dim size = x->type().shape[d];
    const Dim more = wanted[k] - size;
    if (known_le(more, 0) == true) {
      x = ops::slice(r.g, x, static_cast<std::int64_t>(d), floordiv(size - wanted[k], 2),
                     wanted[k]);
    } else {
      Dims low(static_cast<std::size_t>(r.rank())), high = low;
      // Whether it is cropped may not be known; half of the difference is rounded towards 0.
      low[d] = floordiv(gex::max(more, 0), 2) - floordiv(gex::max(-more, 0), 2);
      high[d] = more - low[d];
      x = ops::pad(r.g, x, low, high, 0);
    }
  }
  return r.one(x);
}

Items reverse_sequence(Row& r) {
  const std::int64_t time = r.int_attr("time_axis", 0), batch = r.int_attr("batch_axis", 1);
  const Shape s = r.shape();
  if (time < 0 || batch < 0 || time >= r.rank() || batch >= r.rank())
    r.refuse("an axis is out of range");
  Shape along_time(s.size(), Dim(1)), along_batch(s.size(), Dim(1));
  along_time[static_cast<std::size_t>(time)] = s[static_cast<std::size_t>(time)];
  along_batch[static_cast<std::size_t>(batch)] = s[static_cast<std::size_t>(batch)];
  Expr i = reshape(iota(r.g, s[static_cast<std::size_t>(time)]), along_time);
  Expr n = reshape(expr(r, 1), along_batch);
  Expr from = expand(where(i < n, n - i - 1, i), s);
  return r.one(ops::take_along(r.g, r.in(0), from, time));
}

Items identity(Row& r) { return {r.item(0)}; }

}  // namespace

void add_shape_rows() {
  add_row("Constant", constant_row);
  add_row("ConstantOfShape", constant_of_shape);
  add_row("Identity", identity);
  add_row("Shape", shape_row);
  add_row("Size", size_row);
  add_row("Reshape", reshape_row);
  add_row("Flatten", flatten);
  add_row("Squeeze", squeeze_row);
  add_row("Unsqueeze", unsqueeze_row);
  add_row("Transpose", transpose_row);
  add_row("Concat", concat);
  add_row("Split", split);
  add_row("Slice", slice_row);
  add_row("Expand", expand_row);
  add_row("Tile", tile);
  add_row("Pad", pad_row);
  add_row("Range", range_row);
  add_row("EyeLike", eye_like);
  add_row("Trilu", trilu);
  add_row("DepthToSpace", depth_to_space);
  add_row("SpaceToDepth", space_to_depth);
  add_row("CenterCropPad", center_crop_pad);
  add_row("ReverseSequence", reverse_sequence);
}

}  // namespace gex::onnx
