#pragma once
// Products with quantised weights: see problems/quantised_matmul.hpp.

#include "ir/graph.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

// quantised_matmul
struct QuantisedMatmul {
  std::int64_t bits = 8;
  std::int64_t group = 0;
  std::int64_t zero = 0;
  bool wide = false;  // the result is f32
  static constexpr auto fields() {
    return std::tuple{field("bits", &QuantisedMatmul::bits),
                      field("group", &QuantisedMatmul::group),
                      field("zero", &QuantisedMatmul::zero), field("wide", &QuantisedMatmul::wide)};
  }
};

void register_quantised_products();

// x [m, k] times the transposed weights (q [n, k] - zero) * scale + offset. With 4 bits q is
// [n, (k + 1) / 2]. scale and offset are [n or 1, groups], or null; offset is f32.
Value* quantised_matmul(Graph& g, Value* x, Value* q, Value* scale, Value* offset,
                        const QuantisedMatmul& attrs);
// The same for x of any rank from 2 on.
Value* quantised_linear(Graph& g, Value* x, Value* q, Value* scale, Value* offset,
                        const QuantisedMatmul& attrs);

// Rows of integers from 0 to 15 as bytes that hold two of them, the first in the lower half.
Value* pack_halves(Graph& g, Value* numbers);
// The first `count` numbers of rows of such bytes, as u8.
Value* unpack_halves(Graph& g, Value* bytes, Dim count);

}  // namespace gex::ops
