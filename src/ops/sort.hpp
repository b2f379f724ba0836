#pragma once
// Attributes of sort and topk, and their reference implementations.

#include <cstdint>
#include <tuple>
#include <vector>

#include "ops/core/attributes.hpp"
#include "ops/core/reference.hpp"

namespace gex::ops {

// Not `stable`: the order of equal elements is that of PyTorch: for `sort` as its sort leaves them,
// for `topk` as its topk selects. `kth`: the last of the k elements is the one that PyTorch's
// kthvalue returns, the others are before it in any order.
struct Sort {
  std::int64_t axis = 0;
  bool descending = false;
  bool stable = true;
  static constexpr auto fields() {
    return std::tuple{field("axis", &Sort::axis), field("descending", &Sort::descending),
                      field("stable", &Sort::stable)};
  }
};

struct TopK {
  Dim k = 1;
  std::int64_t axis = 0;
  bool largest = true;
  bool stable = true;
  bool kth = false;
  static constexpr auto fields() {
    return std::tuple{field("k", &TopK::k), field("axis", &TopK::axis),
                      field("largest", &TopK::largest), field("stable", &TopK::stable),
                      field("kth", &TopK::kth)};
  }
};

std::vector<HostTensor> sort_reference(const ReferenceContext& c);
std::vector<HostTensor> topk_reference(const ReferenceContext& c);

}  // namespace gex::ops
