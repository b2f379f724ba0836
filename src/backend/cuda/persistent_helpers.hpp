#pragma once
// CUDA C text that all persistent kernels share (persistent_text.hpp).

#include <cstdint>
#include <string_view>

namespace gex::backend::cuda {

// Exchanged memory: Exchanged<T> to write it, Staged<size, count> to wait for it and copy it to
// shared memory; end_phase.
std::string_view exchange_text();
// wait_for_phase, PhaseEntry.
std::string_view phase_table_text();

// ProductTask, SlotPlan, request_weights, multiply_slots, join_slots, plain_product.
std::string_view phase_products_text();
// Shared memory of their sums.
inline constexpr std::int64_t kSumBytes = 6 * 8 * 64 * 4;

// Of kernels with a ring (ring_kernel_text.hpp): macros that make texts of launches leave out the
// loader, before exchange_text(); the ring; the tables of phases; products.
std::string_view ring_threads_text();
std::string_view ring_text();
std::string_view ring_phases_text();
std::string_view ring_products_text();
// After the functions of the launches and products: a phase of products; the kernel.
std::string_view ring_product_phase_text();
std::string_view ring_kernel_text();

}  // namespace gex::backend::cuda
