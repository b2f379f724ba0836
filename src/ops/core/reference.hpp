#pragma once
// The input of an op's reference implementation.

#include <cstdint>
#include <functional>
#include <span>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace gex::ops {

struct ReferenceContext {
  const Node& node;
  std::span<const HostTensor* const> inputs;  // null: absent
  std::function<std::int64_t(Dim)> value_of;  // of a size in the attributes
};

}  // namespace gex::ops
