// Comparisons, logic, bit operations and selection.

#include <limits>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

AtenImport import_logical(const char* op_name) {
  return [=](AtenCall& c) {
    Value* a = operand(c, 0, DType::boolean);
    if (c.size() < 2) return one(apply(c.graph(), op_name, {a}));
    return one(apply(c.graph(), op_name, {a, operand(c, 1, DType::boolean)}));
  };
}

AtenImport import_float_test(const char* op_name) {
  return [=](AtenCall& c) {
    Value* x = c.tensor(0);
    if (!is_float(x->type().dtype)) {
      return one(full(c.graph(), DType::boolean, 0, x->type().shape));
    }
    return one(apply(c.graph(), op_name, {x}));
  };
}

Definition float_test(const char* name, Prim prim, const char* doc) {
  Definition d(name, doc);
  d.in({"x"})
      .traits(Trait::pure | Trait::elementwise)
      .traits(Trait::cheap)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, floating);
        return Type::tensor(DType::boolean, c.in(0).shape);
      })
      .map([prim](BodyContext& c, int, Indices i) { return c.s.unary(prim, c.in(0, i)); })
      .usual_import(import_float_test(name));
  return d;
}

AtenImport import_is_infinity(double sign) {
  return [=](AtenCall& c) {
    Graph& g = c.graph();
    Value* x = c.tensor(0);
    if (!is_float(x->type().dtype)) return one(full(g, DType::boolean, 0, x->type().shape));
    return one(
        eq(g, x, scalar(g, x->type().dtype, sign * std::numeric_limits<double>::infinity())));
  };
}

std::vector<Value*> import_where(AtenCall& c) {
  const DType t = c.result().dtype;
  return one(where(c.graph(), operand(c, 0, DType::boolean), operand(c, 1, t), operand(c, 2, t)));
}

std::vector<Value*> import_masked_fill(AtenCall& c) {
  const DType t = c.result().dtype;
  Value* filled =
      where(c.graph(), operand(c, 1, DType::boolean), operand(c, 2, t), operand(c, 0, t));
  return one(filled);
}

void register_where() {
  Definition("where", "yes where the condition holds, no elsewhere.")
      .in({"condition", "yes", "no"})
      .traits(Trait::pure | Trait::elementwise | Trait::cheap)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, [](DType d) { return d == DType::boolean; });
        require_same_dtype(c, 1, 2);
        return Type::tensor(c.in(1).dtype, broadcast_inputs(c));
      })
      .map([](BodyContext& c, int, Indices i) {
        return c.s.select(in_broadcast(c, 0, i), in_broadcast(c, 1, i), in_broadcast(c, 2, i));
      })
      .aten("aten.where.self", import_where)
      .aten("aten.where.Scalar", import_where)
      .aten("aten.where.ScalarSelf", import_where)
      .aten("aten.where.ScalarOther", import_where)
      .aten("aten.masked_fill.Scalar", import_masked_fill)
      .aten("aten.masked_fill.Tensor", import_masked_fill)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{flag_data({s, Dim(1)}), data({Dim(6)}), data({})}, {}, {}};
      })
      .define();
}

}  // namespace

void register_compare() {
  comparison("eq", Prim::eq, "a == b.")
      .traits(Trait::commutative)
      .aten({"aten.eq.Tensor", "aten.eq.Scalar"})
      .define();
  comparison("ne", Prim::ne, "a != b; true if either is NaN.")
      .traits(Trait::commutative)
      .aten({"aten.ne.Tensor", "aten.ne.Scalar"})
      .define();
  comparison("lt", Prim::lt, "a < b.").aten({"aten.lt.Tensor", "aten.lt.Scalar"}).define();
  comparison("le", Prim::le, "a <= b.").aten({"aten.le.Tensor", "aten.le.Scalar"}).define();
  comparison("gt", Prim::gt, "a > b.").aten({"aten.gt.Tensor", "aten.gt.Scalar"}).define();
  comparison("ge", Prim::ge, "a >= b.").aten({"aten.ge.Tensor", "aten.ge.Scalar"}).define();
  float_test("is_nan", Prim::is_nan, "True where x is NaN.").aten("aten.isnan.default").define();
  float_test("is_inf", Prim::is_inf, "True where x is plus or minus infinity.")
      .aten("aten.isinf.default")
      .define();

  binary("bit_and", Prim::bit_and, "Bits of both; logical and for bool.", integral)
      .traits(Trait::commutative | Trait::cheap)
      .aten({"aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar", "aten.__and__.Tensor",
             "aten.__and__.Scalar"})
      .aten("aten.logical_and.default", import_logical("bit_and"))
      .define();
  binary("bit_or", Prim::bit_or, "Bits of either; logical or for bool.", integral)
      .traits(Trait::commutative | Trait::cheap)
      .aten({"aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar", "aten.__or__.Tensor",
             "aten.__or__.Scalar"})
      .aten("aten.logical_or.default", import_logical("bit_or"))
      .define();
  binary("bit_xor", Prim::bit_xor, "Bits of one only; exclusive or for bool.", integral)
      .traits(Trait::commutative | Trait::cheap)
      .aten({"aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar"})
      .aten("aten.logical_xor.default", import_logical("bit_xor"))
      .define();
  unary("bit_not", Prim::bit_not, "Every bit flipped; logical not for bool.", integral)
      .traits(Trait::cheap)
      .aten("aten.bitwise_not.default")
      .aten("aten.logical_not.default", import_logical("bit_not"))
      .define();
  const DTypeSet integers = [](DType d) { return is_int(d); };
  binary("shl", Prim::shl, "a shifted left by b bits.", integers)
      .aten({"aten.bitwise_left_shift.Tensor", "aten.__lshift__.Scalar"})
      .tested(0, 6)
      .define();
  binary("shr", Prim::shr, "a shifted right by b bits, keeping the sign.", integers)
      .aten({"aten.bitwise_right_shift.Tensor", "aten.__rshift__.Scalar", "aten.__rshift__.Tensor"})
      .tested(0, 6)
      .define();
  register_where();
  register_aten_row("aten.isposinf.default", import_is_infinity(1));
  register_aten_row("aten.isneginf.default", import_is_infinity(-1));
  register_aten_facts({"aten.where"}, {.range = AtenFacts::Range::chosen});
}

}  // namespace gex::ops
