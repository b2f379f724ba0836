#pragma once
// Makes specialised code for hot shapes: called by the runtime, implemented by a backend.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/executable.hpp"
#include "program/kernel_abi.hpp"

namespace gex::program {

// The values of the dims of launches.
using LaunchDims = std::unordered_map<const Launch*, std::vector<std::int64_t>>;
// Code of a launch on a device for known sizes.
struct StaticLaunch : DeviceCode {
  // If not 0: these blocks, with `threads` and `shared_bytes`, instead of those that the Program
  // plans.
  std::int64_t grid = 0;
};
// Of launches that run as one kernel, by the first of them.
using DeviceCodes = std::unordered_map<const Launch*, StaticLaunch>;

// A launch that a device runs and times with memory of its own.
struct Trial {
  StaticLaunch launch;  // without an image: the library's product of code `code` of the Program
  int code = -1;
  std::vector<std::int64_t> buffer_bytes, dims;
};
// Microseconds of each; empty if memory is short or the process is about to exit.
using TimeTrials = std::function<std::vector<double>(std::span<const Trial>)>;

struct DeviceCodeRequest {
  bool all = true;      // static code of all launches; false: only of those that were tuned
  TimeTrials measured;  // empty: nothing can be measured
};

class Specialiser {
 public:
  virtual ~Specialiser() = default;
  // Static code for `code` with these dims, or an empty Callable if generic code is as good. Called
  // on the background thread.
  virtual Callable specialise(int code, std::span<const std::int64_t> dims) = 0;
  // Optional, default nothing; on devices that run no Callables. Static code of launches for which
  // there is any.
  virtual DeviceCodes device_codes(const LaunchDims& /*dims*/,
                                   const DeviceCodeRequest& /*request*/) {
    return {};
  }
  // Optional, default false: whether device_codes() measures forms of problems.
  virtual bool tunes() const { return false; }
  // Descriptions of what was measured. May be called from any thread.
  virtual std::vector<std::string> findings() const { return {}; }
};

}  // namespace gex::program
