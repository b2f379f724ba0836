#pragma once
// Where PyTorch's sort and topk on the CPU leave equal elements: the same steps of the same
// standard algorithms, with comparisons that give the same answers.

#include <algorithm>
#include <cstdint>

namespace gex {

// The first k of n elements from `first` on, in order; `all`: as mode sorts, else as topk selects.
template <class Iterator, class Less>
void order_like_eager(Iterator first, std::int64_t n, std::int64_t k, bool all, const Less& less) {
  if (all) return std::sort(first, first + n, less);
  constexpr std::int64_t kFew = 64;
  if (k * kFew <= n) {
    std::partial_sort(first, first + k, first + n, less);
    return;
  }
  std::nth_element(first, first + k - 1, first + n, less);
  std::sort(first, first + k - 1, less);
}

}  // namespace gex
