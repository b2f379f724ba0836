#pragma once
// Whether independent branches of a CPU Program should run concurrently. A launch with enough grid
// points uses all threads by itself, so overlapping pays only where launches leave threads idle:
// few grid points, ordered ones, sorts and scans of one row.

#include <cstdint>

#include "program/program.hpp"

namespace gex::plan {

// In the units of Launch::work, over the runs of device steps that have independent branches.
struct Overlap {
  std::int64_t runs = 0;          // that have independent branches with enough work
  std::int64_t overlapped = 0;    // of these: how many are spread over streams
  std::int64_t in_order = 0;      // estimated time of those runs, step by step
  std::int64_t with_streams = 0;  // and with the streams that were considered
};

// Assigns streams to the branches of a run if that is estimated to be faster with `threads`
// threads; other runs stay on stream 0. Does nothing if steps already have streams. If the work
// depends on sizes that are only known at run time, several sizes are estimated: streams must be
// faster for one of them, and slower for none.
Overlap overlap_branches(program::Program& program, int threads);

}  // namespace gex::plan
