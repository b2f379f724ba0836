#pragma once
// Reproduces the order in which PyTorch's CPU sort, topk and kthvalue leave equal elements: the
// same algorithms with equivalent comparisons.

#include <algorithm>
#include <cstdint>
#include <utility>

namespace gex {

// Order of equal elements: stable, or as eager's topk, sort or kthvalue leaves them.
enum class Ties { stable, as_topk, as_sort, as_kthvalue };

// The quickselect of eager's kthvalue: element k of n is the one that it returns, smaller ones are
// before it.
template <class Iterator, class Less>
void select_like_kthvalue(Iterator a, std::int64_t n, std::int64_t k, const Less& less) {
  const auto swap = [&](std::int64_t i, std::int64_t j) { std::swap(a[i], a[j]); };
  const auto order = [&](std::int64_t i, std::int64_t j) {
    if (less(a[j], a[i])) swap(i, j);
  };
  std::int64_t left = 0, right = n - 1;
  while (left + 1 < right) {
    // The median of three becomes the pivot.
    swap(left + (right - left) / 2, left + 1);
    order(left + 1, right);
    order(left, right);
    order(left + 1, left);
    const auto pivot = a[left];
    std::int64_t i = left + 1, j = right;
    while (true) {
      do ++i;
      while (less(a[i], pivot));
      do --j;
      while (less(pivot, a[j]));
      if (j < i) break;
      swap(i, j);
    }
    swap(left, j);
    if (j <= k) left = i;
    if (j >= k) right = j - 1;
  }
  if (right == left + 1) order(left, right);
}

// Puts the first k of n elements in order (as_kthvalue: only the k-th of them into its place);
// k > 0, ties are not stable.
template <class Iterator, class Less>
void order_like_eager(Iterator first, std::int64_t n, std::int64_t k, Ties ties, const Less& less) {
  if (ties == Ties::as_sort) return std::sort(first, first + n, less);
  if (ties == Ties::as_kthvalue) return select_like_kthvalue(first, n, k - 1, less);
  constexpr std::int64_t kFew = 64;
  if (k * kFew <= n) {
    std::partial_sort(first, first + k, first + n, less);
    return;
  }
  std::nth_element(first, first + k - 1, first + n, less);
  std::sort(first, first + k - 1, less);
}

}  // namespace gex
