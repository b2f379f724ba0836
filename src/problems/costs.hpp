#pragma once
// What a launch of a problem moves, for given sizes, and what kind of arithmetic it does.

#include <cstdint>
#include <optional>
#include <span>

#include "problems/problem.hpp"

namespace gex::problems {

struct Traffic {
  double read = 0, written = 0;  // bytes
};

// Bytes of the operands in memory and of the result, each element once; `dims` of the launch.
// Nothing for problems whose traffic equals the size of their buffers.
std::optional<Traffic> memory_traffic(const Problem& problem, std::span<const std::int64_t> dims,
                                      bool has_epilogue);

// The dtype of the operands that are multiplied, which decides whether tensor cores of a GPU can do
// it; nothing for problems without products, and for those that only run on other units.
std::optional<DType> multiplied_dtype(const Problem& problem);

}  // namespace gex::problems
