#pragma once
// Reproduces the order in which PyTorch's CPU sort and topk leave equal elements: the same standard
// algorithms with equivalent comparisons.

#include <algorithm>
#include <cstdint>

namespace gex {

// Order of equal elements: stable, or as eager's topk or sort leaves them.
enum class Ties { stable, as_topk, as_sort };

// Puts the first k of n elements in order; k > 0, ties are not stable.
template <class Iterator, class Less>
void order_like_eager(Iterator first, std::int64_t n, std::int64_t k, Ties ties, const Less& less) {
  if (ties == Ties::as_sort) return std::sort(first, first + n, less);
  constexpr std::int64_t kFew = 64;
  if (k * kFew <= n) {
    std::partial_sort(first, first + k, first + n, less);
    return;
  }
  std::nth_element(first, first + k - 1, first + n, less);
  std::sort(first, first + k - 1, less);
}

}  // namespace gex
