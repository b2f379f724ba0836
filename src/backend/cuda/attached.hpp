#pragma once
// Epilogues and prologues as structs of CUDA C: bind(words) reads addresses and sizes once, and
// operator() computes one element.

#include <string>

#include "backend/cuda/kernel_text.hpp"

namespace gex::backend::cuda {

// "struct NAME" with bind(words) and operator()(point, value): applies the kernel to one finished
// element at a linear index of the result's dense grid and stores the results. `buffers`: those of
// the launch; `values`: DeviceLimits::values.
std::string epilogue_text(const std::string& name, const AttachedKernels& attached,
                          int first_buffer, int buffers, std::span<const std::int64_t> values);

// "struct NAME" with bind(words) and operator()(point): the element at a linear index of the
// operand's dense grid.
std::string prologue_text(const std::string& name, const AttachedKernels::Prologue& prologue,
                          int buffers, std::span<const std::int64_t> values);

}  // namespace gex::backend::cuda
