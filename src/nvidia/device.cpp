#include "nvidia/device.hpp"

#include <string>

#include "nvidia/api.hpp"

namespace gex::nvidia {

namespace {

// Null without a driver that works.
const DriverApi* started_driver() {
  std::string why_not;
  const DriverApi* api = driver_api(why_not);
  return api != nullptr && api->init(0) == 0 ? api : nullptr;
}

}  // namespace

int device_count() {
  const DriverApi* api = started_driver();
  int count = 0;
  return api != nullptr && api->device_count(&count) == 0 ? count : 0;
}

std::optional<DeviceProperties> device_properties(int ordinal) {
  const DriverApi* api = started_driver();
  if (api == nullptr || ordinal >= device_count()) return std::nullopt;
  int device = 0;
  DeviceProperties found;
  const bool known =
      api->device_get(&device, ordinal) == 0 &&
      api->device_attribute(&found.major, kAttributeComputeMajor, device) == 0 &&
      api->device_attribute(&found.minor, kAttributeComputeMinor, device) == 0 &&
      api->device_attribute(&found.multiprocessors, kAttributeMultiprocessors, device) == 0;
  if (!known) return std::nullopt;
  return found;
}

}  // namespace gex::nvidia
