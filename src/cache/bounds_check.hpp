#pragma once
// Proofs that a Program that came from a file touches nothing outside its buffers, for all sizes
// that its guards allow.

#include <string>
#include <vector>

#include "backend/parsed_codes.hpp"
#include "cache/access_bounds.hpp"
#include "loop/kernel.hpp"
#include "program/program.hpp"

namespace gex {

// What the guards promise.
Facts facts_of(const program::Program& program);

// A launch of a loop kernel: where it is in the program, and the kernel of its code.
struct KernelLaunch {
  const program::Launch* launch = nullptr;
  const loop::Kernel* kernel = nullptr;
};

// A sentence for each thing that may be wrong: sizes of buffers against their types and against
// what they share memory with, copies, fills, views that calls see, results.
std::vector<std::string> unproven_sizes(const program::Program& program);

// The same of what a launch does: as many buffers, sizes and grid points as the kernel has, enough
// scratch, stores only to buffers that it says it writes, and every access inside.
std::vector<std::string> unproven_launch(const program::Program& program,
                                         const KernelLaunch& launch);

// Both for a whole program, and what problem_bounds.hpp proves. `table` has its codes.
std::vector<std::string> unproven_parts(const program::Program& program,
                                        const backend::ParsedCodes& codes);

}  // namespace gex
