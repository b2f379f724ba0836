#pragma once
// Streams of a Program: which of its steps may run concurrently.
//
// A run is a sequence of device steps without host work in between. All streams synchronise before
// its first and after its last step. Inside it, a step runs after the earlier steps of its own
// stream, and a wait after everything that precedes the record of its event. Waiting for an event
// that was not recorded earlier in the same run has no effect.

#include <span>
#include <vector>

#include "plan/lifetimes.hpp"
#include "program/program.hpp"

namespace gex::plan {

// Assigns independent launches to at most `streams` streams: a step continues the stream of the
// last step it depends on, or else goes to the stream with the least work. Steps that already have
// a stream keep it.
void spread_over_streams(program::Program& program, int streams);

// Adds events between steps of different streams where one reads what another writes, or must not
// overwrite what another still reads: results are the same as in list order. If nothing large can
// run concurrently in a run, its streams are merged into one.
void synchronise_streams(program::Program& program);

bool is_device_step(const program::Step& step);

// For each step of a run and each stream: `before[i][s]` is the last step of stream s that is
// complete when step i begins, -1 if none; for its own stream that is the step itself.
std::vector<std::vector<int>> known_before(std::span<const program::Step> run, int num_streams);

// For each step, the range of steps of the run that may run at the same time, itself included.
std::vector<Interval> beside(std::span<const program::Step> run, int num_streams);

}  // namespace gex::plan
