// Random draws like PyTorch's. Separate rows, since they take a key and the number of the draw in
// its graph, which no PyTorch overload has.

#include "ops/random.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

namespace {

enum : std::size_t { kKey = 0, kStream = 1, kFirst = 2 };

Value* draw(AtenCall& c, const char* op_name, DType dtype, const Shape& shape) {
  return apply(c.graph(), op_name, {c.tensor(kKey)}, Random{dtype, shape, c.integer(kStream)});
}

std::vector<Value*> uniform_row(AtenCall& c) {  // key, stream, low, high
  Graph& g = c.graph();
  const double low = c.number(kFirst), high = c.number(kFirst + 1);
  const Type& t = c.result();
  // In [0, 1) a draw is exact in its dtype; rounded to it, it could become 1.
  if (low == 0 && high == 1) return one(draw(c, "random_uniform", t.dtype, t.shape));
  Value* u = draw(c, "random_uniform", compute_type(t.dtype), t.shape);
  return one(to_result(c, add(g, mul(g, u, high - low), low)));
}

std::vector<Value*> normal_row(AtenCall& c) {  // key, stream, mean, deviation
  Graph& g = c.graph();
  Value* z = draw(c, "random_normal", compute_type(c.result().dtype), c.result().shape);
  return one(to_result(c, add(g, mul(g, z, c.number(kFirst + 1)), c.number(kFirst))));
}

std::vector<Value*> bernoulli_row(AtenCall& c) {  // key, stream, probability
  Graph& g = c.graph();
  Value* u = draw(c, "random_uniform", DType::f32, c.result().shape);
  return one(to_result(c, lt(g, u, operand(c, kFirst, DType::f32))));
}

std::vector<Value*> dropout_row(AtenCall& c) {  // key, stream, x, probability
  const DroppedOut dropped = dropped_out(c.graph(), c.tensor(kFirst), c.tensor(kKey),
                                         {c.number(kFirst + 1), c.integer(kStream)});
  return {to_result(c, dropped.result), dropped.kept};
}

}  // namespace

void register_random_rows() {
  register_aten_row("gex.uniform.default", uniform_row);
  register_aten_row("gex.normal.default", normal_row);
  register_aten_row("gex.bernoulli.default", bernoulli_row);
  register_aten_row("gex.native_dropout.default", dropout_row);
}

}  // namespace gex::ops
