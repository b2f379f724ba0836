#pragma once
// Makes specialised code for hot shapes: called by the runtime, implemented by a backend.

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/executable.hpp"
#include "program/kernel_abi.hpp"

namespace gex::program {

// The values of the dims of launches.
using LaunchDims = std::unordered_map<const Launch*, std::vector<std::int64_t>>;
// Code of launches on a device; of launches that run as one kernel, by the first of them.
using DeviceCodes = std::unordered_map<const Launch*, DeviceCode>;

class Specialiser {
 public:
  virtual ~Specialiser() = default;
  // Static code for `code` with these dims, or an empty Callable if generic code is as good. Called
  // on the background thread.
  virtual Callable specialise(int code, std::span<const std::int64_t> dims) = 0;
  // Optional, default nothing; on devices that run no Callables. Static code of all launches for
  // which there is any.
  virtual DeviceCodes device_codes(const LaunchDims& /*dims*/) { return {}; }
  // Descriptions of what was measured. May be called from any thread.
  virtual std::vector<std::string> findings() const { return {}; }
};

}  // namespace gex::program
