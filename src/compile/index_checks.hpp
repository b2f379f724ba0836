#pragma once
// Makes indices out of range errors, as in PyTorch. The ops themselves only guarantee to stay
// inside their tensors (gathers clamp, scatters skip); add_index_checks() adds the smallest and
// largest index, a comparison, and a call to the host if it fails.

#include <cstdint>
#include <span>

#include "ir/graph.hpp"
#include "program/program.hpp"
#include "runtime/session/session.hpp"

namespace gex {

// For index, index_put, take_along and scatter, also in subgraphs. Indices known to be valid cost
// nothing. UserError(invalid_argument): a constant index is out of range.
void add_index_checks(Graph& graph);

// For Hosts: the call made by a failed check, and its error.
bool is_index_check(const program::Call& call);
[[noreturn]] void fail_index_check(const program::Call& call,
                                   std::span<const runtime::TensorRef> inputs,
                                   std::span<const std::int64_t> integers);

}  // namespace gex
