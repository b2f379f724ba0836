// Views: index maps on one input, no arithmetic. Also cat and pad, which select among loads.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

void require_same_numel(const InferContext& c, const Shape& to) {
  for (Dim d : to) {
    if (d.range().hi < 0) {
      fail(ErrorCode::shape_mismatch, c.op_name, ": size ", d, " in ", text_of(to), " is negative");
    }
  }
  if (!assume_eq(product(c.in(0).shape), product(to))) {
    fail(ErrorCode::shape_mismatch, c.op_name, ": ", text_of(c.in(0).shape), " has ",
         product(c.in(0).shape), " elements, ", text_of(to), " has ", product(to));
  }
}

void require_axis(const InferContext& c, std::int64_t axis) {
  if (axis < 0 || axis >= c.in(0).rank()) {
    fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " is out of range for ", c.in(0));
  }
}

void require_one_for_each_axis(const InferContext& c, std::size_t count, const char* what) {
  if (static_cast<int>(count) != c.in(0).rank()) {
    fail(ErrorCode::invalid_argument, c.op_name, ": ", count, " ", what, " for ", c.in(0),
         "; expected one per axis");
  }
}

void register_reshape() {
  Definition("reshape", "The same elements in row-major order under another shape.")
      .in({"x"})
      .attrs<ToShape>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<ToShape>();
        require_same_numel(c, a.shape);
        return Type::tensor(c.in(0).dtype, a.shape);
      })
      .map([](BodyContext& c, int, Indices i) {
        return c.in(0, reshape_index(c.in_type(0).shape, c.out_type().shape, i));
      })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data(sample_matrix())}, {{"shape", Dims{Dim(2), s, Dim(3)}}}, {}};
      })
      .define();
}

void register_transpose() {
  Definition("transpose", "Axis i of the result is axis perm[i] of x.")
      .in({"x"})
      .attrs<Transpose>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Transpose>();
        require_one_for_each_axis(c, a.perm.size(), "axes in perm");
        Shape shape;
        for (std::int64_t axis : a.perm) {
          require_axis(c, axis);
          shape.push_back(c.in(0).shape[static_cast<std::size_t>(axis)]);
        }
        for (int axis = 0; axis < c.in(0).rank(); ++axis) {
          if (!contains(a.perm, axis)) {
            fail(ErrorCode::invalid_argument, "transpose: perm does not contain axis ", axis);
          }
        }
        return Type::tensor(c.in(0).dtype, shape);
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Transpose>();
        std::vector<Dim> at(a.perm.size());
        for (std::size_t k = 0; k < at.size(); ++k) at[static_cast<std::size_t>(a.perm[k])] = i[k];
        return c.in(0, at);
      })
      .sample(matrix_sample({{"perm", Ints{1, 0}}}))
      .define();
}

void register_slice() {
  Definition("slice", "Every steps-th element from starts on, sizes of them, along each axis.")
      .in({"x"})
      .attrs<Slice>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Slice>();
        require_one_for_each_axis(c, a.starts.size(), "starts");
        require_one_for_each_axis(c, a.steps.size(), "steps");
        require_one_for_each_axis(c, a.sizes.size(), "sizes");
        for (std::size_t k = 0; k < a.sizes.size(); ++k) {
          if (!fits_into(a.starts[k], a.sizes[k], a.steps[k], c.in(0).shape[k])) {
            fail(ErrorCode::shape_mismatch, "slice: ", a.sizes[k], " elements from ", a.starts[k],
                 " by step ", a.steps[k], " are out of range of axis ", k, " of ", c.in(0));
          }
        }
        return Type::tensor(c.in(0).dtype, a.sizes);
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Slice>();
        std::vector<Dim> at(i.size());
        for (std::size_t k = 0; k < at.size(); ++k) at[k] = a.starts[k] + i[k] * Dim(a.steps[k]);
        return c.in(0, at);
      })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data(sample_matrix())},
            {{"starts", Dims{Dim(0), Dim(1)}}, {"steps", Ints{1, 2}}, {"sizes", Dims{s, Dim(3)}}},
            {}};
      })
      .define();
}

void register_expand() {
  Definition("expand", "x broadcast to a shape.")
      .in({"x"})
      .attrs<ToShape>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<ToShape>();
        const Shape& from = c.in(0).shape;
        bool fits = from.size() <= a.shape.size();
        for (std::size_t k = 0; fits && k < from.size(); ++k) {
          const Dim to = a.shape[a.shape.size() - from.size() + k];
          fits = from[k] == Dim(1) || assume_eq(from[k], to);
        }
        if (!fits) {
          fail(ErrorCode::shape_mismatch, "expand: ", text_of(from), " does not broadcast to ",
               text_of(a.shape));
        }
        return Type::tensor(c.in(0).dtype, a.shape);
      })
      .map([](BodyContext& c, int, Indices i) { return in_broadcast(c, 0, i); })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({Dim(1), Dim(6)})}, {{"shape", Dims{s, Dim(6)}}}, {}};
      })
      .define();
}

void register_roll() {
  Definition("roll", "x from an element on along axes, then what is before it.")
      .in({"x"})
      .attrs<Roll>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Roll>();
        for (std::int64_t axis : a.axes) require_axis(c, axis);
        if (a.axes.size() != a.starts.size()) {
          fail(ErrorCode::invalid_argument, "roll: ", a.starts.size(), " starts for ",
               a.axes.size(), " axes; give one for each");
        }
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Roll>();
        std::vector<Dim> at(i.begin(), i.end());
        for (std::size_t k = 0; k < a.axes.size(); ++k) {
          const auto axis = static_cast<std::size_t>(a.axes[k]);
          // An axis without elements is not read.
          const Dim size = max(c.in_type(0).shape[axis], 1);
          at[axis] = mod(i[axis] + a.starts[k], size);
        }
        return c.in(0, at);
      })
      .sample(matrix_sample({{"axes", Ints{0}}, {"starts", Dims{Dim(1)}}}))
      .define();
}

void register_flip() {
  Definition("flip", "x read backwards along axes.")
      .in({"x"})
      .attrs<Axes>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        for (std::int64_t axis : c.as<Axes>().axes) require_axis(c, axis);
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .map([](BodyContext& c, int, Indices i) {
        std::vector<Dim> at(i.begin(), i.end());
        for (std::int64_t axis : c.node.as<Axes>().axes) {
          const auto k = static_cast<std::size_t>(axis);
          at[k] = c.in_type(0).shape[k] - Dim(1) - i[k];
        }
        return c.in(0, at);
      })
      .aten("aten.flip.default",
            [](AtenCall& c) {
              Value* x = c.tensor(0);
              if (x->type().rank() == 0) return one(x);
              return one(flip(c.graph(), x, c.integers(1)));
            })
      .sample(matrix_sample({{"axes", Ints{1}}}))
      .define();
}

// out[..., i, ..., j] = x[..., i*step + j, ...]: windows along an axis, their elements last.
struct Windows {
  std::int64_t axis = 0, size = 1, step = 1;
  static constexpr auto fields() {
    return std::tuple{field("axis", &Windows::axis), field("size", &Windows::size),
                      field("step", &Windows::step)};
  }
};

void register_windows() {
  Definition("windows", "Windows of a size at every step along an axis; their elements come last.")
      .in({"x"})
      .attrs<Windows>()
      .traits(Trait::pure | Trait::view | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Windows>();
        require_axis(c, a.axis);
        Shape shape = c.in(0).shape;
        Dim& size = shape[static_cast<std::size_t>(a.axis)];
        if (a.size < 0 || a.step < 1 || !assume_le(a.size, size)) {
          fail(ErrorCode::invalid_argument, "windows: size ", a.size, " and step ", a.step,
               " do not match axis ", a.axis, " of ", c.in(0));
        }
        size = floordiv(size - Dim(a.size), a.step) + 1;
        shape.push_back(a.size);
        return Type::tensor(c.in(0).dtype, shape);
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Windows>();
        const auto axis = static_cast<std::size_t>(a.axis);
        std::vector<Dim> at(i.begin(), i.end() - 1);
        at[axis] = i[axis] * Dim(a.step) + i.back();
        return c.in(0, at);
      })
      .aten("aten.unfold.default",  // x, dim, size, step
            [](AtenCall& c) {
              Value* x = c.tensor(0);
              if (x->type().rank() == 0) return std::vector<Value*>{};
              const Windows a{normal_axis(c.integer(1), x->type().rank()), c.integer(2),
                              c.integer(3)};
              return one(apply(c.graph(), "windows", {x}, a));
            })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({s + 4, Dim(3)})}, {{"size", std::int64_t{3}}, {"step", std::int64_t{2}}}, {}};
      })
      .define();
}

void register_cat() {
  Definition("cat", "Inputs one after another along an axis.")
      .variadic_in("xs")
      .attrs<Axis>()
      .traits(Trait::pure | Trait::concatenation)
      .infer_one([](const InferContext& c) {
        if (c.inputs.empty()) {
          fail(ErrorCode::invalid_argument, "cat: no inputs; give at least one");
        }
        const std::int64_t axis = c.as<Axis>().axis;
        require_axis(c, axis);
        Type type = Type::tensor(c.in(0).dtype, c.in(0).shape);
        for (std::size_t k = 1; k < c.inputs.size(); ++k) {
          require_same_dtype(c, 0, k);
          bool fits = c.in(k).rank() == type.rank();
          for (int d = 0; fits && d < type.rank(); ++d) {
            const auto i = static_cast<std::size_t>(d);
            fits = d == axis || assume_eq(c.in(k).shape[i], c.in(0).shape[i]);
          }
          if (!fits) {
            fail(ErrorCode::shape_mismatch, "cat: inputs 0 and ", k, " are ", c.in(0), " and ",
                 c.in(k), "; all axes except axis ", axis, " must be equal");
          }
          type.shape[static_cast<std::size_t>(axis)] +=
              c.in(k).shape[static_cast<std::size_t>(axis)];
        }
        return type;
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto axis = static_cast<std::size_t>(c.node.as<Axis>().axis);
        const DType dtype = c.out_type().dtype;
        Scalar result = is_int(dtype) ? c.s.constant_int(dtype, 0) : c.s.constant(dtype, 0);
        std::vector<Dim> at(i.begin(), i.end());
        Dim offset = 0;
        for (std::size_t k = 0; k < c.node.inputs().size(); ++k) {
          const Dim size = c.in_type(static_cast<int>(k)).shape[axis];
          if (size == Dim(0)) continue;
          at[axis] = i[axis] - offset;
          const Scalar here = c.s.in_bounds(i[axis], offset, offset + size);
          result = c.in(static_cast<int>(k), at, here, result);
          offset += size;
        }
        return result;
      })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data(sample_matrix()), data({s, s})}, {{"axis", std::int64_t{1}}}, {}};
      })
      .define();
}

void register_pad() {
  Definition("pad", "x with `low` elements of a value before and `high` after it on each axis.")
      .in({"x"})
      .attrs<Pad>()
      .traits(Trait::pure)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Pad>();
        require_one_for_each_axis(c, a.low.size(), "low amounts");
        require_one_for_each_axis(c, a.high.size(), "high amounts");
        Type type = Type::tensor(c.in(0).dtype, c.in(0).shape);
        for (std::size_t k = 0; k < type.shape.size(); ++k) {
          type.shape[k] = type.shape[k] + a.low[k] + a.high[k];
          if (!assume_le(0, type.shape[k])) {
            fail(ErrorCode::shape_mismatch, "pad: cropping ", a.low[k], " and ", a.high[k],
                 " crops more than all of axis ", k, " of ", c.in(0));
          }
        }
        return type;
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Pad>();
        const DType dtype = c.out_type().dtype;
        const Scalar fill = is_int(dtype)
                                ? c.s.constant_int(dtype, static_cast<std::int64_t>(a.value))
                                : c.s.constant(dtype, a.value);
        std::vector<Dim> at(i.size());
        Scalar inside = c.s.constant(DType::boolean, 1);
        for (std::size_t k = 0; k < at.size(); ++k) {
          at[k] = i[k] - a.low[k];
          if (a.low[k] == Dim(0) && a.high[k] == Dim(0)) continue;
          inside = c.s.logical_and(inside, c.s.in_bounds(at[k], 0, c.in_type(0).shape[k]));
        }
        return c.s.is_true(inside) ? c.in(0, at) : c.in(0, at, inside, fill);
      })
      .aten("aten.constant_pad_nd.default",
            [](AtenCall& c) {
              // Pairs from the last axis backwards.
              Value* x = c.tensor(0);
              const auto rank = static_cast<std::size_t>(x->type().rank());
              const Dims amounts = c.dims(1);
              Dims low(rank), high(rank);
              for (std::size_t p = 0; p * 2 + 1 < amounts.size(); ++p) {
                low[rank - 1 - p] = amounts[2 * p];
                high[rank - 1 - p] = amounts[2 * p + 1];
              }
              return one(pad(c.graph(), x, low, high, c.number(2)));
            })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data(sample_matrix())},
                        {{"low", Dims{Dim(0), Dim(2)}}, {"high", Dims{s, Dim(-1)}}},
                        {}};
      })
      .define();
}

// x where keep(q - r) for row r and column q, zero elsewhere.
struct Triangle {
  Dim diagonal = 0;
  bool upper = false;
  static constexpr auto fields() {
    return std::tuple{field("diagonal", &Triangle::diagonal), field("upper", &Triangle::upper)};
  }
};

void register_triangle() {
  auto row = [](bool upper) {
    return [upper](AtenCall& c) {
      return one(apply(c.graph(), "triangle", {c.tensor(0)}, Triangle{c.dim(1), upper}));
    };
  };
  Definition("triangle", "The lower or upper triangle of the last two axes, zero elsewhere.")
      .in({"x"})
      .attrs<Triangle>()
      .traits(Trait::pure | Trait::cheap)
      .infer_one([](const InferContext& c) {
        if (c.in(0).rank() < 2) {
          fail(ErrorCode::shape_mismatch, "triangle: ", c.in(0), " has fewer than two axes");
        }
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .map([](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Triangle>();
        const DType dtype = c.out_type().dtype;
        const Dim offset = i[i.size() - 1] - i[i.size() - 2];
        const Prim keeps = a.upper ? Prim::ge : Prim::le;
        const Scalar keep = c.s.binary(keeps, c.s.index(offset), c.s.index(a.diagonal));
        const Scalar zero = is_int(dtype) ? c.s.constant_int(dtype, 0) : c.s.constant(dtype, 0);
        return c.in(0, i, keep, zero);
      })
      .aten("aten.tril.default", row(false))
      .aten("aten.triu.default", row(true))
      .sample(matrix_sample({{"upper", true}}))
      .define();
}

}  // namespace

void register_view() {
  register_reshape();
  register_transpose();
  register_slice();
  register_expand();
  register_flip();
  register_roll();
  register_windows();
  register_cat();
  register_pad();
  register_triangle();
  register_aten_facts({"aten.constant_pad_nd"}, {.no_op = AtenFacts::NoOp::no_padding});
  register_aten_facts({"aten.tril", "aten.triu"}, {.padding = AtenFacts::Padding::keeps_positions});
}

}  // namespace gex::ops
