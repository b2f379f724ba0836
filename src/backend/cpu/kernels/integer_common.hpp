#pragma once
// What products and convolutions of 8-bit integers share.

#include <cstdint>

#include "backend/cpu/kernels/epilogue.hpp"
#include "base/dtype.hpp"

namespace gex::kernels {

// Left operands a and right operands b of other signs are shifted: a' = a + 128 if it was signed,
// b' = b - 128 if it was unsigned, for the sides that must be unsigned and signed. Then
// sum(ab) = sum(a'b') + shift_b*sum(a') - shift_a*sum(b') - shift_a*shift_b*depth.
struct Shifts {
  std::uint8_t flip_unsigned = 0, flip_signed = 0;
  std::int32_t of_unsigned = 0, of_signed = 0;

  Shifts(DType unsigned_side, DType signed_side) {
    if (unsigned_side == DType::i8) flip_unsigned = 0x80, of_unsigned = 128;
    if (signed_side == DType::u8) flip_signed = 0x80, of_signed = 128;
  }
};

// Passes finished rows to the epilogue.
struct IntegerEpilogue {
  const EpilogueCall& call;
  const std::int64_t* dims;
  std::byte* scratch;
  void* buffers[1 + kMaxEpilogueBuffers];

  IntegerEpilogue(const EpilogueCall& epilogue, void* const* extra, const std::int64_t* launch_dims,
                  std::byte* rest)
      : call(epilogue), dims(launch_dims + epilogue.dims_begin), scratch(rest) {
    for (int i = 0; i < epilogue.extra_buffers; ++i) buffers[1 + i] = extra[i];
  }
  void run(const std::int32_t* values, std::int64_t begin, std::int64_t count) {
    // Integer arithmetic, because the address of element 0 may not be a valid pointer.
    buffers[0] = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(values) -
                                         static_cast<std::uintptr_t>(begin) * 4);
    call.fn(call.context, buffers, dims, begin, begin + count, scratch);
  }
};

// UserError unless operands are bytes and the result is i32.
void check_integer_dtypes(const char* kernel, DType a, DType b, DType result, bool has_epilogue);

}  // namespace gex::kernels
