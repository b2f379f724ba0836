// Divisions that round to an integer, with eager's intermediate rounding.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// Eager divides f16 and bf16 by a tensor in their own precision, by a number or a 0-d tensor in
// f32.
bool rounds_each_step(const AtenCall& c) {
  return is_low_float(c.result().dtype) && c.arg(1).is_tensor() && c.tensor(1)->type().rank() > 0;
}

Value* floor_of_quotient(Graph& g, Value* a, Value* b) {
  const DType t = a->type().dtype;
  Value *zero = scalar(g, t, 0), *quotient = div(g, a, b), *remainder = fmod(g, a, b);
  Value* whole = div(g, sub(g, a, remainder), b);
  Value* other_side =
      bit_and(g, ne(g, remainder, zero), bit_xor(g, lt(g, b, zero), lt(g, remainder, zero)));
  whole = where(g, other_side, sub(g, whole, 1), whole);
  Value* lower = floor(g, whole);
  lower = where(g, gt(g, sub(g, whole, lower), scalar(g, t, 0.5)), add(g, lower, 1), lower);
  lower = where(g, eq(g, whole, zero), mul(g, quotient, 0.0), lower);
  return where(g, eq(g, b, zero), quotient, lower);
}

std::vector<Value*> import_floor(AtenCall& c) {
  if (!rounds_each_step(c)) return import_binary("floor_div")(c);
  const DType t = c.result().dtype;
  return one(floor_of_quotient(c.graph(), operand(c, 0, t), operand(c, 1, t)));
}

std::vector<Value*> import_trunc(AtenCall& c) {
  if (!rounds_each_step(c)) return import_binary("trunc_div")(c);
  const DType t = c.result().dtype;
  return one(apply(c.graph(), "trunc", {div(c.graph(), operand(c, 0, t), operand(c, 1, t))}));
}

std::vector<Value*> import_rounded_division(AtenCall& c) {  // a, b, rounding mode
  if (c.none(2)) return import_binary("div")(c);
  return c.string(2) == "floor" ? import_floor(c) : import_trunc(c);
}

}  // namespace

void register_division_rows() {
  register_aten_row("aten.div.Tensor_mode", import_rounded_division);
  register_aten_row("aten.div.Scalar_mode", import_rounded_division);
  register_aten_row("aten.floor_divide.default", import_floor);
  register_aten_row("aten.floor_divide.Scalar", import_floor);
  register_aten_facts({"aten.div", "aten.floor_divide"}, {.divisor = 1});
}

}  // namespace gex::ops
