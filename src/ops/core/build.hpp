#pragma once
// Builder functions: one C++ call per node, used by expansions, passes, importers and the public
// builder. Operands of arithmetic must have one dtype; shapes broadcast. Nodes are inserted at the
// graph's insertion point.

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

// Output 0 of a new node of the named op.
Value* apply(Graph& g, std::string_view op_name, std::vector<Value*> inputs);
template <class S>
Value* apply(Graph& g, std::string_view op_name, std::vector<Value*> inputs, const S& attrs) {
  return g.add(op(op_name), std::move(inputs), to_attr_list(attrs))->output();
}

// --- constants ------------------------------------------------------------------------------
Value* full(Graph& g, DType dtype, double value, Shape shape);
Value* scalar(Graph& g, DType dtype, double value);
Value* scalar_int(Graph& g, DType dtype, std::int64_t value);  // exact
Value* constant(Graph& g, HostTensor tensor);
Value* dim_value(Graph& g, Dim value);  // i64, 0-d
Value* iota(Graph& g, Dim size);        // i64[size]: 0, 1, ...
Value* zeros_like(Graph& g, Value* x);

// --- elementwise ----------------------------------------------------------------------------
Value* cast(Graph& g, Value* x, DType dtype);  // x itself if it has that dtype
#define GEX_OPS_UNARY(name) \
  inline Value* name(Graph& g, Value* x) { return apply(g, #name, {x}); }
GEX_OPS_UNARY(neg)
GEX_OPS_UNARY(abs)
GEX_OPS_UNARY(sign)
GEX_OPS_UNARY(exp)
GEX_OPS_UNARY(exp2)
GEX_OPS_UNARY(expm1)
GEX_OPS_UNARY(log)
GEX_OPS_UNARY(log2)
GEX_OPS_UNARY(log1p)
GEX_OPS_UNARY(sqrt)
GEX_OPS_UNARY(rsqrt)
GEX_OPS_UNARY(reciprocal)
GEX_OPS_UNARY(sin)
GEX_OPS_UNARY(cos)
GEX_OPS_UNARY(tanh)
GEX_OPS_UNARY(sigmoid)
GEX_OPS_UNARY(erf)
GEX_OPS_UNARY(floor)
GEX_OPS_UNARY(ceil)
GEX_OPS_UNARY(relu)
GEX_OPS_UNARY(silu)
GEX_OPS_UNARY(bit_not)
GEX_OPS_UNARY(is_nan)
#undef GEX_OPS_UNARY
#define GEX_OPS_BINARY(name) \
  inline Value* name(Graph& g, Value* a, Value* b) { return apply(g, #name, {a, b}); }
GEX_OPS_BINARY(add)
GEX_OPS_BINARY(sub)
GEX_OPS_BINARY(mul)
GEX_OPS_BINARY(div)
GEX_OPS_BINARY(floor_div)
GEX_OPS_BINARY(trunc_div)
GEX_OPS_BINARY(mod)
GEX_OPS_BINARY(fmod)
GEX_OPS_BINARY(pow)
GEX_OPS_BINARY(minimum)
GEX_OPS_BINARY(maximum)
GEX_OPS_BINARY(eq)
GEX_OPS_BINARY(ne)
GEX_OPS_BINARY(lt)
GEX_OPS_BINARY(le)
GEX_OPS_BINARY(gt)
GEX_OPS_BINARY(ge)
GEX_OPS_BINARY(bit_and)
GEX_OPS_BINARY(bit_or)
GEX_OPS_BINARY(bit_xor)
#undef GEX_OPS_BINARY
// With a number of x's dtype on the right.
Value* add(Graph& g, Value* x, double b);
Value* sub(Graph& g, Value* x, double b);
Value* mul(Graph& g, Value* x, double b);
Value* div(Graph& g, Value* x, double b);
Value* square(Graph& g, Value* x);
Value* where(Graph& g, Value* condition, Value* yes, Value* no);

// --- reductions: axes may be negative and in any order ---------------------------------------
Value* reduce(Graph& g, std::string_view op_name, Value* x, Ints axes, bool keepdim = false);
inline Value* reduce_sum(Graph& g, Value* x, Ints axes, bool keepdim = false) {
  return reduce(g, "reduce_sum", x, std::move(axes), keepdim);
}
inline Value* reduce_max(Graph& g, Value* x, Ints axes, bool keepdim = false) {
  return reduce(g, "reduce_max", x, std::move(axes), keepdim);
}
inline Value* reduce_min(Graph& g, Value* x, Ints axes, bool keepdim = false) {
  return reduce(g, "reduce_min", x, std::move(axes), keepdim);
}
inline Value* reduce_mean(Graph& g, Value* x, Ints axes, bool keepdim = false) {
  return reduce(g, "reduce_mean", x, std::move(axes), keepdim);
}
inline Value* argmax(Graph& g, Value* x, Ints axes, bool keepdim = false) {
  return reduce(g, "argmax", x, std::move(axes), keepdim);
}
inline Value* argmin(Graph& g, Value* x, Ints axes, bool keepdim = false) {
  return reduce(g, "argmin", x, std::move(axes), keepdim);
}
// Sums x over the axes along which `shape` was broadcast.
Value* sum_to(Graph& g, Value* x, const Shape& shape);
Value* cumsum(Graph& g, Value* x, std::int64_t axis);
Value* softmax(Graph& g, Value* x, std::int64_t axis);
Value* log_softmax(Graph& g, Value* x, std::int64_t axis);

// --- views ------------------------------------------------------------------------------------
Value* reshape(Graph& g, Value* x, Shape shape);
Value* transpose(Graph& g, Value* x, Ints perm);
Value* swap_axes(Graph& g, Value* x, std::int64_t a, std::int64_t b);
Value* slice(Graph& g, Value* x, std::int64_t axis, Dim start, Dim size, std::int64_t step = 1);
Value* select(Graph& g, Value* x, std::int64_t axis, Dim index);  // drops the axis
Value* expand(Graph& g, Value* x, Shape shape);
Value* squeeze(Graph& g, Value* x, std::int64_t axis);
Value* unsqueeze(Graph& g, Value* x, std::int64_t axis);
Value* flip(Graph& g, Value* x, Ints axes);
// x from `start`, in [0, size), on; then what is before it.
Value* roll(Graph& g, Value* x, std::int64_t axis, Dim start);
Value* cat(Graph& g, std::vector<Value*> xs, std::int64_t axis);
Value* pad(Graph& g, Value* x, Dims low, Dims high, double value = 0);

// --- gathers and scatters -----------------------------------------------------------------------
Value* index(Graph& g, Value* x, std::vector<Value*> indices, Ints axes);
Value* take(Graph& g, Value* x, Value* indices, std::int64_t axis);
Value* take_along(Graph& g, Value* x, Value* indices, std::int64_t axis);
Value* index_put(Graph& g, Value* x, Value* values, std::vector<Value*> indices, Ints axes,
                 std::string mode = "set");
Value* scatter(Graph& g, Value* x, Value* indices, Value* source, std::int64_t axis,
               std::string mode = "set");
Value* slice_update(Graph& g, Value* x, Value* source, Dims starts, Ints steps);

// --- contractions -------------------------------------------------------------------------------
Value* matmul(Graph& g, Value* a, Value* b, bool wide = false);
// x @ weight^T + bias, rounded once; bias may be null.
Value* linear(Graph& g, Value* x, Value* weight, Value* bias);
Value* conv2d(Graph& g, Value* x, Value* weight, const Conv& attrs);
Value* attention(Graph& g, Value* q, Value* k, Value* v, Value* mask, const Attention& attrs);

// The expansion of the node by its op's definition; the node itself stays. For passes and tests.
std::vector<Value*> expand_node(Graph& g, Node& node);

}  // namespace gex::ops
