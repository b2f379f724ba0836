#pragma once
// CUDA C text of the codes of a Program, and which of its launches are kernels of their own.

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "backend/parsed_codes.hpp"
#include "program/program.hpp"
#include "program/specialiser.hpp"

namespace gex::backend::cuda {

// Code::algorithm of products that the vendor's library computes, whose texts are empty.
inline constexpr const char* kLibrary = "cublas";

// With DeviceLimits::form also of products that the library computes in the Program.
KernelText text_of_code(const program::Program& program, const ParsedCodes& parsed, int code,
                        const DeviceLimits& limits, const std::vector<bool>& exchanged = {});

// Launches the kernel of a text, whose grid is a constant.
program::StaticLaunch static_launch(const KernelText& text,
                                    std::shared_ptr<const std::string> image);

// Those that run alone: not merged with others, no phases.
std::vector<const program::Launch*> separate_launches(const program::Program& program);

}  // namespace gex::backend::cuda
