#pragma once
// Proofs that a Program loaded from a file accesses nothing outside its buffers, for all sizes that
// its guards allow.

#include <string>
#include <vector>

#include "backend/parsed_codes.hpp"
#include "cache/access_bounds.hpp"
#include "loop/kernel.hpp"
#include "program/program.hpp"

namespace gex {

// The inequalities that the guards guarantee.
Facts facts_of(const program::Program& program);

// A launch of a loop kernel, and the kernel of its code.
struct KernelLaunch {
  const program::Launch* launch = nullptr;
  const loop::Kernel* kernel = nullptr;
};

// Returns a sentence for each possible error: sizes of buffers against their types and the memory
// they share, copies, fills, operands of calls, outputs.
std::vector<std::string> unproven_sizes(const program::Program& program);

// The same for a launch: it matches the kernel's buffers, sizes and (on the CPU) grid points, has
// enough scratch, stores only to buffers that it declares as written, and every access is in
// bounds.
std::vector<std::string> unproven_launch(const program::Program& program,
                                         const KernelLaunch& launch);

// What the elements of a buffer take of its memory: half of it if each has a flag
// (BufferDesc::exchanged).
Dim bytes_of_values(const program::Program& program, program::BufferId id);

// Both for a whole program, including problem_bounds.hpp. `codes` are its parsed codes. Blocks,
// threads and memory of a GPU's launches: device_bounds.hpp.
std::vector<std::string> unproven_parts(const program::Program& program,
                                        const backend::ParsedCodes& codes);

}  // namespace gex
