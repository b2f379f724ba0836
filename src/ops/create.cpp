// Constants, ranges and sizes.

#include <cmath>

#include <algorithm>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

Scalar constant_of(ScalarBuilder& s, DType dtype, double value) {
  if (is_int(dtype)) return s.constant_int(dtype, static_cast<std::int64_t>(value));
  if (dtype == DType::boolean) return s.constant(dtype, value != 0 ? 1 : 0);
  return s.constant(dtype, value);
}

AtenImport import_filled(double value) {
  return
      [=](AtenCall& c) { return one(full(c.graph(), c.result().dtype, value, c.result().shape)); };
}

// The fill value is argument i: a number, maybe symbolic, or a 0-d tensor.
AtenImport import_fill_argument(std::size_t i) {
  return [=](AtenCall& c) {
    const Type& t = c.result();
    // Integers beyond 2^53 need the exact path.
    if (c.is_constant_number(i) && (is_float(t.dtype) || std::abs(c.number(i)) < 0x1p53)) {
      return one(full(c.graph(), t.dtype, c.number(i), t.shape));
    }
    return one(expand(c.graph(), operand(c, i, t.dtype), t.shape));
  };
}

// start + i*step; eager computes float ranges in double.
std::vector<Value*> arange(AtenCall& c, Value* start, Value* step, DType t) {
  Graph& g = c.graph();
  Value* i = cast(g, iota(g, c.result().shape.at(0)), t);
  if (step != nullptr) i = mul(g, i, step);
  if (start != nullptr) i = add(g, i, start);
  return one(to_result(c, i));
}

DType range_type(const AtenCall& c) { return is_float(c.result().dtype) ? DType::f64 : DType::i64; }

std::optional<ElementBounds> bounds_of_constant(const Node& node) {
  const TensorPtr value = node.as<Constant>().value;
  if (is_float(value->dtype()) || value->numel() == 0) return std::nullopt;
  std::int64_t low = value->get_int(0), high = low;
  for (std::int64_t k = 1; k < value->numel(); ++k) {
    low = std::min(low, value->get_int(k));
    high = std::max(high, value->get_int(k));
  }
  return ElementBounds{Dim(low), Dim(high)};
}

void register_constants() {
  Definition("full", "Every element the same value.")
      .attrs<Full>()
      .traits(Trait::pure | Trait::constant | Trait::cheap)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Full>();
        return Type::tensor(a.dtype, a.shape);
      })
      .map([](BodyContext& c, int, Indices) {
        const auto a = c.node.as<Full>();
        return constant_of(c.s, a.dtype, a.value);
      })
      .aten("aten.zeros.default", import_filled(0))
      .aten("aten.zeros_like.default", import_filled(0))
      .aten("aten.new_zeros.default", import_filled(0))
      .aten("aten.zero.default", import_filled(0))
      .aten("aten.ones.default", import_filled(1))
      .aten("aten.ones_like.default", import_filled(1))
      .aten("aten.new_ones.default", import_filled(1))
      .aten("aten.empty.memory_format", import_filled(0))
      .aten("aten.empty_like.default", import_filled(0))
      .aten("aten.empty_strided.default", import_filled(0))
      .aten("aten.empty_permuted.default", import_filled(0))
      .aten("aten.new_empty.default", import_filled(0))
      .aten("aten.new_empty_strided.default", import_filled(0))
      .aten("aten.full.default", import_fill_argument(1))
      .aten("aten.full_like.default", import_fill_argument(1))
      .aten("aten.new_full.default", import_fill_argument(2))
      .aten("aten.fill.Scalar", import_fill_argument(1))
      .aten("aten.fill.Tensor", import_fill_argument(1))
      .aten("aten.scalar_tensor.default", import_fill_argument(0))
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{}, {{"value", 3.0}, {"shape", Dims{s, Dim(2)}}}, {}};
      })
      .define();

  // No body: the values are data of the program, not code.
  Definition("constant", "A tensor whose values are part of the graph.")
      .attrs<Constant>()
      .traits(Trait::pure | Trait::constant)
      .step(StepKind::constant)
      .infer_one([](const InferContext& c) {
        const TensorPtr value = c.as<Constant>().value;
        if (value == nullptr) {
          fail(ErrorCode::invalid_argument, "constant: no value given");
        }
        return Type::tensor(value->dtype(), Shape(value->shape().begin(), value->shape().end()));
      })
      .reference([](const ReferenceContext& c) {
        return std::vector<HostTensor>{*c.node.as<Constant>().value};
      })
      .bounds(bounds_of_constant)
      .define();
}

void register_create_facts() {
  register_aten_facts({"aten.arange"}, {.range = AtenFacts::Range::counted});
  register_aten_facts({"aten.full"}, {.range = AtenFacts::Range::filled});
  register_aten_facts({"aten.zeros"}, {.range = AtenFacts::Range::zero});
  register_aten_facts({"aten.zeros_like"}, {.range = AtenFacts::Range::zero,
                                            .padding = AtenFacts::Padding::reads_sizes});
  register_aten_facts({"aten.empty_like", "aten.full_like", "aten.new_empty", "aten.new_full",
                       "aten.new_ones", "aten.new_zeros", "aten.ones_like"},
                      {.padding = AtenFacts::Padding::reads_sizes});
  register_aten_facts({"aten.linspace"}, {.decomposition = AtenFacts::Decomposition::of_floats});
}

}  // namespace

void register_create() {
  register_constants();

  Definition("dim", "A size as a 0-d i64 tensor.")
      .attrs<OneDim>()
      .traits(Trait::pure | Trait::cheap)
      .infer_one([](const InferContext&) { return Type::tensor(DType::i64, {}); })
      .map([](BodyContext& c, int, Indices) { return c.s.index(c.node.as<OneDim>().size); })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{}, {{"size", s * 2}}, {}};
      })
      .define();

  Definition("iota", "0, 1, ..., size-1 as i64.")
      .attrs<OneDim>()
      .traits(Trait::pure | Trait::cheap)
      .infer_one(
          [](const InferContext& c) { return Type::tensor(DType::i64, {c.as<OneDim>().size}); })
      .map([](BodyContext& c, int, Indices i) { return c.s.index(i[0]); })
      .bounds([](const Node& n) {
        return std::optional<ElementBounds>({Dim(0), n.as<OneDim>().size - Dim(1)});
      })
      .aten("aten.arange.default",
            [](AtenCall& c) { return arange(c, nullptr, nullptr, range_type(c)); })
      .aten("aten.arange.start",
            [](AtenCall& c) {
              const DType t = range_type(c);
              return arange(c, operand(c, 0, t), nullptr, t);
            })
      .aten("aten.arange.start_step",
            [](AtenCall& c) {
              const DType t = range_type(c);
              return arange(c, operand(c, 0, t), operand(c, 2, t), t);
            })
      .aten("prims.iota.default",  // (length, start, step)
            [](AtenCall& c) {
              return arange(c, operand(c, 1, DType::i64), operand(c, 2, DType::i64), DType::i64);
            })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{}, {{"size", s}}, {}};
      })
      .define();

  register_aten_row("aten.eye.m", [](AtenCall& c) {
    Graph& g = c.graph();
    const Shape& shape = c.result().shape;
    Value* row = unsqueeze(g, iota(g, shape[0]), 1);
    return one(to_result(c, eq(g, row, iota(g, shape[1]))));
  });
  register_aten_row("aten.eye.default", [](AtenCall& c) {
    Graph& g = c.graph();
    Value* i = iota(g, c.result().shape[0]);
    return one(to_result(c, eq(g, unsqueeze(g, i, 1), i)));
  });
  register_create_facts();
}

}  // namespace gex::ops
