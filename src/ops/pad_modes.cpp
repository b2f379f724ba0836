// Padding with elements of the tensor itself: mirrored, repeated at the edge, or wrapped around.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// Elements before and after each axis; negative amounts crop.
struct Borders {
  Dims low, high;
  static constexpr auto fields() {
    return std::tuple{field("low", &Borders::low), field("high", &Borders::high)};
  }
};

// The source of position j of an axis of this size.
using Source = Dim (*)(Dim j, Dim size);

Dim mirrored(Dim j, Dim size) {
  const Dim from_start = max(j, -j);
  return min(from_start, Dim(2) * (size - 1) - from_start);
}
Dim nearest_edge(Dim j, Dim size) { return min(max(j, 0), size - 1); }
Dim wrapped(Dim j, Dim size) { return mod(j, size); }

// Maximum padding on one side of an axis of this size.
using Room = Dim (*)(Dim size);

void register_mode(const char* name, const char* doc, Source source, Room room) {
  Definition(name, doc)
      .in({"x"})
      .attrs<Borders>()
      .traits(Trait::pure)
      .infer_one([room](const InferContext& c) {
        const auto a = c.as<Borders>();
        Shape shape = c.in(0).shape;
        if (a.low.size() != shape.size() || a.high.size() != shape.size()) {
          fail(ErrorCode::invalid_argument, c.op_name, ": ", a.low.size(), " and ", a.high.size(),
               " amounts for ", c.in(0), "; give one of each for every axis");
        }
        for (std::size_t k = 0; k < shape.size(); ++k) {
          if (a.low[k] == Dim(0) && a.high[k] == Dim(0)) continue;
          const Dim most = room(shape[k]), size = shape[k];
          shape[k] = shape[k] + a.low[k] + a.high[k];
          if (!assume_le(1, size) || !assume_le(a.low[k], most) || !assume_le(a.high[k], most) ||
              !assume_le(0, shape[k])) {
            fail(ErrorCode::shape_mismatch, c.op_name, ": ", a.low[k], " and ", a.high[k],
                 " elements around axis ", k, " of ", c.in(0), "; the maximum is ", most);
          }
        }
        return Type::tensor(c.in(0).dtype, shape);
      })
      .map([source](BodyContext& c, int, Indices i) {
        const auto a = c.node.as<Borders>();
        std::vector<Dim> at(i.begin(), i.end());
        for (std::size_t k = 0; k < at.size(); ++k) {
          if (a.low[k] == Dim(0) && a.high[k] == Dim(0)) continue;
          at[k] = source(i[k] - a.low[k], c.in_type(0).shape[k]);
        }
        return c.in(0, at);
      })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({s + 2, Dim(6)})},
                        {{"low", Dims{Dim(1), Dim(2)}}, {"high", Dims{s, Dim(-1)}}},
                        {}};
      })
      .define();
}

// Pairs from the last axis backwards.
Borders borders_argument(const AtenCall& c, std::size_t i, std::size_t rank) {
  const Dims amounts = c.dims(i);
  Borders b{Dims(rank), Dims(rank)};
  for (std::size_t p = 0; p * 2 + 1 < amounts.size(); ++p) {
    b.low[rank - 1 - p] = amounts[2 * p];
    b.high[rank - 1 - p] = amounts[2 * p + 1];
  }
  return b;
}

AtenImport import_pad(const char* name) {  // x, padding
  return [name](AtenCall& c) {
    Value* x = c.tensor(0);
    return one(apply(c.graph(), name, {x}, borders_argument(c, 1, x->type().shape.size())));
  };
}

// `part` of one axis in a tensor of zeros with `size` there.
Value* placed(Graph& g, Value* part, std::size_t axis, Dim start, Dim size) {
  Dims low(part->type().shape.size()), high(part->type().shape.size());
  low[axis] = start;
  high[axis] = size - start - part->type().shape[axis];
  return pad(g, part, low, high);
}

// Adds the border gradients of an axis to the elements that they repeat.
Value* fold_axis(Graph& g, Value* grad, std::size_t axis, Dim low, Dim high, bool mirror) {
  const auto at = static_cast<std::int64_t>(axis);
  const Dim size = grad->type().shape[axis] - low - high;
  Value* sum = slice(g, grad, at, low, size);
  auto add_border = [&](Dim start, Dim count, Dim mirror_start, Dim edge) {
    if (count == Dim(0)) return;
    Value* border = slice(g, grad, at, start, count);
    border = mirror ? placed(g, flip(g, border, {at}), axis, mirror_start, size)
                    : placed(g, reduce_sum(g, border, {at}, true), axis, edge, size);
    sum = add(g, sum, border);
  };
  add_border(0, low, 1, 0);
  add_border(low + size, high, size - 1 - high, size - 1);
  return sum;
}

AtenImport import_pad_backward(bool mirror) {  // grad, x, padding
  return [mirror](AtenCall& c) {
    Graph& g = c.graph();
    const std::size_t rank = c.result().shape.size();
    const Borders b = borders_argument(c, 2, rank);
    Value* grad = cast(g, c.tensor(0), compute_type(c.result().dtype));
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (known_le(0, b.low[axis]) != true || known_le(0, b.high[axis]) != true) {
        return std::vector<Value*>{};
      }
      grad = fold_axis(g, grad, axis, b.low[axis], b.high[axis], mirror);
    }
    return one(to_result(c, grad));
  };
}

}  // namespace

void register_pad_modes() {
  register_mode("pad_reflect", "x mirrored at its edges, which are not repeated.", mirrored,
                [](Dim size) { return size - 1; });
  register_mode("pad_replicate", "x with its edges repeated.", nearest_edge,
                [](Dim) { return Dim(DimRange::kInf); });
  register_mode("pad_circular", "x continued with itself.", wrapped, [](Dim size) { return size; });
  register_aten_row("aten._pad_circular.default", import_pad("pad_circular"));
  for (int axes = 1; axes <= 3; ++axes) {
    const std::string reflect = str("aten.reflection_pad", axes, "d");
    const std::string replicate = str("aten.replication_pad", axes, "d");
    register_aten_row(reflect + ".default", import_pad("pad_reflect"));
    register_aten_row(replicate + ".default", import_pad("pad_replicate"));
    register_aten_row(reflect + "_backward.default", import_pad_backward(true));
    register_aten_row(replicate + "_backward.default", import_pad_backward(false));
  }
}

}  // namespace gex::ops
