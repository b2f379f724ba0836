#include "ops/core/quantised_products.hpp"

#include "ops/core/build.hpp"

namespace gex::ops {

Value* quantised_matmul(Graph& g, Value* x, Value* q, Value* scale, Value* offset,
                        const QuantisedMatmul& attrs) {
  return apply(g, "quantised_matmul", {x, q, scale, offset}, attrs);
}

Value* quantised_linear(Graph& g, Value* x, Value* q, Value* scale, Value* offset,
                        const QuantisedMatmul& attrs) {
  Shape shape = x->type().shape;
  if (shape.size() == 2) return quantised_matmul(g, x, q, scale, offset, attrs);
  const Dim depth = shape.back();
  shape.pop_back();
  Value* y = quantised_matmul(g, reshape(g, x, {product(shape), depth}), q, scale, offset, attrs);
  shape.push_back(y->type().shape[1]);
  return reshape(g, y, std::move(shape));
}

Value* pack_halves(Graph& g, Value* numbers) {
  const Dim rows = numbers->type().shape[0], count = numbers->type().shape[1];
  const Dim bytes = ceildiv(count, 2);
  numbers = cast(g, numbers, DType::u8);
  if (!(bytes * Dim(2) == count))
    numbers = pad(g, numbers, {Dim(0), Dim(0)}, {Dim(0), bytes * Dim(2) - count});
  Value* pairs = reshape(g, numbers, {rows, bytes, Dim(2)});
  Value* high = apply(g, "shl", {select(g, pairs, 2, 1), scalar_int(g, DType::u8, 4)});
  return bit_or(g, select(g, pairs, 2, 0), high);
}

Value* unpack_halves(Graph& g, Value* bytes, Dim count) {
  const Dim rows = bytes->type().shape[0], stored = bytes->type().shape[1];
  Value* low = bit_and(g, bytes, scalar_int(g, DType::u8, 15));
  Value* high = apply(g, "shr", {bytes, scalar_int(g, DType::u8, 4)});
  Value* all = cat(g, {unsqueeze(g, low, 2), unsqueeze(g, high, 2)}, 2);
  return slice(g, reshape(g, all, {rows, stored * Dim(2)}), 1, 0, count);
}

}  // namespace gex::ops
