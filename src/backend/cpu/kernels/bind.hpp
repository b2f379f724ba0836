#pragma once
// Binds a kernel of a variant to its context, for the make_* functions of this folder.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/matmul_scratch.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "backend/cpu/kernels/variants.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"

namespace gex::kernels {

// The Callable owns the context and the attached code.
template <class Context>
program::Callable bind_kernel(RangeFn fn, const Context& context, const Attached& attached = {}) {
  struct Bound {
    Context context;
    Attached attached;
  };
  auto bound = std::make_shared<Bound>(Bound{context, attached});
  const void* address = &bound->context;
  return {fn, address, std::move(bound)};
}

inline EpilogueCall epilogue_call(const std::optional<Epilogue>& epilogue) {
  if (!epilogue) return {};
  GEX_CHECK(epilogue->fn, "an epilogue needs code");
  if (epilogue->extra_buffers > kMaxEpilogueBuffers)
    fail(ErrorCode::unsupported, "an epilogue may use ", kMaxEpilogueBuffers, " buffers, got ",
         epilogue->extra_buffers, "; fuse fewer operands into it");
  return {epilogue->fn.fn, epilogue->fn.context, epilogue->extra_buffers, epilogue->dims_begin};
}

// The prologue of one operand; empty if the operand is in memory. `computed` comes from the
// problem.
inline PrologueCall prologue_call(const Attached& attached, OperandSet computed, int operand) {
  for (const Prologue& prologue : attached.prologues) {
    if (prologue.operand != operand) continue;
    GEX_CHECK(prologue.fn && contains(computed, operand), "prologue of operand ", operand);
    GEX_CHECK(prologue.input_buffers <= kMaxPrologueInputs, "a prologue of ",
              prologue.input_buffers, " inputs");
    return {prologue.fn.fn, prologue.fn.context, prologue.first_buffer, prologue.input_buffers,
            prologue.dims_begin};
  }
  GEX_CHECK(!contains(computed, operand), "operand ", operand, " has no prologue");
  return {};
}

// Size of the accumulators for this operand dtype.
constexpr std::int64_t accumulator_bytes(DType operand) { return operand == DType::f64 ? 8 : 4; }

// The most scratch of a blocked matmul; see TileScratch.
constexpr std::int64_t tile_scratch_bytes(DType operand) {
  return accumulator_bytes(operand) * kLargestScratch.elements();
}

// Staging memory for prologues.
constexpr std::int64_t staged_bytes(OperandSet computed, DType operand) {
  return computed == 0 ? 0 : kStagedElements * accumulator_bytes(operand);
}

// f32, f16, bf16 in any combination, or both f64; the kernel stores no dtype wider than its
// accumulators.
void check_product_dtypes(const char* kernel, DType a, DType b, DType out, bool has_epilogue);

}  // namespace gex::kernels
