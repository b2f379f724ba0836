#pragma once
// What the two CUDA drivers share: memory, streams, code, and issuing one step. They differ in what
// a Recording does with the steps: cuda_stream issues them at each call, cuda_graph captures them.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nvidia/api.hpp"
#include "runtime/device.hpp"
#include "runtime/drivers/cuda/library.hpp"

namespace gex::runtime::cuda {

using namespace nvidia;  // the vendor's types and entry points

class CudaDevice;

// Throws UserError: out_of_memory or device_error with the driver's own words.
void check(const DriverApi& api, Result result, const char* what);

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(CudaDevice& device);
  ~CudaQueue() override;
  void begin(std::optional<std::uint64_t> stream) override;
  bool read(void* host, const void* device, std::size_t bytes) override;
  void park() override;
  void finish() override;
  void reset() noexcept override;

  // Where the work of the present call goes.
  Stream stream() const { return stream_; }
  Stream capture_stream() const { return own_stream_; }
  // Whether the work of the present call becomes part of a graph that the caller records.
  bool is_recorded() const { return recorded_; }
  // Never used again for another queue, unlike the address of its block.
  std::uint64_t number() const { return number_; }
  // The parameter block in device memory. Its address changes only when it has to grow.
  DevicePtr block() const { return block_; }
  void reserve_block(int words);
  // Copies words [begin, end) of the host's block there, in stream order, through pinned memory.
  void upload(const std::int64_t* words, int begin, int end);
  void* cublas(Stream stream);  // the queue's handle, set to the stream; made on first use

 private:
  // Pinned copies of blocks on their way to the device.
  struct Slot {
    void* memory = nullptr;
    std::size_t bytes = 0;
    Event done = nullptr;
    bool in_flight = false;
  };
  // Calls that the host may be ahead of the device; only then does an upload wait.
  static constexpr std::size_t kMaxSlots = 256;
  Slot& free_slot();
  void leave_recording() noexcept;
  void write_block(const std::int64_t* words, int begin, int end);

  CudaDevice& device_;
  const std::uint64_t number_;
  Stream own_stream_ = nullptr;
  Stream stream_ = nullptr;   // own_stream_ or the caller's
  bool from_caller_ = false;  // stream_ is the caller's: nobody waits
  bool open_ = false;         // between begin() and finish()
  bool recorded_ = false;     // stream_ is the caller's and capturing
  int callers_mode_ = 0;      // while recorded_: what the thread's capture mode was
  Event done_ = nullptr;      // recorded at the end of the last call
  Stream last_ = nullptr;     // where that was
  bool has_run_ = false;
  DevicePtr block_ = 0;
  int block_words_ = 0;
  std::vector<Slot> slots_;  // used in turn
  std::size_t next_slot_ = 0;
  void* cublas_ = nullptr;
  DevicePtr workspace_ = 0;
};

// One step, ready to be issued to a stream.
struct CudaOp {
  enum class Kind : std::uint8_t { kernel, library, copy, fill };
  Kind kind = Kind::kernel;
  std::string name;            // of the step, for messages
  const void* step = nullptr;  // for traces
  int word = 0, dims_word = 0, grid_word = 0, end_word = 0;
  std::vector<int> merged_grid_words;  // of the launches that run with this one
  int block = 1;
  int epoch = 0;
  Function function = nullptr;
  bool waits = false;  // the kernel waits itself for what is before it
  std::optional<problems::MatmulProblem> matmul;
  std::uint64_t pattern = 0;
  int width = 1;
  // For the gear's sizes; the real ones are in the words.
  std::int64_t gear_grid = 0, gear_shared = 0, gear_bytes = 0;
  std::vector<std::int64_t> gear_dims;
  bool capturable =
      true;  // library: no operand is read or written past its own sizes at the gear's
};

struct CudaLoaded final : Loaded {
  CudaLoaded(CudaDevice& the_device, const program::Executable& executable);
  ~CudaLoaded() override;

  CudaDevice& device;
  std::vector<Module> modules;
  std::vector<Function> functions;       // by code
  std::unordered_set<Function> waiting;  // those that may begin before the kernel before has ended
  std::vector<std::optional<problems::MatmulProblem>> matmuls;  // by code: the library's
  std::unordered_map<const program::Launch*, Function> merged;  // by the first of the launches
  std::size_t constant_bytes = 0;
  Function copy = nullptr, fill = nullptr;  // null where the Program has no such steps
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
  std::unique_ptr<Loaded> load(const program::Executable& executable) override;
  std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                          std::span<const std::int64_t> gear) override;
  bool runs_callables() const override { return false; }
  int max_queues() const override { return 4; }

  const DriverApi& api() const { return api_; }
  bool graphs() const { return graphs_; }
  const std::string& architecture() const { return architecture_; }
  void make_current() const;  // every thread that talks to the driver must
  // Issues the steps with their real sizes, one by one. Where GEX_CUDA_CHECK is set, waits for each
  // of them, so that a fault is told with the name of its step.
  void issue_all(const std::vector<CudaOp>& ops, const Replay& replay, CudaQueue& queue) const;
  bool checks_steps() const { return checks_steps_; }
  // The same with an event of the device after each step, and waits: the trace gets their times.
  void issue_traced(const std::vector<CudaOp>& ops, const Replay& replay, CudaQueue& queue) const;
  // Issues one step with its real sizes, or with the gear's (for a graph that serves them all).
  void issue(const CudaOp& op, const std::int64_t* words, CudaQueue& queue, Stream stream,
             bool at_gear) const;

 private:
  const DriverApi& api_;
  const bool graphs_;
  int device_ = 0;
  Context context_ = nullptr;
  std::string architecture_;
  const bool checks_steps_;  // GEX_CUDA_CHECK
  const int process_;        // that has the context: a forked child can't use it
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

 protected:
  bool can_be_captured(const program::Launch& launch) const;
  void merge(const LaunchOp& op);

  const CudaDevice& device_;
  const Image& image_;
  const CudaLoaded& loaded_;
  const std::span<const std::int64_t> gear_;
  std::vector<CudaOp> ops_;
  bool merging_ = false;  // the last launch runs as one kernel with those marked with_previous
};

// Adds what a batch did, by its real sizes.
void count(const std::vector<CudaOp>& ops, const std::int64_t* words, Tally& tally);

}  // namespace gex::runtime::cuda
