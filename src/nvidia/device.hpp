#pragma once
// What the driver says about the GPUs of this machine.

#include <optional>

namespace gex::nvidia {

int device_count();  // 0 without a driver

struct DeviceProperties {
  int major = 0, minor = 0;  // compute capability: 9 and 0 for sm_90
  int multiprocessors = 0;
};

// Nothing if there is no such device or the driver does not describe it.
std::optional<DeviceProperties> device_properties(int ordinal);

}  // namespace gex::nvidia
