#include "base/strided_copy.hpp"

#include <algorithm>
#include <cstring>

namespace gex {

void copy_elements(std::size_t element_bytes, std::span<const std::int64_t> shape,
                   const std::byte* from, std::span<const std::int64_t> from_strides, std::byte* to,
                   std::span<const std::int64_t> to_strides) {
  for (std::int64_t size : shape)
    if (size == 0) return;
  // The longest suffix of axes that is dense on both sides is copied at once.
  std::size_t outer = shape.size();
  std::int64_t run = 1;
  while (outer > 0 && (shape[outer - 1] == 1 ||
                       (from_strides[outer - 1] == run && to_strides[outer - 1] == run))) {
    run *= shape[--outer];
  }
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  std::vector<std::int64_t> index(outer, 0);
  for (;;) {
    std::int64_t from_at = 0, to_at = 0;
    for (std::size_t d = 0; d < outer; ++d) {
      from_at += index[d] * from_strides[d];
      to_at += index[d] * to_strides[d];
    }
    std::memcpy(to + to_at * bytes, from + from_at * bytes, static_cast<std::size_t>(run * bytes));
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::vector<std::int64_t> dense_strides_of(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<std::int64_t>(shape[d], 1);
  return strides;
}

std::int64_t extent_of(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

HostTensor dense_copy(DType dtype, std::span<const std::int64_t> shape,
                      std::span<const std::int64_t> strides, const std::byte* data) {
  HostTensor copy(dtype, {shape.begin(), shape.end()});
  copy_elements(size_of(dtype), shape, data, strides, copy.data(), dense_strides_of(shape));
  return copy;
}

}  // namespace gex
