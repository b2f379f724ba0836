#pragma once
// Batched matrix product C[b] = A[b]*B[b] on the CPU, blocked, packed, with an optional epilogue.
//
// Buffers: [A, B, C], or with an epilogue [A, B, extra...]; a computed operand's is not read. Then
// the inputs of prologues. Dims: see matmul_dims.hpp.
// The grid counts units of kUnitRows x kUnitCols of the output; any split of it gives the same
// bits, and long ranges run faster than many short ones because packing is shared within a range.

#include <cstdint>
#include <optional>

#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/form.hpp"
#include "backend/cpu/kernels/matmul_dims.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/hash.hpp"

namespace gex::kernels {

struct Variant;

struct MatmulProblem {
  DType a = DType::f32;
  DType b = DType::f32;   // a and b: any of f32, f16, bf16, accumulated in f32; or both f64
  DType c = DType::f32;   // f32, f16, bf16; f64 or f32 for an f64 problem; ignored with an epilogue
  bool b_packed = false;  // B was written by make_matmul_pack
  bool any_rows = false;  // a row has the same bits whatever the number of rows
  OperandSet computed = 0;  // by prologues, as f32 or f64: 0 is A, 1 is B

  bool operator==(const MatmulProblem&) const = default;
  Hash hash() const;
};

Dim matmul_grid(const MatmulProblem& problem, Dim batch, Dim m, Dim n, Dim k);
// For each worker, without what the epilogue itself asks for.
Dim matmul_scratch_bytes(const MatmulProblem& problem, Dim batch, Dim m, Dim n, Dim k);

// UserError(unsupported) for dtypes other than those above. The variant is the best one of this
// machine, and the form that of the kernel's own rule, unless one is given: see ways.hpp.
program::Callable make_matmul(const MatmulProblem& problem, const Attached& attached = {},
                              const Variant* variant = nullptr, Form form = Form::by_rule);

// B packed ahead of time (frozen weights): panels [batch][ceil(N/panel)][K][panel] in B's dtype.
// Launch: buffers [B, packed], dims pack_dims, no scratch. Strides of the packed B in a matmul
// launch: batch1 = matmul_packed_elements(1 batch), batch0 = batch1's size times that.
Dim matmul_pack_grid(const MatmulProblem& problem, Dim batch, Dim n, Dim k);
Dim matmul_packed_elements(const MatmulProblem& problem, Dim batch, Dim n, Dim k);
program::Callable make_matmul_pack(const MatmulProblem& problem, const Variant* variant = nullptr);

}  // namespace gex::kernels
