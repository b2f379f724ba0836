#pragma once
// Runs Programs. A Session holds one Program for one device, its Captures (one per shape key or
// gear, LRU) and counters. run() is thread-safe and re-entrant; a call with a known key allocates
// nothing.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "program/executable.hpp"
#include "program/specialiser.hpp"
#include "runtime/capture/gear_options.hpp"

namespace gex::runtime {

// A tensor in memory of the caller or of the arena, borrowed for the duration of a call.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  // in elements
  // Only for operands of call steps: set if the operand is exactly input number `input`, or exactly
  // the result `handle` of an earlier call, so that the host can pass its own object.
  int input = -1;
  std::uint64_t handle = 0;
};

// Which tensors of a caller in host memory are in memory of the device.
struct OnDevice {
  bool inputs = false, outputs = false;
};

struct InputArg {
  TensorRef tensor;
  std::int64_t integer = 0;  // for InputDesc::Kind::integer
};

// An input that the Program only reads does not have the expected strides. Thrown before anything
// ran; a copy with these strides would be accepted.
class LayoutMismatch : public UserError {
 public:
  LayoutMismatch(const std::string& message, int the_input, std::vector<std::int64_t> the_strides)
      : UserError(ErrorCode::shape_mismatch, message),
        input(the_input),
        strides(std::move(the_strides)) {}
  int input;
  std::vector<std::int64_t> strides;
};

// What a run needs from its caller. All methods run on the calling thread, between steps, with the
// workers parked.
class Host {
 public:
  virtual ~Host() = default;
  // Called before the run waits for a lock or an arena and before each sequence of launches: the
  // host may release its own locks (Python's GIL) and takes them again in its next callback.
  virtual void about_to_block() {}
  // Optional, default none. The device stream for the call's work: run() then returns before the
  // work is done, and work that the caller enqueues there afterwards runs after it. None: run()
  // returns when the work is done.
  virtual std::optional<std::uint64_t> stream() { return std::nullopt; }
  // Optional, default nothing. Tells profilers what the call does next.
  enum class Phase : std::uint8_t { capture, replay };
  virtual void begins(Phase /*phase*/) {}
  // Returns memory for output k, with at least the extent of shape and strides. Called once per
  // fresh output, before the first step that needs it.
  virtual void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                                std::span<const std::int64_t> strides) = 0;
  // Output k is a view, an integer or a call result: the caller builds its object from it.
  virtual void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                               std::span<const std::int64_t> strides, std::int64_t offset) = 0;
  virtual void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                                      std::span<const std::int64_t> strides,
                                      std::int64_t offset) = 0;
  virtual void set_integer_output(int k, std::int64_t value) = 0;
  // The object now belongs to the caller: release() is not called for it.
  virtual void set_external_output(int k, std::uint64_t handle) = 0;
  // Runs a call step. Fills `outputs` (already sized): data pointer and the handle that keeps it
  // alive until release(handle). The results must have the dtype, shape and strides of `expected`;
  // -1 there stands for a size or stride that only the result defines, and then `shape` must be
  // set.
  struct CallResult {
    void* data = nullptr;
    std::uint64_t handle = 0;
    std::vector<std::int64_t> shape;  // only read where the expected shape has unbound symbols
  };
  virtual void call(const program::Call& call, std::span<const TensorRef> inputs,
                    std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
                    std::span<CallResult> outputs) = 0;
  virtual void release(std::uint64_t handle) = 0;  // must not throw
  // Optional, default nothing. Input `i`, which the Program marks as released, is not used any more
  // in this call. Only called for large inputs; workers may be awake.
  virtual void release_input(int /*i*/) {}
};

using program::Specialiser;

struct DeviceContext;  // see device.hpp

// The session options of gex/options.def, which describes them, and fields that are not options.
struct SessionOptions {
#define GEX_SESSION_FIELD_compile(name, type, value)
#define GEX_SESSION_FIELD_session(name, type, value) type name = value;
#define GEX_SESSION_FIELD_api(name, type, value)
#define GEX_OPTION(part, name, type, value, help, about) GEX_SESSION_FIELD_##part(name, type, value)
#include "gex/options.def"
#undef GEX_SESSION_FIELD_compile
#undef GEX_SESSION_FIELD_session
#undef GEX_SESSION_FIELD_api

  GearOptions gears;             // which sizes share a Capture
  bool force_recapture = false;  // make a new Capture in each call: for debugging
  // False: each Capture has its own memory for temporaries, kept between calls.
  bool captures_share_arena = true;
  // "null", "cpu", "cuda_stream:N", "cuda_graph:N"; empty: chosen by the target of the Program.
  std::string driver;
  // Replaces the driver's shared device; its arenas are freed with the Session.
  std::shared_ptr<DeviceContext> device;
  bool static_code = true;  // ask the Specialiser for hot keys, in the background
  int hot_after = 3;  // calls with a key before static code is requested; 1: at the first call
  // Whether memory for temporaries is kept between calls; false: large blocks are discarded.
  bool keep_arena = true;
  // Memory of the Program's frozen constants, by slot: it neither moves nor changes. Host memory,
  // or memory of the device.
  std::vector<std::shared_ptr<const void>> frozen;
  bool frozen_on_device = false;
};

struct Counters {
  std::int64_t calls = 0, captures = 0, replays = 0, evictions = 0, uncaptured = 0;
  std::int64_t recaptures = 0;           // forced, for sizes that already had a Capture
  std::int64_t limit_recaptures = 0;     // likewise, because the caller's core limit changed
  std::int64_t limited_launches = 0;     // on fewer workers than available, because of a core limit
  std::int64_t overlapped_launches = 0;  // while one of another stream ran
  std::int64_t launches = 0, host_calls = 0, bytes_copied = 0, specialised = 0;
  std::int64_t arena_bytes = 0, arena_lower_bound = 0, allocations = 0;
  std::int64_t recordings = 0;       // device graphs made (cuda_graph)
  std::int64_t graph_launches = 0;   // of device graphs (cuda_graph)
  std::int64_t single_launches = 0;  // of steps outside a graph (cuda_graph, cuda_stream)
  std::int64_t inputs_released = 0;  // reported to the host before the end of a call
  std::int64_t plan_ns = 0;          // spent making captures: sizes, memory plan, argument tables
};

struct CaptureInfo {
  std::vector<std::int64_t> key;  // values of the program's input symbols: the largest it serves
  std::int64_t hits = 0, arena_bytes = 0, lower_bound = 0;
  std::string reason;  // as text: "dim 1 of input 0 was 24, now 25; gear 32 covers both"
  std::string note;    // why some launch has no static code; empty if nothing went wrong
};

class Session {
 public:
  Session(std::shared_ptr<const program::Executable> executable, SessionOptions options,
          std::shared_ptr<Specialiser> specialiser = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Throws UserError if an input does not match (which input, expected, got).
  void run(std::span<const InputArg> inputs, Host& host);
  // The same for a caller in host memory: operands and results of its calls are there, and so are
  // inputs and outputs that the Host allocates, except those of `on_device`. For a device with its
  // own memory, inputs are copied to it, and what it wrote is copied back before this returns.
  void run_from_host(std::span<const InputArg> inputs, Host& host, OnDevice on_device = {});

  // Waits for the work on a stream that Hosts named; throws what failed there.
  void wait_for(std::uint64_t stream);

  const program::Program& program() const;
  bool reuses_memory() const;
  Counters counters() const;
  std::vector<CaptureInfo> captures() const;
  std::vector<std::string> findings() const;  // of the Specialiser
  // Why the host decides if and while steps on a device that could: a line for each reason.
  std::vector<std::string> host_control() const;
  std::size_t pool_bytes() const;  // held between calls for temporaries, by all users of the pool

 private:
  struct State;
  std::shared_ptr<State> state_;  // background jobs may outlive the Session
};

}  // namespace gex::runtime
