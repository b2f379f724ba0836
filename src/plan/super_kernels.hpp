#pragma once
// Joins sequences of small launches into persistent kernels (SuperKernels): the launches, or groups
// of independent ones, become phases of one kernel (Launch::phase). Values that one phase passes to
// another go through exchanged memory (BufferDesc::exchanged), so phases of different blocks
// overlap; other memory makes a phase wait for an earlier one (Launch::after_phase). Small launches
// of one block are computed by every block that needs their result (Launch::recomputed).

#include <cstdint>
#include <functional>

#include "program/program.hpp"

namespace gex::plan {

struct SuperKernelOptions {
  // Whether the launch can be a phase, and whether it can read or write the buffer at a position as
  // exchanged memory.
  std::function<bool(const program::Launch&)> can_be_phase;
  std::function<bool(const program::Launch&, std::size_t)> can_exchange;
};

// Returns the number of persistent kernels. Programs with several streams are left alone.
int make_super_kernels(program::Program& program, const SuperKernelOptions& options);

}  // namespace gex::plan
