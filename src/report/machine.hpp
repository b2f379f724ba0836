#pragma once
// Measured peak performance of this machine: the roofline that launches are compared with.

#include <string>

namespace gex::report {

struct Machine {
  std::string name;  // of the processor
  int threads = 1;
  double gflops = 0;           // f32 multiply-adds in registers, all threads; one counts as two
  double bandwidth = 0;        // GB/s from memory, read and written bytes together
  double cache_bandwidth = 0;  // GB/s if all data is in the threads' own caches
};

// Takes about a tenth of a second the first time; cached for the process.
const Machine& machine();

}  // namespace gex::report
