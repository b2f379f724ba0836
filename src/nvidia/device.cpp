#include "nvidia/device.hpp"

#include <algorithm>
#include <cstddef>
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
  char name[256] = {};
  if (api->device_name(name, sizeof name - 1, device) == 0) found.name = name;
  int value = 0;
  if (api->device_attribute(&value, kAttributeClockKilohertz, device) == 0)
    found.gigahertz = value * 1e-6;
  if (api->device_attribute(&value, kAttributeL2Bytes, device) == 0) found.cache_bytes = value;
  return found;
}

namespace {

// Two blocks of device memory, a stream and two events, for one measurement.
class CopyTimer {
 public:
  explicit CopyTimer(const DriverApi& api) : api_(api) {
    ready_ = api_.memory_alloc(&from_, kBytes) == 0 && api_.memory_alloc(&to_, kBytes) == 0 &&
             api_.stream_create(&stream_, kStreamNonBlocking) == 0 &&
             api_.event_create(&begin_, 0) == 0 && api_.event_create(&end_, 0) == 0;
  }
  ~CopyTimer() {
    if (end_ != nullptr) api_.event_destroy(end_);
    if (begin_ != nullptr) api_.event_destroy(begin_);
    if (stream_ != nullptr) api_.stream_destroy(stream_);
    for (DevicePtr memory : {from_, to_})
      if (memory != 0) api_.memory_free(memory);
  }
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;

  // The best of a few copies; zero if one of them fails.
  double gigabytes_per_second() const {
    double best = 0;
    for (int t = 0; ready_ && t < kTries; ++t) {
      float milliseconds = 0;
      const bool good = api_.event_record(begin_, stream_) == 0 &&
                        api_.copy_on_device_async(to_, from_, kBytes, stream_) == 0 &&
                        api_.event_record(end_, stream_) == 0 &&
                        api_.stream_synchronize(stream_) == 0 &&
                        api_.event_elapsed(&milliseconds, begin_, end_) == 0;
      if (!good) return 0;
      if (milliseconds > 0)
        best = std::max(best, 2.0 * kBytes / static_cast<double>(milliseconds) * 1e-6);
    }
    return best;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;  // more than any cache
  static constexpr int kTries = 5;
  const DriverApi& api_;
  DevicePtr from_ = 0, to_ = 0;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  bool ready_ = false;
};

}  // namespace

double measured_bandwidth(int ordinal) {
  const DriverApi* api = started_driver();
  int device = 0;
  Context context = nullptr;
  if (api == nullptr || ordinal >= device_count() || api->device_get(&device, ordinal) != 0 ||
      api->context_retain(&context, device) != 0)
    return 0;
  double found = 0;
  if (api->context_set(context) == 0) found = CopyTimer(*api).gigabytes_per_second();
  api->context_release(device);
  return found;
}

}  // namespace gex::nvidia
