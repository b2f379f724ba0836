#pragma once
// Parts of the lane axis in which indices are simple. Padding, concatenations and shifts read with
// min, max, remainders and conditions; between the few points where these change, accesses are
// runs of neighbouring elements without conditions.

#include <cstdint>
#include <vector>

#include "loop/kernel.hpp"

namespace gex::codegen {

struct Segment {
  std::int64_t begin = 0;  // of the last grid axis
  Dim lane;                // runs from 0; its extent is the segment's length
  std::vector<loop::Stage> stages;
};

// Empty if the last axis has no constant size, or nothing changes along it, or too often.
std::vector<Segment> segments_of(const loop::Kernel& kernel);

}  // namespace gex::codegen
