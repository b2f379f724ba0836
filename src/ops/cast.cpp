// Conversion between dtypes, and the ATen overloads that only copy or convert.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// The graph is pure, so a copy is the value itself, converted if dtypes differ.
std::vector<Value*> import_copy(AtenCall& c) { return one(operand(c, 0, c.result().dtype)); }

// The user's call that it represents.
struct Kept {
  std::string what;
  static constexpr auto fields() { return std::tuple{field("what", &Kept::what)}; }
};

void register_kept() {
  Definition("kept", "x; represents a no-op call that is kept, with its operands.")
      .in({"x"})
      .variadic_in("others")
      .attrs<Kept>()
      .traits(Trait::pure)
      .infer_one([](const InferContext& c) { return Type::tensor(c.in(0).dtype, c.in(0).shape); })
      .map([](BodyContext& c, int, Indices i) { return c.in(0, i); })
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data(sample_matrix()), data({s})}, {{"what", std::string("aten.copy.default")}}, {}};
      })
      .define();
  // Its result, its operands, the name of the call.
  register_aten_row("gex.kept.default", [](AtenCall& c) {
    std::vector<Value*> inputs = c.tensors(1);
    inputs.insert(inputs.begin(), c.tensor(0));
    return one(apply(c.graph(), "kept", std::move(inputs), Kept{c.string(2)}));
  });
}

}  // namespace

void register_cast() {
  register_kept();
  Definition("cast", "x converted: floats round to nearest even, floats to integers truncate.")
      .in({"x"})
      .attrs<Cast>()
      .traits(Trait::pure | Trait::elementwise | Trait::cheap)
      .infer_one(
          [](const InferContext& c) { return Type::tensor(c.as<Cast>().dtype, c.in(0).shape); })
      .map([](BodyContext& c, int, Indices i) {
        return c.s.cast(c.in(0, i), c.node.as<Cast>().dtype);
      })
      .aten("aten._to_copy.default", import_copy)
      .aten("aten.to.dtype", import_copy)
      .aten("aten.to.dtype_layout", import_copy)
      .aten("aten.clone.default", import_copy)
      .aten("aten.contiguous.default", import_copy)
      .aten("aten.alias.default", import_copy)
      .aten("aten.detach.default", import_copy)
      .aten("aten.lift_fresh_copy.default", import_copy)
      .aten("aten.lift_fresh.default", import_copy)
      .aten("aten.lift.default", import_copy)
      .aten("aten.positive.default", import_copy)
      .aten("aten.copy.default",
            [](AtenCall& c) {
              return one(expand(c.graph(), operand(c, 1, c.result().dtype), c.result().shape));
            })
      .aten("prims.convert_element_type.default", import_copy)
      .sample(matrix_sample({{"dtype", DType::f64}}))
      .define();
  register_aten_facts({"aten._to_copy"}, {.no_op = AtenFacts::NoOp::always,
                                          .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts({"prims.convert_element_type", "prims.device_put"},
                      {.no_op = AtenFacts::NoOp::always});
  register_aten_facts({"aten.alias", "aten.clone"},
                      {.range = AtenFacts::Range::same,
                       .no_op = AtenFacts::NoOp::always,
                       .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts(
      {"aten.contiguous", "aten.detach"},
      {.range = AtenFacts::Range::same, .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts({"aten.copy"}, {.no_op = AtenFacts::NoOp::always,
                                      .no_op_argument = 1,
                                      .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts({"aten.copy_", "aten.lift_fresh_copy"},
                      {.padding = AtenFacts::Padding::keeps_positions});
}

}  // namespace gex::ops
