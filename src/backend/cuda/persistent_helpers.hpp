#pragma once
// CUDA C text that all persistent kernels share (persistent_text.hpp).

#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

// Exchanged memory: Exchanged<T> to write it, Staged<size, count> to wait for it and copy it to
// shared memory; counters of phases; PhaseEntry.
std::string_view exchange_text();

// ProductTask, SlotPlan, request_weights, multiply_slots, join_slots, plain_product.
std::string_view phase_products_text();
// Shared memory of their sums.
inline constexpr std::int64_t kSumBytes = 6 * 8 * 64 * 4;

}  // namespace gex::backend::cuda
