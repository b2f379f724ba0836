#include "runtime/drivers/cpu/cpu_recording.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/drivers/cpu/cpu_device.hpp"
#include "runtime/drivers/cpu/profile.hpp"
#include "runtime/drivers/cpu/stream_scheduler.hpp"
#include "runtime/launch_watch.hpp"
#include "runtime/trace.hpp"

namespace gex::runtime {

namespace {

// Waking a sleeping worker takes about 15 microseconds, half of which the caller spends: a batch
// with less work than this finishes sooner on one thread.
constexpr std::int64_t kWorkWorthWaking = 1280 * 1024;
// When calls follow each other closely the workers are still awake, and less work is enough.
constexpr std::int64_t kWorkWorthSharing = 128 * 1024;
// Sharing a launch costs about a microsecond even when the workers are awake.
constexpr std::int64_t kWorkWorthThreads = 32 * 1024;
// Smallest amount of work that a worker takes at a time.
constexpr std::int64_t kMinChunkWork = 16 * 1024;
// Grid points this large belong to contractions, which pack operands once per chunk: they are split
// into few chunks; two per thread still balance a thread that was delayed.
constexpr std::int64_t kLargePointWork = 64 * 1024;
constexpr std::int64_t kLargeChunksPerThread = 2;
// Chunks per thread of a step that runs beside others: enough to balance uneven ones.
constexpr std::int64_t kChunksPerThread = 4;
// Bytes of a copy or fill in one chunk.
constexpr std::int64_t kChunkBytes = 256 * 1024;

void fill_bytes(std::byte* dst, std::int64_t bytes, std::uint64_t pattern, int width) {
  if (width == 1) {
    std::memset(dst, static_cast<int>(pattern & 255), static_cast<std::size_t>(bytes));
    return;
  }
  std::uint64_t wide = pattern;
  if (width == 2) wide = (pattern & 0xffff) * 0x0001000100010001ULL;
  if (width == 4) wide = (pattern & 0xffffffff) * 0x0000000100000001ULL;
  std::int64_t done = 0;
  for (; done + 8 <= bytes; done += 8) std::memcpy(dst + done, &wide, 8);
  std::memcpy(dst + done, &wide, static_cast<std::size_t>(bytes - done));
}

class CpuRecording final : public Recording {
 public:
  struct Op {
    enum class Kind : std::uint8_t { launch, copy, fill } kind;
    bool ordered = false;
    bool uses_scratch = false;
    std::uint8_t width = 1;
    int word = 0, dims_word = 0, grid_word = 0;
    int number = 0, epoch = 0;
    int threads = 0;  // maximum number of workers; 0: all
    std::uint64_t pattern = 0;
    const program::Launch* launch = nullptr;  // only its name and its number of dims are read
    const void* step = nullptr;               // for traces
  };

  void replay(Queue& queue, const Replay& replay) override {
    auto& cpu = static_cast<CpuQueue&>(queue);
    LaunchWatch* const watch = LaunchWatch::current();
    const bool alone = !cpu.workers_awake() && !worth_sharing(cpu, replay.block);
    if (!alone && watch == nullptr && scheduler.has_several() && run_streams(cpu.region(), replay))
      return;
    for (const Op& op : ops) {
      switch (op.kind) {
        case Op::Kind::launch:
          if (watch != nullptr) watch->launch_begins(op.launch->name);
          profile_ == nullptr ? launch(op, cpu, replay, alone)
                              : launch_timed(op, cpu, replay, alone);
          if (watch != nullptr) watch->launch_ended();
          break;
        case Op::Kind::copy:
          copy(op, cpu, replay);
          break;
        case Op::Kind::fill:
          fill(op, cpu, replay);
          break;
      }
    }
  }

  std::vector<Op> ops;
  StreamScheduler scheduler;

 private:
  struct Range {
    const program::Callable* code;
    void* const* buffers;
    const std::int64_t* dims;
    ScratchArea scratch;
    bool uses_scratch;
    CallTrace* trace;
    const void* step;
  };

  // Adds the duration of a scope to the trace, if there is one.
  class Timed {
   public:
    Timed(CallTrace* trace, const void* step, int worker)
        : trace_(trace), step_(step), worker_(worker), begin_(trace ? CallTrace::now() : 0) {}
    ~Timed() {
      if (trace_ != nullptr) trace_->add(step_, worker_, begin_, CallTrace::now());
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    CallTrace* const trace_;
    const void* const step_;
    const int worker_;
    const std::int64_t begin_;
  };

  bool worth_sharing(CpuQueue& queue, const std::int64_t* words) const {
    std::int64_t work = 0;
    for (const Op& op : ops) {
      if (op.kind == Op::Kind::launch && words[op.grid_word] > 0) work += words[op.grid_word + 1];
      if (work >= kWorkWorthWaking) return true;
    }
    return work >= kWorkWorthSharing && queue.region().workers_awake();
  }

  // Chunk size such that at most `workers` workers take part.
  static std::int64_t ceil_div(std::int64_t all, std::int64_t workers) {
    return (all + workers - 1) / workers;
  }

  // Bytes of one chunk of a copy or fill: a multiple of kChunkBytes.
  static std::int64_t chunk_bytes(const Op& op, std::int64_t bytes) {
    if (op.threads == 0) return kChunkBytes;
    return ceil_div(ceil_div(bytes, op.threads), kChunkBytes) * kChunkBytes;
  }

  static Range range_of(const Op& op, const Replay& replay) {
    return {&replay.code[static_cast<std::size_t>(op.number)],
            reinterpret_cast<void* const*>(replay.block + op.word),
            replay.block + op.dims_word,
            replay.scratch[static_cast<std::size_t>(op.epoch)],
            op.uses_scratch,
            replay.trace,
            op.step};
  }

  static bool is_small(const Op& op, const std::int64_t* words) {
    return op.ordered || words[op.grid_word] == 1 || words[op.grid_word + 1] < kWorkWorthThreads;
  }

  static bool is_limited(const Op& op, int threads) {
    return op.threads > 0 && op.threads < threads;
  }

  // Minimum number of grid points that a worker takes at a time.
  static std::int64_t grain_of(const Op& op, const std::int64_t* words, int threads) {
    const std::int64_t grid = words[op.grid_word], work = words[op.grid_word + 1];
    std::int64_t grain = std::max<std::int64_t>(1, grid * kMinChunkWork / work);
    if (work / grid >= kLargePointWork) grain = ceil_div(grid, kLargeChunksPerThread * threads);
    return is_limited(op, threads) ? std::max(grain, ceil_div(grid, op.threads)) : grain;
  }

  static void launch(const Op& op, CpuQueue& queue, const Replay& replay, bool alone) {
    const std::int64_t grid = replay.block[op.grid_word];
    if (grid <= 0) return;
    Range range = range_of(op, replay);
    ++replay.tally->launches;
    if (alone || is_small(op, replay.block) || (op.uses_scratch && range.scratch.workers == 1)) {
      run_range(&range, 0, grid, 0);
      return;
    }
    ThreadPool::Region& region = queue.region();
    const int threads = region.threads();
    if (is_limited(op, threads)) ++replay.tally->limited;
    // The thread count may have been raised since the scratch was allocated.
    const bool too_many = op.uses_scratch && threads > range.scratch.workers;
    region.run(grid, too_many ? grid : grain_of(op, replay.block, threads), run_range, &range);
  }

  void launch_timed(const Op& op, CpuQueue& queue, const Replay& replay, bool alone) {
    const auto begin = std::chrono::steady_clock::now();
    launch(op, queue, replay, alone);
    const auto time = std::chrono::steady_clock::now() - begin;
    profile_->add(op.launch->name, {replay.block + op.dims_word, op.launch->dims.size()},
                  replay.block[op.grid_word + 1],
                  std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  }

  static void run_range(void* context, std::int64_t begin, std::int64_t end, int worker) {
    const auto& range = *static_cast<const Range*>(context);
    const Timed timed(range.trace, range.step, worker);
    std::byte* const scratch = range.uses_scratch ? range.scratch.of(worker) : nullptr;
    (*range.code)(range.buffers, range.dims, begin, end, scratch);
  }

  static bool is_large_move(std::int64_t bytes) { return bytes >= 4 * kChunkBytes; }

  static bool overlaps(const Op& op, const std::int64_t* words) {
    const std::int64_t dst = words[op.word], src = words[op.word + 1], bytes = words[op.word + 2];
    return dst < src + bytes && src < dst + bytes;
  }

  static std::int64_t bytes_to_copy(const Op& op, const std::int64_t* words) {
    return words[op.word] == words[op.word + 1] ? 0 : words[op.word + 2];
  }

  static void copy_part(const Op& op, const std::int64_t* words, std::int64_t begin,
                        std::int64_t end) {
    auto* dst = reinterpret_cast<std::byte*>(words[op.word]);
    const auto* src = reinterpret_cast<const std::byte*>(words[op.word + 1]);
    std::memmove(dst + begin, src + begin, static_cast<std::size_t>(end - begin));
  }

  // Chunks begin at multiples of kChunkBytes, so the fill pattern is aligned in each.
  static void fill_part(const Op& op, const std::int64_t* words, std::int64_t begin,
                        std::int64_t end) {
    fill_bytes(reinterpret_cast<std::byte*>(words[op.word]) + begin, end - begin, op.pattern,
               op.width);
  }

  static void copy(const Op& op, CpuQueue& queue, const Replay& replay) {
    const std::int64_t* words = replay.block;
    const std::int64_t bytes = bytes_to_copy(op, words);
    if (bytes <= 0) return;
    replay.tally->bytes_copied += bytes;
    const Timed timed(replay.trace, op.step, 0);
    if (!is_large_move(bytes) || overlaps(op, words)) return copy_part(op, words, 0, bytes);
    queue.region().parallel_for(
        bytes, chunk_bytes(op, bytes),
        [&](std::int64_t begin, std::int64_t end, int) { copy_part(op, words, begin, end); });
  }

  static void fill(const Op& op, CpuQueue& queue, const Replay& replay) {
    const std::int64_t* words = replay.block;
    const std::int64_t bytes = words[op.word + 1];
    if (bytes <= 0) return;
    const Timed timed(replay.trace, op.step, 0);
    if (!is_large_move(bytes)) return fill_part(op, words, 0, bytes);
    queue.region().parallel_for(
        bytes, chunk_bytes(op, bytes),
        [&](std::int64_t begin, std::int64_t end, int) { fill_part(op, words, begin, end); });
  }

  // The work of a batch by stream: each step split into chunks.
  class Work final : public StreamWork {
   public:
    Work(const CpuRecording& recording, const Replay& replay, int threads)
        : ops_(recording.ops), replay_(replay), threads_(threads) {}

    std::int64_t chunks(int task) const override {
      const Split split = split_of(ops_[static_cast<std::size_t>(task)]);
      return split.all <= 0 ? 0 : ceil_div(split.all, split.chunk);
    }

    void run(int task, std::int64_t chunk, int worker) const override {
      const Op& op = ops_[static_cast<std::size_t>(task)];
      const Split split = split_of(op);
      const std::int64_t begin = chunk * split.chunk,
                         end = std::min(split.all, begin + split.chunk);
      if (op.kind != Op::Kind::launch) {
        const Timed timed(replay_.trace, op.step, worker);
        return op.kind == Op::Kind::copy ? copy_part(op, replay_.block, begin, end)
                                         : fill_part(op, replay_.block, begin, end);
      }
      Range range = range_of(op, replay_);
      run_range(&range, begin, end, worker);
    }

   private:
    struct Split {
      std::int64_t all, chunk;
    };

    Split split_of(const Op& op) const {
      const std::int64_t* words = replay_.block;
      if (op.kind != Op::Kind::launch) {
        const bool copies = op.kind == Op::Kind::copy;
        const std::int64_t bytes = copies ? bytes_to_copy(op, words) : words[op.word + 1];
        const bool whole = !is_large_move(bytes) || (copies && overlaps(op, words));
        return {bytes, whole ? bytes : chunk_bytes(op, bytes)};
      }
      const std::int64_t grid = words[op.grid_word];
      if (grid <= 0 || is_small(op, words)) return {grid, grid};
      const std::int64_t grain = grain_of(op, words, threads_);
      return {grid, grain * ceil_div(ceil_div(grid, grain), kChunksPerThread * threads_)};
    }

    const std::vector<Op>& ops_;
    const Replay& replay_;
    const int threads_;
  };

  // Returns false if the steps have to run one after the other.
  bool run_streams(ThreadPool::Region& region, const Replay& replay) const {
    const int threads = region.threads();
    if (threads == 1 || profile_ != nullptr) return false;
    for (const Op& op : ops)
      if (op.kind == Op::Kind::launch && op.uses_scratch &&
          replay.scratch[static_cast<std::size_t>(op.epoch)].workers < threads)
        return false;
    replay.tally->overlapped += scheduler.run(region, Work(*this, replay, threads));
    for (const Op& op : ops) {
      if (op.kind == Op::Kind::copy)
        replay.tally->bytes_copied += std::max<std::int64_t>(0, bytes_to_copy(op, replay.block));
      if (op.kind != Op::Kind::launch || replay.block[op.grid_word] <= 0) continue;
      ++replay.tally->launches;
      if (is_limited(op, threads) && !is_small(op, replay.block)) ++replay.tally->limited;
    }
    return true;
  }

  Profile* profile_ = Profile::active();
};

class CpuRecorder final : public Recorder {
 public:
  void launch(const LaunchOp& op) override {
    CpuRecording::Op out{CpuRecording::Op::Kind::launch};
    out.ordered = op.launch->ordered;
    out.uses_scratch = op.launch->scratch_bytes != Dim(0);
    out.launch = op.launch;
    out.step = op.launch;
    out.word = op.word;
    out.dims_word = op.dims_word();
    out.grid_word = op.grid_word();
    out.number = op.number;
    out.epoch = op.epoch;
    out.threads = op.threads;
    add(out, op.stream);
  }
  void copy(const CopyOp& op) override {
    CpuRecording::Op out{CpuRecording::Op::Kind::copy};
    out.step = op.copy;
    out.word = op.word;
    out.threads = op.threads;
    add(out, op.stream);
  }
  void fill(const FillOp& op) override {
    CpuRecording::Op out{CpuRecording::Op::Kind::fill};
    out.step = op.fill;
    out.word = op.word;
    out.pattern = op.fill->pattern;
    out.width = static_cast<std::uint8_t>(op.fill->pattern_bytes);
    out.threads = op.threads;
    add(out, op.stream);
  }
  void record(int event, int stream) override { recording_->scheduler.record(event, stream); }
  void wait(int event, int stream) override { recording_->scheduler.wait(event, stream); }
  std::unique_ptr<Recording> finish() override { return std::move(recording_); }

 private:
  void add(const CpuRecording::Op& op, int stream) {
    recording_->scheduler.add(stream, static_cast<int>(recording_->ops.size()));
    recording_->ops.push_back(op);
  }

  std::unique_ptr<CpuRecording> recording_ = std::make_unique<CpuRecording>();
};

}  // namespace

std::unique_ptr<Recorder> make_cpu_recorder() { return std::make_unique<CpuRecorder>(); }

}  // namespace gex::runtime
