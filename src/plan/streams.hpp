#pragma once
// Streams of a Program: which of its steps may run side by side.
//
// A run is a stretch of device steps without host work between them. Before its first step and
// behind its last all streams meet. In between a step comes after those before it on its own
// stream, and a wait after everything that its event's record came after. An event that was not
// recorded before in the same run holds nobody up.

#include <span>
#include <vector>

#include "plan/lifetimes.hpp"
#include "program/program.hpp"

namespace gex::plan {

// Gives launches that do not depend on each other streams of their own, at most `streams` of them:
// a step goes on where the last step that it needs was, or else where the least work lies. Steps
// that have a stream keep it.
void spread_over_streams(program::Program& program, int streams);

// Orders the steps of different streams by events wherever one needs what another has done, or
// must not overwrite what another still reads: results are those of the list's order. Streams of a
// run in which nothing large could run side by side become one.
void synchronise_streams(program::Program& program);

bool is_device_step(const program::Step& step);

// The steps that come first in a run, by stream, for each step: `before[i][s]` is the last step of
// stream s that is done when step i begins, -1 if none; for its own stream that is the step itself.
std::vector<std::vector<int>> known_before(std::span<const program::Step> run, int num_streams);

// For each step the stretch of the run that may run beside it, itself included.
std::vector<Interval> beside(std::span<const program::Step> run, int num_streams);

}  // namespace gex::plan
