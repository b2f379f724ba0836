#pragma once
// Proofs about the launches of a GPU. Its kernels take blocks, threads, shared memory and a
// workspace from the launch, and one kernel may run several launches.

#include <string>
#include <vector>

#include "backend/parsed_codes.hpp"
#include "program/program.hpp"

namespace gex {

// A sentence for each launch that has another layout than the target's backend plans for its code,
// or that can't be part of the kernel that the program makes it part of. Nothing for the CPU.
std::vector<std::string> unproven_layouts(const program::Program& program,
                                          const backend::ParsedCodes& codes);

// All that is checked of a Program that was loaded from a file: unproven_parts, unproven_layouts.
std::vector<std::string> unproven_program(const program::Program& program);

}  // namespace gex
