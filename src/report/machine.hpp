#pragma once
// Peak performance of this machine and its GPUs: the roofline that launches are compared with.

#include <string>

namespace gex::report {

struct Machine {
  std::string name;  // of the processor
  int threads = 1;
  double gflops = 0;           // f32 multiply-adds in registers, all threads; one counts as two
  double bandwidth = 0;        // GB/s from memory, read and written bytes together
  double cache_bandwidth = 0;  // GB/s if all data is in the threads' own caches
};

// The limits of one GPU. Zero: not known.
struct DeviceLimits {
  std::string name;
  int multiprocessors = 0;
  double gflops = 0;  // multiply-adds of f32, by clock and number of lanes; one counts as two
  double tensor_gflops = 0;  // of the tensor cores, f16 and bf16 with sums in f32, by clock
  double bandwidth = 0;      // GB/s of its memory, measured by copies
  double cache_bytes = 0;
};

// Of the device with this number; cached for the process.
const DeviceLimits& device_limits(int ordinal);

// Takes about a tenth of a second the first time; cached for the process.
const Machine& machine();

}  // namespace gex::report
