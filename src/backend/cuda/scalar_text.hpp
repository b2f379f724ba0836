#pragma once
// How dtypes, constants, casts and primitives are spelled in CUDA C. Low floats are floats in
// registers, rounded to their dtype after each operation; bool is bool; other integers compute in
// 64 bits and are truncated to their width.

#include <cstdint>
#include <span>
#include <string>

#include "loop/kernel.hpp"

namespace gex::backend::cuda {

std::string register_type(DType dtype);
std::string memory_type(DType dtype);
// An element of memory as a register value, and a register value as an element.
std::string from_memory(DType dtype, const std::string& element);
std::string to_memory(DType dtype, const std::string& value);

std::string constant_text(DType dtype, double imm, std::int64_t imm_int);
std::string cast_text(DType from, DType to, const std::string& value);
// `operand`: dtype of the values the primitive works on. UserError(unsupported) if not spelled.
std::string prim_text(loop::Prim prim, DType operand, DType result,
                      std::span<const std::string> args);

}  // namespace gex::backend::cuda
