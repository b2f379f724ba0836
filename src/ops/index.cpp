// Gathers and scatters: data-dependent indices. Negative indices count from the end. Gathers clamp
// indices out of range and scatters skip them, so memory outside a tensor is never accessed.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// The inputs from `first` on index one axis each.
std::vector<IndexInput> index_inputs(std::size_t first, const Ints& axes) {
  std::vector<IndexInput> inputs;
  for (std::size_t k = 0; k < axes.size(); ++k) inputs.push_back({first + k, axes[k]});
  return inputs;
}

using Update = loop::ScatterBody::Update;

bool index_dtype(DType d) { return is_int(d); }

Scalar counted_from_start(ScalarBuilder& s, Scalar index, Dim size) {
  const Scalar i = s.cast(index, DType::i64);
  const Scalar negative = s.binary(Prim::lt, i, s.constant_int(DType::i64, 0));
  return s.select(negative, s.add(i, s.index(size)), i);
}

DimRange range_below(Dim size) {
  return {0, size.is_const() && size.constant() > 0 ? size.constant() - 1 : DimRange::kInf};
}

Dim gather_index(ScalarBuilder& s, Scalar index, Dim size) {
  Scalar i = counted_from_start(s, index, size);
  i = s.binary(Prim::max, i, s.constant_int(DType::i64, 0));
  i = s.binary(Prim::min, i, s.index(size - 1));
  return s.as_dim(i, range_below(size));
}

// The index; adds its bounds check to `pred`.
Dim scatter_index(ScalarBuilder& s, Scalar index, Dim size, Scalar& pred) {
  const Scalar i = counted_from_start(s, index, size);
  pred = s.logical_and(pred, s.binary(Prim::ge, i, s.constant_int(DType::i64, 0)));
  pred = s.logical_and(pred, s.binary(Prim::lt, i, s.index(size)));
  return s.as_dim(i, range_below(size));
}

loop::Store::Mode mode_of(const std::string& name) {
  using Mode = loop::Store::Mode;
  if (name == "set") return Mode::set;
  if (name == "add") return Mode::add;
  if (name == "mul") return Mode::mul;
  if (name == "max") return Mode::max;
  if (name == "min") return Mode::min;
  fail(ErrorCode::invalid_argument, "scatter mode '", name,
       "' is unknown; use set, add, mul, max or min");
}

// --- position of the index tensors' axes, shared by index and index_put ------------------------

// Result axes of x indexed on `axes`: the broadcast indices are at the position of the first
// indexed axis if the indexed axes are adjacent, else in front, as in NumPy.
struct IndexSpace {
  Shape indices;         // broadcast shape of the index tensors
  std::size_t position;  // their position in the result
  Shape result;
};

IndexSpace index_space(const Shape& x, const Shape& indices, const Ints& axes) {
  bool neighbours = true;
  for (std::size_t k = 1; k < axes.size(); ++k) neighbours &= axes[k] == axes[k - 1] + 1;
  IndexSpace space{indices, neighbours ? static_cast<std::size_t>(axes[0]) : 0, {}};
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (!contains(axes, static_cast<std::int64_t>(d))) space.result.push_back(x[d]);
  }
  space.result.insert(space.result.begin() + static_cast<std::ptrdiff_t>(space.position),
                      indices.begin(), indices.end());
  return space;
}

Shape broadcast_all(std::span<const Type* const> types, std::string_view op_name) {
  Shape shape = types[0]->shape;
  for (const Type* t : types.subspan(1)) shape = broadcast_shapes(shape, t->shape, op_name);
  return shape;
}

IndexSpace index_space_of(const Node& n, std::size_t first, const Ints& axes) {
  std::vector<const Type*> types;
  for (Value* v : n.inputs().subspan(first)) types.push_back(&v->type());
  return index_space(n.input(0)->type().shape, broadcast_all(types, n.op().name), axes);
}

IndexSpace checked_index_space(const InferContext& c, std::size_t first, const Ints& axes) {
  if (axes.empty() || c.inputs.size() != first + axes.size()) {
    fail(ErrorCode::invalid_argument, c.op_name, ": ", c.inputs.size() - first,
         " index tensors for ", axes.size(), " axes; give one for each axis");
  }
  std::int64_t last = -1;
  for (std::int64_t axis : axes) {
    if (axis <= last || axis >= c.in(0).rank()) {
      fail(ErrorCode::invalid_argument, c.op_name, ": axes must be ascending axes of ", c.in(0));
    }
    last = axis;
  }
  for (std::size_t k = first; k < c.inputs.size(); ++k) require_dtype(c, k, index_dtype);
  return index_space(c.in(0).shape, broadcast_all(c.inputs.subspan(first), c.op_name), axes);
}

// The index in x of a point of the result; `locate` converts a loaded index to a position.
template <class Locate>
std::vector<Dim> indexed_position(BodyContext& c, std::size_t first, const Ints& axes,
                                  Indices point, Locate locate) {
  const Shape& x = c.in_type(0).shape;
  const IndexSpace space = index_space_of(c.node, first, axes);
  const Indices at_indices = point.subspan(space.position, space.indices.size());
  std::vector<Dim> at(x.size());
  std::size_t rest = 0;
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (contains(axes, static_cast<std::int64_t>(d))) continue;
    if (rest == space.position) rest += space.indices.size();
    at[d] = point[rest++];
  }
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const int input = static_cast<int>(first + k);
    const auto axis = static_cast<std::size_t>(axes[k]);
    const Scalar i =
        c.in(input, broadcast_index(c.in_type(input).shape, space.indices, at_indices));
    at[axis] = locate(i, x[axis]);
  }
  return at;
}

// An index is clamped into its axis, so the axis must not be empty.
void require_something_at(const InferContext& c, std::size_t axis, const Shape& indices) {
  if (!assume_le(min(product(indices), 1), c.in(0).shape[axis])) {
    fail(ErrorCode::shape_mismatch, c.op_name, ": axis ", axis, " of ", c.in(0),
         " is empty, so it can't be indexed");
  }
}

void register_index() {
  Definition("index",
             "x at index tensors: index tensor k addresses axis axes[k] (advanced "
             "indexing); index tensors broadcast.")
      .in({"x"})
      .variadic_in("indices")
      .attrs<Index>()
      .traits(Trait::pure)
      .indices([](const Node& n) { return index_inputs(1, n.as<Index>().axes); })
      .infer_one([](const InferContext& c) {
        const Ints axes = c.as<Index>().axes;
        const IndexSpace space = checked_index_space(c, 1, axes);
        for (std::int64_t axis : axes) {
          require_something_at(c, static_cast<std::size_t>(axis), space.result);
        }
        return Type::tensor(c.in(0).dtype, space.result);
      })
      .map([](BodyContext& c, int, Indices p) {
        return c.in(0, indexed_position(c, 1, c.node.as<Index>().axes, p, [&](Scalar i, Dim size) {
                      return gather_index(c.s, i, size);
                    }));
      })
      .tested(0, 1)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({s, Dim(4), Dim(3)}), index_data({Dim(2)}), index_data({Dim(5), Dim(1)})},
            {{"axes", Ints{1, 2}}},
            {}};
      })
      .define();
}

void register_index_put() {
  loop::ScatterBody body;
  body.shape = [](const Node& n) { return index_space_of(n, 2, n.as<IndexPut>().axes).result; };
  body.mode = [](const Node& n) { return mode_of(n.as<IndexPut>().mode); };
  body.update = [](BodyContext& c, Indices p) {
    const auto a = c.node.as<IndexPut>();
    Update u;
    u.pred = c.s.constant(DType::boolean, 1);
    u.index = indexed_position(
        c, 2, a.axes, p, [&](Scalar i, Dim size) { return scatter_index(c.s, i, size, u.pred); });
    const Shape space = index_space_of(c.node, 2, a.axes).result;
    u.value = c.in(1, broadcast_index(c.in_type(1).shape, space, p));
    return u;
  };
  Definition("index_put", "x with values put (or added, ...) at index tensors.")
      .in({"x", "values"})
      .variadic_in("indices")
      .attrs<IndexPut>()
      .traits(Trait::pure | Trait::scatter)
      .indices([](const Node& n) { return index_inputs(2, n.as<IndexPut>().axes); })
      .infer_one([](const InferContext& c) {
        const auto a = c.as<IndexPut>();
        mode_of(a.mode);
        require_same_dtype(c, 0, 1);
        const Shape space = checked_index_space(c, 2, a.axes).result;
        if (!broadcasts_to(c.in(1).shape, space, c.op_name)) {
          fail(ErrorCode::shape_mismatch, "index_put: values ", c.in(1),
               " do not broadcast to the indexed shape ", text_of(space));
        }
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .scatter(std::move(body))
      .tested(0, 1)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({s, Dim(4), Dim(3)}), data({Dim(2), Dim(3)}), index_data({Dim(2)}),
                         index_data({Dim(2)})},
                        {{"axes", Ints{0, 1}}},
                        {}};
      })
      .define();
}

void require_along(const InferContext& c, std::int64_t axis) {
  require_dtype(c, 1, index_dtype);
  if (c.in(0).rank() != c.in(1).rank() || axis < 0 || axis >= c.in(0).rank()) {
    fail(ErrorCode::shape_mismatch, c.op_name, ": x is ", c.in(0), ", indices are ", c.in(1),
         ", axis is ", axis, "; both need as many axes, and the axis must be one of them");
  }
  for (std::size_t d = 0; d < c.in(0).shape.size(); ++d) {
    if (static_cast<std::int64_t>(d) == axis) continue;
    if (!assume_le(c.in(1).shape[d], c.in(0).shape[d])) {
      fail(ErrorCode::shape_mismatch, c.op_name, ": indices ", c.in(1), " are larger than axis ", d,
           " of ", c.in(0));
    }
  }
}

void register_along() {
  Definition("take_along", "out[..., i, ...] = x[..., indices[..., i, ...], ...] on one axis.")
      .in({"x", "indices"})
      .attrs<Axis>()
      .traits(Trait::pure)
      .indices([](const Node& n) { return index_inputs(1, {n.as<Axis>().axis}); })
      .infer_one([](const InferContext& c) {
        const std::int64_t axis = c.as<Axis>().axis;
        require_along(c, axis);
        require_something_at(c, static_cast<std::size_t>(axis), c.in(1).shape);
        return Type::tensor(c.in(0).dtype, c.in(1).shape);
      })
      .map([](BodyContext& c, int, Indices p) {
        const auto axis = static_cast<std::size_t>(c.node.as<Axis>().axis);
        std::vector<Dim> at(p.begin(), p.end());
        at[axis] = gather_index(c.s, c.in(1, p), c.in_type(0).shape[axis]);
        return c.in(0, at);
      })
      .tested(0, 1)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data(sample_matrix()), index_data({s, Dim(2)})}, {{"axis", std::int64_t{1}}}, {}};
      })
      .define();
}

void register_scatter() {
  loop::ScatterBody body;
  body.shape = [](const Node& n) { return n.input(1)->type().shape; };
  body.mode = [](const Node& n) { return mode_of(n.as<Scatter>().mode); };
  body.update = [](BodyContext& c, Indices p) {
    const auto axis = static_cast<std::size_t>(c.node.as<Scatter>().axis);
    Update u;
    u.pred = c.s.constant(DType::boolean, 1);
    u.index.assign(p.begin(), p.end());
    u.index[axis] = scatter_index(c.s, c.in(1, p), c.in_type(0).shape[axis], u.pred);
    const Shape& source = c.in_type(2).shape;
    // A source larger than the indices is read from its start; a 0-d one is broadcast.
    u.value = source.empty() ? c.in(2, {}) : c.in(2, p);
    return u;
  };
  Definition("scatter", "x with source[p] put (or added, ...) at indices[p] along an axis.")
      .in({"x", "indices", "source"})
      .attrs<Scatter>()
      .traits(Trait::pure | Trait::scatter)
      .indices([](const Node& n) { return index_inputs(1, {n.as<Scatter>().axis}); })
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Scatter>();
        mode_of(a.mode);
        require_along(c, a.axis);
        require_same_dtype(c, 0, 2);
        if (c.in(2).rank() != 0 && c.in(2).rank() != c.in(1).rank()) {
          fail(ErrorCode::shape_mismatch, "scatter: indices are ", c.in(1), ", source is ", c.in(2),
               "; both need as many axes");
        }
        for (std::size_t d = 0; d < c.in(2).shape.size(); ++d) {
          if (!assume_le(c.in(1).shape[d], c.in(2).shape[d])) {
            fail(ErrorCode::shape_mismatch, "scatter: indices ", c.in(1), " are larger than axis ",
                 d, " of the source ", c.in(2));
          }
        }
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .scatter(std::move(body))
      .tested(0, 1)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data(sample_matrix()), index_data({s, Dim(2)}), data({s, Dim(2)})},
                        {{"axis", std::int64_t{1}}, {"mode", std::string("add")}},
                        {}};
      })
      .define();
}

void register_slice_update() {
  loop::ScatterBody body;
  body.shape = [](const Node& n) { return n.input(1)->type().shape; };
  body.mode = [](const Node&) { return loop::Store::Mode::set; };
  body.update = [](BodyContext& c, Indices p) {
    const auto a = c.node.as<SliceUpdate>();
    Update u;
    for (std::size_t k = 0; k < p.size(); ++k) {
      u.index.push_back(a.starts[k] + p[k] * Dim(a.steps[k]));
    }
    u.value = c.in(1, p);
    return u;
  };
  Definition("slice_update", "x with source written over the slice from starts by steps.")
      .in({"x", "source"})
      .attrs<SliceUpdate>()
      .traits(Trait::pure | Trait::scatter)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<SliceUpdate>();
        require_same_dtype(c, 0, 1);
        const std::size_t rank = c.in(0).shape.size();
        if (c.in(1).shape.size() != rank || a.starts.size() != rank || a.steps.size() != rank) {
          fail(ErrorCode::shape_mismatch, "slice_update: x is ", c.in(0), ", source is ", c.in(1),
               "; source, starts and steps need as many axes as x");
        }
        for (std::size_t k = 0; k < rank; ++k) {
          if (!fits_into(a.starts[k], c.in(1).shape[k], a.steps[k], c.in(0).shape[k])) {
            fail(ErrorCode::shape_mismatch, "slice_update: source ", c.in(1), " from ", a.starts[k],
                 " by step ", a.steps[k], " is out of range of axis ", k, " of ", c.in(0));
          }
        }
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .scatter(std::move(body))
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data(sample_matrix()), data({s, Dim(2)})},
                        {{"starts", Dims{Dim(0), Dim(1)}}, {"steps", Ints{1, 3}}},
                        {}};
      })
      .define();
}

}  // namespace

void register_index_family() {
  register_index();
  register_index_put();
  register_along();
  register_scatter();
  register_slice_update();
}

}  // namespace gex::ops
