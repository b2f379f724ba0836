// Window positions: fixed ones by strides and padding, adaptive ones by their share of an axis.

#include "ops/pool.hpp"

#include "ops/fold.hpp"

namespace gex::ops {

namespace {

Scalar yes(BodyContext& c) { return c.s.constant(DType::boolean, 1); }

std::vector<Dim> head(Indices point, std::size_t rank) {
  return {point.begin(), point.begin() + static_cast<std::ptrdiff_t>(rank)};
}

std::size_t rank_of(const BodyContext& c) { return c.out_type().shape.size(); }

// --- fixed windows ------------------------------------------------------------------------------

Dims pool_taps(const Node& n) {
  const Ints kernel = n.as<Pool>().kernel;
  return {kernel.begin(), kernel.end()};
}

Place pool_element(BodyContext& c, Indices p) {
  const auto a = c.node.as<Pool>();
  const Shape& shape = c.in_type(0).shape;
  const std::size_t rank = shape.size(), axes = a.kernel.size();
  Place e{head(p, rank), yes(c)};
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t axis = rank - axes + k;
    e.at[axis] = p[axis] * Dim(a.stride[k]) + p[rank + k] * Dim(a.dilation[k]) - Dim(a.padding[k]);
    if (a.padding[k] != 0 || a.ceil) {
      e.inside = c.s.logical_and(e.inside, c.s.in_bounds(e.at[axis], 0, shape[axis]));
    }
  }
  return e;
}

// PyTorch clips at the padded edge.
template <class Attributes>
Scalar pool_count(BodyContext& c, Indices p, const Shape& pooled, DType dtype) {
  const auto a = c.node.as<Attributes>();
  if (a.divisor != 0) return c.s.constant(dtype, a.divisor);
  Dim count = 1;
  const std::size_t axes = a.kernel.size();
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t axis = pooled.size() - axes + k;
    Dim begin = p[axis] * Dim(a.stride[k]) - Dim(a.padding[k]);
    Dim end = min(begin + Dim(a.kernel[k]), pooled[axis] + Dim(a.padding[k]));
    if (!a.count_include_pad) {
      begin = max(begin, 0);
      end = min(end, pooled[axis]);
    }
    count *= end - begin;
  }
  return c.s.cast(c.s.index(count), dtype);
}

std::int64_t reach(const PoolGrad& a, std::size_t k) {
  return a.dilation[k] * (a.kernel[k] - 1) + 1;
}

Dims pool_candidates(const Node& n) {
  const auto a = n.as<PoolGrad>();
  Dims counts;
  for (std::size_t k = 0; k < a.kernel.size(); ++k) {
    counts.push_back((reach(a, k) + a.stride[k] - 1) / a.stride[k]);
  }
  return counts;
}

// The last window that starts at or before the element, and those before it.
Place pool_candidate(BodyContext& c, Indices p) {
  const auto a = c.node.as<PoolGrad>();
  const Shape& windows = c.in_type(0).shape;
  const std::size_t rank = windows.size(), axes = a.kernel.size();
  Place e{head(p, rank), yes(c)};
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t axis = rank - axes + k;
    const Dim from_first = p[axis] + Dim(a.padding[k]);
    e.at[axis] = floordiv(from_first, a.stride[k]) - p[rank + k];
    e.inside = c.s.logical_and(e.inside, c.s.in_bounds(e.at[axis], 0, windows[axis]));
    const Dim distance = mod(from_first, a.stride[k]) + p[rank + k] * Dim(a.stride[k]);
    e.inside = c.s.logical_and(e.inside, c.s.in_bounds(distance, 0, reach(a, k)));
  }
  return e;
}

// --- adaptive windows ---------------------------------------------------------------------------

Dim window_begin(Dim o, Dim in, Dim out) { return floordiv(o * in, out); }
Dim window_end(Dim o, Dim in, Dim out) { return ceildiv((o + 1) * in, out); }

// The largest share of `in` elements that one of `out` windows covers.
Dims largest_shares(const Shape& in, const Shape& out, std::size_t axes) {
  Dims taps;
  for (std::size_t k = in.size() - axes; k < in.size(); ++k) {
    const bool even = known_eq(mod(in[k], out[k]), 0) == true;
    taps.push_back(even ? floordiv(in[k], out[k]) : ceildiv(in[k], out[k]) + 1);
  }
  return taps;
}

// Elements [begin, end) of the share of p on the last axes.
Place share(BodyContext& c, Indices p, const Shape& in, const Shape& out, std::size_t axes) {
  const std::size_t rank = in.size();
  Place e{head(p, rank), yes(c)};
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t axis = rank - axes + k;
    const Dim begin = window_begin(p[axis], in[axis], out[axis]);
    e.at[axis] = begin + p[rank + k];
    if (known_eq(mod(in[axis], out[axis]), 0) == true) continue;
    e.inside = c.s.logical_and(
        e.inside, c.s.in_bounds(e.at[axis], begin, window_end(p[axis], in[axis], out[axis])));
  }
  return e;
}

std::size_t adaptive_axes(const Node& n) { return n.as<Adaptive>().size.size(); }

Dims adaptive_taps(const Node& n) {
  return largest_shares(n.input(0)->type().shape, n.output()->type().shape, adaptive_axes(n));
}

Place adaptive_element(BodyContext& c, Indices p) {
  return share(c, p, c.in_type(0).shape, c.out_type().shape, adaptive_axes(c.node));
}

// The number of elements in a pool's window, or of windows that cover an element (gradients): both
// follow from the same division of an axis.
Scalar adaptive_count(BodyContext& c, Indices p, const Shape& pooled, DType dtype) {
  const bool forward = pooled == c.in_type(0).shape;
  const Shape& windows = forward ? c.out_type().shape : c.in_type(0).shape;
  Dim count = 1;
  for (std::size_t k = rank_of(c) - adaptive_axes(c.node); k < rank_of(c); ++k) {
    count *= window_end(p[k], pooled[k], windows[k]) - window_begin(p[k], pooled[k], windows[k]);
  }
  return c.s.cast(c.s.index(count), dtype);
}

}  // namespace

const WindowForm kPoolWindows{pool_taps, pool_element, pool_count<Pool>};
const WindowForm kPoolCandidates{pool_candidates, pool_candidate, pool_count<PoolGrad>};
const WindowForm kAdaptiveWindows{adaptive_taps, adaptive_element, adaptive_count};
// The windows that cover an element are found by the same division, with the roles exchanged.
const WindowForm kAdaptiveCandidates{adaptive_taps, adaptive_element, adaptive_count};

Dim pooled_size(Dim size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                std::int64_t dilation, bool ceil) {
  const Dim room = size + Dim(2 * padding - dilation * (kernel - 1) - 1);
  if (!ceil) return floordiv(room, stride) + 1;
  // The last window must start inside the input or its left padding.
  return min(ceildiv(room, stride) + 1, ceildiv(size + Dim(padding), stride));
}

void require_windows(const InferContext& c, std::size_t axes, const Ints& kernel,
                     const Ints& stride, const Ints& padding, const Ints& dilation) {
  if (c.in(0).shape.size() < axes || kernel.size() != axes || stride.size() != axes ||
      padding.size() != axes || dilation.size() != axes) {
    fail(ErrorCode::invalid_argument, c.op_name, ": ", c.in(0), " needs ", axes,
         " axes, and kernel, stride, padding and dilation as many entries each");
  }
  require_at_least(c, "kernel", kernel, 1);
  require_at_least(c, "stride", stride, 1);
  require_at_least(c, "dilation", dilation, 1);
  require_at_least(c, "padding", padding, 0);
}

Shape with_pooled_axes(const InferContext& c, std::size_t axes, const Dims& size) {
  Shape shape = c.in(0).shape;
  if (shape.size() < axes || size.size() != axes) {
    fail(ErrorCode::invalid_argument, c.op_name, ": ", c.in(0), " needs ", axes,
         " axes, and size as many entries");
  }
  for (std::size_t k = 0; k < axes; ++k) {
    Dim& axis = shape[shape.size() - axes + k];
    if (!assume_le(1, size[k]) || !assume_le(1, axis)) {
      fail(ErrorCode::shape_mismatch, c.op_name, ": ", c.in(0), " to ", text_of(size),
           ": every pooled axis needs an element and a window");
    }
    axis = size[k];
  }
  return shape;
}

ShapeRule adaptive_shape(std::size_t axes) {
  return [axes](const InferContext& c) { return with_pooled_axes(c, axes, c.as<Adaptive>().size); };
}

loop::ReductionBody sum_over_windows(const WindowForm& form) {
  loop::ReductionBody body = over_windows(form);
  body.accumulators = [](const Node& n) {
    return std::vector{accumulator("a", compute_type(n.input(0)->type().dtype), 0)};
  };
  body.combine = combine_by(Prim::add);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(acc[0], c.out_type().dtype);
  };
  return body;
}

loop::ReductionBody over_windows(const WindowForm& form) {
  loop::ReductionBody body;
  body.shape = [taps = form.taps](const Node& n) {
    Shape shape = n.output()->type().shape;
    const Dims sizes = taps(n);
    shape.insert(shape.end(), sizes.begin(), sizes.end());
    return shape;
  };
  body.axes = [taps = form.taps](const Node& n) {
    std::vector<int> axes;
    for (std::size_t k = 0; k < taps(n).size(); ++k) {
      axes.push_back(n.output()->type().rank() + static_cast<int>(k));
    }
    return axes;
  };
  body.out_index = [](const Node& n, Indices p) {
    return head(p, n.output()->type().shape.size());
  };
  return body;
}

Dim plane_position(Indices index, const Shape& shape, std::size_t axes) {
  Dim position = 0;
  for (std::size_t k = shape.size() - axes; k < shape.size(); ++k) {
    position = position * shape[k] + index[k];
  }
  return position;
}

std::string pool_name(const char* kind, std::size_t axes, const char* rest) {
  return str(kind, axes, "d", rest);
}

}  // namespace gex::ops
