#include "ops/core/integer_products.hpp"

#include "ops/core/build.hpp"

namespace gex::ops {

namespace {

Value* sum_i32(Graph& g, Value* x, Ints axes) {
  return cast(g, reduce_sum(g, cast(g, x, DType::i32), std::move(axes), true), DType::i32);
}

}  // namespace

Value* centred_product(Graph& g, Value* a, Value* a_zero, Value* b, Value* b_zero) {
  const Shape shape = a->type().shape;
  // One matrix for all batch entries: multiply all their rows at once.
  const bool flat = b->type().rank() == 2 && shape.size() > 2 &&
                    (a_zero == nullptr || a_zero->type().rank() == 0);
  if (flat) a = reshape(g, a, {product(Shape(shape.begin(), shape.end() - 1)), shape.back()});
  Value* y = apply(g, "integer_matmul", {a, b});
  if (a_zero != nullptr) y = sub(g, y, mul(g, a_zero, sum_i32(g, b, {-2})));
  if (b_zero != nullptr) {
    Value* rows = cast(g, a, DType::i32);
    if (a_zero != nullptr) rows = sub(g, rows, a_zero);
    y = sub(g, y, mul(g, b_zero, sum_i32(g, rows, {-1})));
  }
  if (!flat) return y;
  Shape result(shape.begin(), shape.end() - 1);
  result.push_back(b->type().shape.back());
  return reshape(g, y, std::move(result));
}

Value* centred_convolution(Graph& g, Value* x, Value* weight, const IntegerConv& attrs, Value* zero,
                           Value* weight_zero) {
  Value* y = apply(g, "integer_conv2d", {x, weight}, attrs);
  if (weight_zero != nullptr) {
    const Shape shape = y->type().shape, w = weight->type().shape;
    Value* ones = full(g, DType::i8, 1, {Dim(attrs.groups), w[1], w[2], w[3]});
    Value* sums = centred_convolution(g, x, ones, attrs, zero);
    const Shape apart{shape[0], Dim(attrs.groups), Dim(1), shape[2], shape[3]};
    const Shape whole{shape[0], apart[1], floordiv(w[0], apart[1]), shape[2], shape[3]};
    if (attrs.groups != 1) sums = reshape(g, expand(g, reshape(g, sums, apart), whole), shape);
    if (weight_zero->type().rank() == 1)
      weight_zero = reshape(g, weight_zero, {w[0], Dim(1), Dim(1)});
    y = sub(g, y, mul(g, sums, weight_zero));
  }
  if (zero == nullptr && attrs.border == 0) return y;
  Value* sums = sum_i32(g, weight, {1, 2, 3});
  sums = zero != nullptr ? mul(g, sums, zero) : mul(g, sums, static_cast<double>(attrs.border));
  return sub(g, y, reshape(g, sums, {weight->type().shape[0], Dim(1), Dim(1)}));
}

Value* minus_128(Graph& g, Value* x) {
  return cast(g, sub(g, cast(g, x, DType::i32), 128), DType::i8);
}

}  // namespace gex::ops
