#pragma once
// Shared by the two CUDA drivers: memory, streams, code, and issuing one step. They differ in what
// a Recording does with the steps: cuda_stream issues them at each call, cuda_graph captures them.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nvidia/api.hpp"
#include "runtime/device.hpp"
#include "runtime/drivers/cuda/library.hpp"
#include "runtime/drivers/cuda/side_streams.hpp"
#include "runtime/drivers/cuda/step_times.hpp"

namespace gex::runtime::cuda {

using namespace nvidia;  // the vendor's types and entry points

class CudaDevice;

// Throws UserError: out_of_memory or device_error with the driver's message.
void check(const DriverApi& api, Result result, const char* what);

// While one lives, its thread may allocate, load code and wait although a stream is being captured:
// what it does is no part of the capture.
class DuringCaptures {
 public:
  explicit DuringCaptures(const DriverApi& api);
  ~DuringCaptures();
  DuringCaptures(const DuringCaptures&) = delete;
  DuringCaptures& operator=(const DuringCaptures&) = delete;

 private:
  const DriverApi& api_;
  int mode_ = kCaptureRelaxed;  // the thread's own
};

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(CudaDevice& device);
  ~CudaQueue() override;
  void begin(std::optional<std::uint64_t> stream) override;
  bool read(void* host, const void* device, std::size_t bytes) override;
  void park() override;
  void finish() override;
  void reset() noexcept override;

  // The stream of the current call.
  Stream stream() const { return stream_; }
  Stream capture_stream() const { return own_stream_; }
  // Whether the current call is being captured into a graph of the caller.
  bool is_recorded() const { return recorded_; }
  // Never reused for another queue, unlike the address of its parameter block.
  std::uint64_t number() const { return number_; }
  // The parameter block in device memory. Its address changes only when it has to grow.
  DevicePtr block() const { return block_; }
  void reserve_block(int words);
  // Makes words [begin, end) there those of the host's block, in stream order. What the device has
  // already is not sent again.
  void upload(const std::int64_t* words, int begin, int end);
  // Host code that ran since begin() may have changed the thread's context.
  void return_to_context();
  // The queue's handle, set to stream `number` of the Program, which has a workspace of its own;
  // made on first use.
  void* cublas(Stream stream, int number);
  SideStreams& side_streams() { return side_; }

 private:
  // Pinned staging copies of blocks in transit to the device.
  struct Slot {
    void* memory = nullptr;
    std::size_t bytes = 0;
    Event done = nullptr;
    bool in_flight = false;
    bool recorded = false;  // `done`, since the copy was enqueued
  };
  // Number of calls that the host may be ahead of the device; beyond it an upload waits.
  static constexpr std::size_t kMaxSlots = 256;
  Slot& free_slot();
  void record(Slot& slot);
  void send(const std::int64_t* words, int begin, int end);
  void leave_recording() noexcept;
  void write_block(const std::int64_t* words, int begin, int end);

  CudaDevice& device_;
  const std::uint64_t number_;
  Stream own_stream_ = nullptr;
  Stream stream_ = nullptr;   // own_stream_ or the caller's
  bool from_caller_ = false;  // stream_ is the caller's: the host does not wait
  bool open_ = false;         // between begin() and finish()
  bool recorded_ = false;     // stream_ is the caller's and capturing
  int callers_mode_ = 0;      // while recorded_: the thread's previous capture mode
  bool in_context_ = false;   // the thread's context is still the device's
  Event done_ = nullptr;
  Event last_done_ = nullptr;  // done_ or that of a slot: recorded at the end of the last call
  Stream last_ = nullptr;      // the stream it was recorded on
  bool has_run_ = false;
  DevicePtr block_ = 0;
  int block_words_ = 0;
  std::vector<std::int64_t> sent_;            // the block as it will be on the device,
  int known_begin_ = 0, known_end_ = 0;       // these words of it
  std::vector<std::unique_ptr<Slot>> slots_;  // used round-robin
  std::size_t next_slot_ = 0;
  std::vector<Slot*> slots_of_call_;
  void* cublas_ = nullptr;
  std::map<int, DevicePtr> workspaces_;  // by stream of the Program
  SideStreams side_;
};

struct CudaLoaded;

// One step, ready to be issued to a stream.
struct CudaOp {
  enum class Kind : std::uint8_t { kernel, library, copy, fill, record, wait, branch, loop };
  Kind kind = Kind::kernel;
  std::string name;            // of the step, for messages
  const void* step = nullptr;  // for traces
  int stream = 0;              // of the Program
  int event = -1;              // record, wait
  bool is_event() const { return kind == Kind::record || kind == Kind::wait; }
  bool is_control() const { return kind == Kind::branch || kind == Kind::loop; }
  std::vector<CudaOp> first, second;  // then, else; condition, body
  int word = 0, dims_word = 0, grid_word = 0, end_word = 0;
  std::vector<int> merged_grid_words;  // of the launches that run with this one
  int block = 1;
  int epoch = 0;
  Function function = nullptr;
  const CudaLoaded* code = nullptr;  // that the function is part of
  bool waits = false;                // the kernel itself waits for its predecessor
  int blocks = 0;                    // persistent kernel: its blocks, which run at the same time
  // Static code: StaticLaunch::grid, and the shared memory of its blocks.
  std::int64_t own_grid = 0, own_shared = 0;
  std::optional<problems::MatmulProblem> matmul;
  std::uint64_t pattern = 0;
  int width = 1;
  // For the gear's sizes; the actual sizes are in the words.
  std::int64_t gear_grid = 0, gear_shared = 0, gear_bytes = 0;
  std::vector<std::int64_t> gear_dims;
  bool capturable =
      true;  // library: no operand is read or written past its own sizes at the gear's
};

struct CudaLoaded final : Loaded {
  CudaLoaded(CudaDevice& the_device, const program::Executable& executable);
  ~CudaLoaded() override;
  std::vector<double> time(std::span<const program::Trial> trials) override;
  // Of static code; loaded on first use and kept. May be called from any thread.
  Function function_of(const program::DeviceCode& code) const;
  // Before a launch with this many bytes of dynamic shared memory. The limit of a function never
  // shrinks: graphs that were captured with more of them need it.
  void allow_shared(Function function, std::int64_t bytes) const;

  CudaDevice& device;
  std::vector<Module> modules;
  std::vector<Function> functions;  // by code
  std::unordered_set<Function>
      waiting;  // kernels that may begin before their predecessor has finished
  std::vector<std::optional<problems::MatmulProblem>> matmuls;  // by code: the library's
  std::unordered_map<const program::Launch*, Function> merged;  // by the first of the launches
  // What a launch of a persistent kernel needs besides its function.
  struct Persistent {
    int blocks = 0, threads = 0;
    std::int64_t shared_bytes = 0;
  };
  std::unordered_map<Function, Persistent> persistent;
  std::size_t constant_bytes = 0;
  Function copy = nullptr, fill = nullptr;  // null where the Program has no such steps
  Function set_condition = nullptr;         // where records_control

 private:
  void find_control();
  void add_persistent(Function function, const program::DeviceCode& code);
  struct StaticFunction {
    std::shared_ptr<const std::string> image;
    Module module = nullptr;
    Function function = nullptr;
  };
  mutable std::mutex mutex_;
  mutable std::unordered_map<const std::string*, StaticFunction> static_;  // by image
  mutable std::unordered_map<Function, std::int64_t> shared_limits_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(bool graphs, int ordinal);
  ~CudaDevice() override;
  std::string_view name() const override { return graphs_ ? "cuda_graph" : "cuda_stream"; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  void write(void* device, const void* host, std::size_t bytes) override;
  std::unique_ptr<Queue> make_queue() override;
  void check_usable() const override;
  bool is_capturing(std::uint64_t stream) const override;
  void wait_for(std::uint64_t stream) override;
  std::uint64_t thread_state() const override;  // the thread's context
  void set_thread_state(std::uint64_t state) const noexcept override;
  std::unique_ptr<Loaded> load(const program::Executable& executable) override;
  std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                          std::span<const std::int64_t> gear) override;
  bool runs_callables() const override { return false; }
  bool takes_device_code() const override { return graphs_; }
  int max_queues() const override { return 4; }

  const DriverApi& api() const { return api_; }
  bool graphs() const { return graphs_; }
  const std::string& architecture() const { return architecture_; }
  int multiprocessors() const { return multiprocessors_; }
  int device() const { return device_; }  // of the driver
  Context context() const { return context_; }
  void make_current() const;  // required on every thread that calls the driver
  // Issues the steps with their actual sizes, one by one. If GEX_CUDA_CHECK is set, waits for each
  // of them, so that a fault is reported with the name of its step.
  void issue_all(const std::vector<CudaOp>& ops, const Replay& replay, CudaQueue& queue) const;
  bool checks_steps() const { return checks_steps_; }
  // The same, and waits: the trace gets the times of the steps.
  void issue_traced(const std::vector<CudaOp>& ops, const Replay& replay, CudaQueue& queue) const;
  // Issues steps with their real sizes, or with the gear's (for a graph that serves them all), to
  // `main` and to the queue's other streams. All of them end before what comes later on `main`.
  struct Mode {
    bool at_gear = false;
    StepTimes* times = nullptr;  // of a traced call
    bool captures = false;       // into a graph of the engine
    int depth = 0;               // of the conditional node whose body is captured
    bool is_first = false;       // step of a run: what is before it on the stream may be foreign
  };
  void issue_run(std::span<const CudaOp> ops, const std::int64_t* words, CudaQueue& queue,
                 Stream main, Mode mode) const;

 private:
  // Steps without if and while among them.
  void issue_straight(std::span<const CudaOp> ops, const std::int64_t* words, CudaQueue& queue,
                      Stream main, Mode mode) const;
  // An if or while step: a conditional node of the graph that is captured, else decided here.
  void issue_control(const CudaOp& op, const std::int64_t* words, CudaQueue& queue, Stream main,
                     Mode mode) const;
  // Both return whether there was anything to do.
  bool issue(const CudaOp& op, const std::int64_t* words, CudaQueue& queue, Stream stream,
             Mode mode) const;
  bool launch(const CudaOp& op, DevicePtr parameters, const std::int64_t* words, Stream stream,
              Mode mode) const;
  void check_step(const CudaOp& op, Stream stream) const;

  const DriverApi& api_;
  const bool graphs_;
  int device_ = 0;
  Context context_ = nullptr;
  std::string architecture_;
  int multiprocessors_ = 0;
  const bool checks_steps_;  // GEX_CUDA_CHECK
  const int process_;        // the process that owns the context: a forked child can't use it
};

// Collects the steps of a batch as CudaOps; drivers make their Recording of them.
class CudaRecorder : public Recorder {
 public:
  CudaRecorder(const CudaDevice& device, const Image& image, const CudaLoaded& loaded,
               std::span<const std::int64_t> gear)
      : device_(device), image_(image), loaded_(loaded), gear_(gear) {}
  void launch(const LaunchOp& op) override;
  void copy(const CopyOp& op) override;
  void fill(const FillOp& op) override;
  void record(int event, int stream) override;
  void wait(int event, int stream) override;
  void begin_control(const ControlOp& op) override;
  void next_segment() override;
  void end_control() override;

 protected:
  std::vector<CudaOp> take_steps();
  void add_event(CudaOp::Kind kind, int event, int stream);
  bool can_be_captured(const program::Launch& launch) const;
  void merge(const LaunchOp& op);
  void add_beside_previous(CudaOp call);

  const CudaDevice& device_;
  const Image& image_;
  const CudaLoaded& loaded_;
  const std::span<const std::int64_t> gear_;
  // The if and while steps around the current one, and the steps before each of them.
  struct Outer {
    CudaOp control;
    std::vector<CudaOp> before;
  };
  std::vector<Outer> outer_;
  std::vector<CudaOp> ops_;
  bool merging_ = false;  // the last launch runs as one kernel with those marked with_previous
  // The last call of a library that is not marked with_previous, and those marked since.
  std::size_t first_call_ = 0;
  int calls_beside_ = 0;
  int next_event_ = 0;
};

// How many launches, copies and fills they are; those of if and while steps count once.
std::int64_t num_steps(std::span<const CudaOp> ops);

// Adds what a batch did, by its real sizes. How often the steps inside if and while ran is known to
// the device alone: they do not count.
void count(const std::vector<CudaOp>& ops, const std::int64_t* words, Tally& tally);

}  // namespace gex::runtime::cuda
