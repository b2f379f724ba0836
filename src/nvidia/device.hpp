#pragma once
// What the driver says about the GPUs of this machine.

#include <cstdint>
#include <optional>
#include <string>

namespace gex::nvidia {

int device_count();  // 0 without a driver

struct DeviceProperties {
  int major = 0, minor = 0;  // compute capability: 9 and 0 for sm_90
  int multiprocessors = 0;
  std::string name;
  double gigahertz = 0;  // the highest clock of its multiprocessors
  std::int64_t cache_bytes = 0;
};

// Nothing if there is no such device or the driver does not describe it.
std::optional<DeviceProperties> device_properties(int ordinal);

// GB/s of a copy within its memory, read and written bytes together. Zero if nothing can be
// measured. Takes some milliseconds and half a gigabyte of the device's memory.
double measured_bandwidth(int ordinal);

}  // namespace gex::nvidia
