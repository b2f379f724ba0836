#pragma once
// Split: slices of equal size.

#include <cstdint>
#include <string>
#include <vector>

#include "gex/es/ops.hpp"

namespace gex::es {

inline std::vector<EsTensorHolder> Split(const EsTensorHolder& x, std::int64_t count,
                                         std::int64_t axis = 0) {
  const std::vector<std::int64_t> shape = x.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank || axis >= rank)
    throw Error(GEX_INVALID_ARGUMENT,
                "split: axis " + std::to_string(axis) + " is out of range for " + x.type());
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  if (count < 1 || shape[at] < 0 || shape[at] % count != 0)
    throw Error(GEX_SHAPE_MISMATCH, "split: axis " + std::to_string(at) + " of " + x.type() +
                                        " is not divisible by " + std::to_string(count));
  std::vector<EsTensorHolder> parts;
  std::vector<std::int64_t> steps(shape.size(), 1);
  Shape starts(shape.size(), 0), sizes = x.sizes();
  sizes[at] = shape[at] / count;
  for (std::int64_t k = 0; k < count; ++k) {
    starts[at] = k * (shape[at] / count);
    parts.push_back(Slice(x, starts, steps, sizes));
  }
  return parts;
}

}  // namespace gex::es
