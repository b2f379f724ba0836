#pragma once
// What this machine can do at most, measured: the roofs that launches are held against.

#include <string>

namespace gex::report {

struct Machine {
  std::string name;  // of the processor
  int threads = 1;
  double gflops = 0;           // f32 multiply-adds in registers, all threads; one counts as two
  double bandwidth = 0;        // GB/s from memory, read and written bytes together
  double cache_bandwidth = 0;  // GB/s where everything lies in the threads' own caches
};

// Takes about a tenth of a second the first time; remembered for the process.
const Machine& machine();

}  // namespace gex::report
