// The list of drivers, and the open Device of each.

#include <algorithm>
#include <charconv>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "runtime/device.hpp"
#include "runtime/drivers/cpu/cpu_device.hpp"
#include "runtime/drivers/cuda/cuda_device.hpp"
#include "runtime/drivers/null/null_device.hpp"

namespace gex::runtime {

namespace {

struct Registry {
  struct Driver {
    std::function<std::unique_ptr<Device>()> factory;
    std::weak_ptr<DeviceContext> open;
  };
  std::mutex mutex;
  std::map<std::string, Driver> drivers;

  static Registry& get() {
    static Registry* registry = [] {
      auto* made = new Registry;  // Sessions may close after static destructors ran
      made->drivers["null"].factory = [] { return std::make_unique<NullDevice>(); };
      made->drivers["cpu"].factory = [] { return std::make_unique<CpuDevice>(); };
      for (const bool graphs : {false, true})
        made->drivers[graphs ? "cuda_graph" : "cuda_stream"].factory = [graphs] {
          return std::make_unique<cuda::CudaDevice>(graphs, 0);
        };
      return made;
    }();
    return *registry;
  }
};

std::string names(const Registry& registry) {
  std::string out;
  for (const auto& [name, driver] : registry.drivers) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// "cuda_graph:1" is the driver of the second GPU.
void add_numbered(Registry& registry, const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || registry.drivers.contains(name)) return;
  const std::string kind = name.substr(0, colon);
  if (kind != "cuda_graph" && kind != "cuda_stream") return;
  int ordinal = 0;
  const char* end = name.data() + name.size();
  if (std::from_chars(name.data() + colon + 1, end, ordinal).ptr != end || ordinal < 0) return;
  registry.drivers[name].factory = [graphs = kind == "cuda_graph", ordinal] {
    return std::make_unique<cuda::CudaDevice>(graphs, ordinal);
  };
}

std::shared_ptr<DeviceContext> context_of(std::unique_ptr<Device> device) {
  auto context = std::make_shared<DeviceContext>();
  context->device = std::move(device);
  context->queues = std::make_unique<QueuePool>(*context->device, context->device->max_queues());
  return context;
}

}  // namespace

int Device::max_queues() const {
  return std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
}

DeviceContext::~DeviceContext() = default;

std::shared_ptr<DeviceContext> open_device(const std::string& driver) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  add_numbered(registry, driver);
  const auto found = registry.drivers.find(driver);
  if (found == registry.drivers.end())
    fail(ErrorCode::unsupported, "unknown driver \"", driver,
         "\"; available drivers: ", names(registry));
  if (auto open = found->second.open.lock()) return open;
  auto context = context_of(found->second.factory());
  found->second.open = context;
  return context;
}

std::string driver_of(std::string_view target) {
  constexpr std::string_view kCuda = "cuda";
  if (!target.starts_with(kCuda)) return std::string(target);
  return str("cuda_graph", target.substr(kCuda.size()));
}

std::shared_ptr<DeviceContext> open_cpu(CpuResources resources) {
  return context_of(std::make_unique<CpuDevice>(std::move(resources)));
}

void register_driver(const std::string& name, std::function<std::unique_ptr<Device>()> factory) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  auto& driver = registry.drivers[name];
  if (!driver.open.expired())
    fail(ErrorCode::invalid_argument, "driver \"", name, "\" is in use and can't be replaced");
  driver.factory = std::move(factory);
}

std::vector<std::string> available_drivers() {
  std::vector<std::string> names;
  {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    for (const auto& [name, driver] : registry.drivers) names.push_back(name);
  }
  std::erase_if(names, [](const std::string& name) {
    try {
      open_device(name);
      return false;
    } catch (const UserError& error) {
      if (error.code() != ErrorCode::device_error) throw;
      return true;
    }
  });
  return names;
}

}  // namespace gex::runtime
