#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gex {

// Copies every element of one strided tensor to the same index of another; strides in elements.
void copy_elements(std::size_t element_bytes, std::span<const std::int64_t> shape,
                   const std::byte* from, std::span<const std::int64_t> from_strides, std::byte* to,
                   std::span<const std::int64_t> to_strides);

// Strides of a row-major tensor; an axis of size 0 counts as 1.
std::vector<std::int64_t> dense_strides_of(std::span<const std::int64_t> shape);

}  // namespace gex
