#pragma once
// The device contract: what a driver implements. Optional calls say what they do by default.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "program/executable.hpp"
#include "runtime/memory/arena.hpp"
#include "runtime/recorder.hpp"

namespace gex::runtime {

// The Program's code and constants as the device needs them; made once for a Session.
struct Loaded {
  virtual ~Loaded() = default;
  // Optional: default none. Rounds a key up to the sizes of the gear that serves it.
  virtual void round_up(std::span<std::int64_t> /*key*/) const {}
  std::vector<void*> constants;  // by BufferId; null for buffers of other kinds
};

// The exclusive right of one call to a stream of the device and the arena that goes with it.
class Queue {
 public:
  explicit Queue(Device& device) : arena(device) {}
  virtual ~Queue() = default;
  // Optional, at the start of a call: default nothing. The work of the call goes to this stream of
  // the caller's, in its order, and finish() does not wait for it; none: the queue's own stream.
  virtual void begin(std::optional<std::uint64_t> /*stream*/) {}
  // Copies device memory to the host when everything enqueued before is done. False: this device
  // keeps no contents (conditions then count as false, bound sizes as the smallest allowed).
  virtual bool read(void* host, const void* device, std::size_t bytes) = 0;
  // Optional, before host code runs (a call step): default nothing. Gives cores back, waits for the
  // work that the host code could see.
  virtual void park() {}
  // Optional, at the end of a call: default nothing. Without a stream of the caller's: waits for
  // the work and throws if it failed.
  virtual void finish() {}
  // Optional, after finish() and also after a failed call: default nothing. Leaves no work behind.
  virtual void reset() noexcept {}

  Arena arena;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Aligned to 64 bytes at least; UserError(out_of_memory) if there is none.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
  // Optional: default nothing. What is in this part of some memory of allocate() is not needed any
  // more: whole pages of it may serve others until they are touched again.
  virtual void discard(void* /*memory*/, std::size_t /*bytes*/) noexcept {}
  // Copies host memory to the device, and waits for it.
  virtual void write(void* device, const void* host, std::size_t bytes) = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
  // Optional, before a call: default nothing. UserError if this process can't use the device.
  virtual void check_usable() const {}
  // Optional: default false. Whether the caller records what goes to this stream in a graph of its
  // own, to be launched later and often.
  virtual bool is_capturing(std::uint64_t /*stream*/) const { return false; }
  // UserError if some code of the Program can't run on this device.
  virtual std::unique_ptr<Loaded> load(const program::Executable& executable) = 0;
  // A recorder for one batch. `gear`: values by slot for the largest sizes the Capture will serve;
  // slots of later epochs hold nothing.
  virtual std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                                  std::span<const std::int64_t> gear) = 0;
  // Optional: default 1. How many workers may use scratch at once.
  virtual int workers() const { return 1; }
  // Optional: default true. Whether launches run Callables, so that static code can replace them.
  virtual bool runs_callables() const { return true; }
  // Optional: default false. Whether launches can read host memory, so that frozen constants need
  // no copy on the device.
  virtual bool reads_host_memory() const { return false; }
  // Optional: default false. Whether replay() returns when the work is done, so that memory can be
  // let go between the launches of a batch.
  virtual bool works_in_replay() const { return false; }
  // Optional: default the host's thread count. Calls that may compute at once; others wait.
  virtual int max_queues() const;
};

// One Device and its queues, shared by every Session that names the driver; gone with the last.
// UserError(unsupported) if the driver is unknown or its hardware absent.
struct DeviceContext {
  std::unique_ptr<Device> device;
  std::unique_ptr<QueuePool> queues;
  ~DeviceContext();
};
std::shared_ptr<DeviceContext> open_device(const std::string& driver);

// What the CPU uses of somebody else's; empty functions leave it to the CPU itself.
struct CpuResources {
  std::function<void*(std::size_t bytes, std::size_t alignment)> allocate;  // null: none left
  std::function<void(void* memory, std::size_t bytes)> release;
  ExternalWorkers workers;
};
// A CPU of its own, whose arenas go back with the last Session that uses it.
std::shared_ptr<DeviceContext> open_cpu(CpuResources resources);

// Adds a driver, or replaces one that no Session uses. Where the hardware is absent the factory
// throws UserError(device_error).
void register_driver(const std::string& name, std::function<std::unique_ptr<Device>()> factory);
std::vector<std::string> available_drivers();  // those that can be opened here

}  // namespace gex::runtime
