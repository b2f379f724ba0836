#pragma once
// The device contract: what a driver implements. Optional methods state their default.

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
#include "program/specialiser.hpp"
#include "runtime/memory/arena.hpp"
#include "runtime/recorder.hpp"

namespace gex::runtime {

// Constraints of a device on the sizes of its Captures, in addition to the Session's policy.
struct GearRule {
  int steps = 0;            // gears for each doubling of a size; 0: sizes are not rounded
  std::vector<bool> exact;  // by input symbol: sizes that no gear may round; empty: there are none
};

// The Program's code and constants in the form the device needs; made once per Session.
struct Loaded {
  virtual ~Loaded() = default;
  std::vector<void*> constants;  // by BufferId; null for buffers of other kinds
  GearRule gears;
  // Whether Recorders take if and while steps whose segments need no host; if they could but don't,
  // why.
  bool records_control = false;
  std::string why_no_control;
  // Optional: default nothing. On the background thread, beside the calls of the Program.
  virtual std::vector<double> time(std::span<const program::Trial> /*trials*/) { return {}; }
};

// Exclusive use of one device stream, and of the arena that belongs to it, by one call.
class Queue {
 public:
  explicit Queue(Device& device) : arena(device) {}
  virtual ~Queue() = default;
  // Optional, default nothing. Called at the start of a call. With a stream of the caller, the work
  // of the call is enqueued there and finish() does not wait for it; without one, the queue's own
  // stream is used.
  virtual void begin(std::optional<std::uint64_t> /*stream*/) {}
  // Copies device memory to the host after all work enqueued before. Returns false if the device
  // stores no contents (conditions are then false, bound sizes the smallest allowed).
  virtual bool read(void* host, const void* device, std::size_t bytes) = 0;
  // Optional, default nothing. Called before host code runs (a call step): releases the worker
  // threads and waits for work that the host code could observe.
  virtual void park() {}
  // Optional, default nothing. Called at the end of a call. Without a stream of the caller: waits
  // for the work and throws if it failed.
  virtual void finish() {}
  // Optional, default nothing. Called after finish() and after a failed call; leaves no pending
  // work.
  virtual void reset() noexcept {}

  Arena arena;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Aligned to at least 64 bytes; throws UserError(out_of_memory) on failure.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
  // Optional, default nothing. The contents of this part of an allocation are no longer needed: its
  // whole pages may be returned to the system until they are touched again.
  virtual void discard(void* /*memory*/, std::size_t /*bytes*/) noexcept {}
  // Copies host memory to the device and waits for completion.
  virtual void write(void* device, const void* host, std::size_t bytes) = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
  // Optional, before a call: default nothing. UserError if this process can't use the device.
  virtual void check_usable() const {}
  // Optional: default false. Whether the caller is capturing this stream into its own graph, which
  // is launched later, any number of times.
  virtual bool is_capturing(std::uint64_t /*stream*/) const { return false; }
  // Optional: default nothing. Waits for the work on a stream of the caller; throws if it failed.
  virtual void wait_for(std::uint64_t /*stream*/) {}
  // Optional: default nothing. What the driver keeps for each thread, which a call changes; it is
  // set to its former value at the end of the call.
  virtual std::uint64_t thread_state() const { return 0; }
  virtual void set_thread_state(std::uint64_t /*state*/) const noexcept {}
  // Throws UserError if some code of the Program can't run on this device.
  virtual std::unique_ptr<Loaded> load(const program::Executable& executable) = 0;
  // A recorder for one batch. `gear`: values by slot for the largest sizes that the Capture serves;
  // slots of later epochs are undefined.
  virtual std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                                  std::span<const std::int64_t> gear) = 0;
  // Optional, default 1: how many workers may use scratch at the same time.
  virtual int workers() const { return 1; }
  // Optional, default true: whether launches run Callables, so that static code can replace them.
  virtual bool runs_callables() const { return true; }
  // Optional, default false: whether Recordings use Replay::device_code.
  virtual bool takes_device_code() const { return false; }
  // Optional, default false: whether launches can read host memory, so that frozen constants need
  // no device copy.
  virtual bool reads_host_memory() const { return false; }
  // Optional, default false: whether replay() returns after the work is done, so that memory can be
  // released between the launches of a batch.
  virtual bool works_in_replay() const { return false; }
  // Optional, default the host's thread count: calls that may compute at the same time; others
  // wait.
  virtual int max_queues() const;
};

// One Device and its queues, shared by every Session that names the driver and closed with the last
// one. UserError(unsupported) if the driver is unknown or its hardware absent.
struct DeviceContext {
  std::unique_ptr<Device> device;
  std::unique_ptr<QueuePool> queues;
  ~DeviceContext();
};
std::shared_ptr<DeviceContext> open_device(const std::string& driver);
// The driver of Programs for this target: "cuda:1" is run by "cuda_graph:1".
std::string driver_of(std::string_view target);

// Resources that the CPU device takes from the host program; empty functions: it uses its own.
struct CpuResources {
  std::function<void*(std::size_t bytes, std::size_t alignment)>
      allocate;  // returns null if out of memory
  std::function<void(void* memory, std::size_t bytes)> release;
  ExternalWorkers workers;
};
// A separate CPU device, whose arenas are freed with the last Session that uses it.
std::shared_ptr<DeviceContext> open_cpu(CpuResources resources);

// Adds a driver, or replaces one that no Session uses. The factory throws UserError(device_error)
// if the hardware is absent.
void register_driver(const std::string& name, std::function<std::unique_ptr<Device>()> factory);
std::vector<std::string> available_drivers();  // those that can be opened on this machine

}  // namespace gex::runtime
