#pragma once
// The call step of a failed index check, which compile/index_checks.hpp adds to graphs.

#include <cstdint>
#include <span>

#include "program/program.hpp"
#include "runtime/session/session.hpp"

namespace gex {

// Callees of front ends count from 0.
inline constexpr int kIndexCheck = -2;

// For Hosts: the call that a failed check makes, and its error.
bool is_index_check(const program::Call& call);
[[noreturn]] void fail_index_check(const program::Call& call,
                                   std::span<const runtime::TensorRef> inputs,
                                   std::span<const std::int64_t> integers);

// The error of indices from `low` to `high` into an axis of `size` elements.
[[noreturn]] void refuse_indices(const std::string& name, std::int64_t low, std::int64_t high,
                                 std::int64_t size);

}  // namespace gex
