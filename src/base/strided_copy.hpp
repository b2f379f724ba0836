#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.hpp"

namespace gex {

// Copies every element of one strided tensor to the same index of another; strides in elements.
void copy_elements(std::size_t element_bytes, std::span<const std::int64_t> shape,
                   const std::byte* from, std::span<const std::int64_t> from_strides, std::byte* to,
                   std::span<const std::int64_t> to_strides);

// Strides of a row-major tensor; an axis of size 0 counts as 1.
std::vector<std::int64_t> dense_strides_of(std::span<const std::int64_t> shape);

// Elements of memory from the first to one past the last that shape and strides reach; 0 if an axis
// has size 0. Strides must not be negative.
std::int64_t extent_of(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

// A row-major copy of strided memory.
HostTensor dense_copy(DType dtype, std::span<const std::int64_t> shape,
                      std::span<const std::int64_t> strides, const std::byte* data);

}  // namespace gex
