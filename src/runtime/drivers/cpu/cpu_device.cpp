#include "runtime/drivers/cpu/cpu_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/host_workers.hpp"
#include "base/memory_size.hpp"
#include "runtime/drivers/cpu/profile.hpp"
#include "runtime/image.hpp"

namespace gex::runtime {

namespace {

// A sleeping worker arrives some 15 microseconds after it was called, and calling costs half of
// that: a batch with less work than this is done sooner alone.
constexpr std::int64_t kWorkWorthWaking = 1280 * 1024;
// Where calls follow each other at once the workers wait awake, and this is enough.
constexpr std::int64_t kWorkWorthSharing = 128 * 1024;
// Sharing a launch costs a microsecond even among workers that are awake.
constexpr std::int64_t kWorkWorthThreads = 32 * 1024;
// And no piece that a worker takes is smaller than this.
constexpr std::int64_t kWorkOfPiece = 16 * 1024;
// Units this large belong to contractions, which pack operands once for each piece: they are cut
// into few pieces, and two for each thread still even out a thread that was held up.
constexpr std::int64_t kWorkOfLargeUnit = 64 * 1024;
constexpr std::int64_t kLargePiecesOfThread = 2;
// A copy or fill moves this many bytes for each piece.
constexpr std::int64_t kBytesOfPiece = 256 * 1024;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

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
    std::uint8_t width = 1;
    int word = 0, dims_word = 0, grid_word = 0;
    int number = 0, epoch = 0;
    std::uint64_t pattern = 0;
    const program::Launch* launch = nullptr;  // only its name and its number of dims are read
  };

  void replay(Queue& queue, const Replay& replay) override {
    auto& cpu = static_cast<CpuQueue&>(queue);
    const bool alone = !cpu.workers_awake() && !worth_sharing(cpu, replay.block);
    for (const Op& op : ops) {
      switch (op.kind) {
        case Op::Kind::launch:
          profile_ == nullptr ? launch(op, cpu, replay, alone)
                              : launch_timed(op, cpu, replay, alone);
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

 private:
  struct Range {
    const program::Callable* code;
    void* const* buffers;
    const std::int64_t* dims;
    ScratchArea scratch;
  };

  bool worth_sharing(CpuQueue& queue, const std::int64_t* words) const {
    std::int64_t work = 0;
    for (const Op& op : ops) {
      if (op.kind == Op::Kind::launch && words[op.grid_word] > 0) work += words[op.grid_word + 1];
      if (work >= kWorkWorthWaking) return true;
    }
    return work >= kWorkWorthSharing && queue.region().workers_awake();
  }

  static void launch(const Op& op, CpuQueue& queue, const Replay& replay, bool alone) {
    const std::int64_t* words = replay.block;
    const std::int64_t grid = words[op.grid_word], work = words[op.grid_word + 1];
    if (grid <= 0) return;
    Range range{&replay.code[static_cast<std::size_t>(op.number)],
                reinterpret_cast<void* const*>(words + op.word), words + op.dims_word,
                replay.scratch[static_cast<std::size_t>(op.epoch)]};
    ++replay.tally->launches;
    if (alone && shared_with_host(op, grid, work, range)) return;
    const bool small = alone || op.ordered || grid == 1 || work < kWorkWorthThreads;
    if (small || range.scratch.workers == 1) {
      (*range.code)(range.buffers, range.dims, 0, grid,
                    range.scratch.stride == 0 ? nullptr : range.scratch.base);
      return;
    }
    ThreadPool::Region& region = queue.region();
    // The thread count may have been raised since scratch was laid out.
    std::int64_t grain = std::max<std::int64_t>(1, grid * kWorkOfPiece / work);
    if (work / grid >= kWorkOfLargeUnit) {
      const std::int64_t pieces = kLargePiecesOfThread * region.threads();
      grain = (grid + pieces - 1) / pieces;
    }
    if (region.threads() > range.scratch.workers) grain = grid;
    region.run(grid, grain, run_range, &range);
  }

  // What isn't worth waking anybody for is still worth sharing with threads that are awake anyway.
  static bool shared_with_host(const Op& op, std::int64_t grid, std::int64_t work, Range& range) {
    if (op.ordered || grid == 1 || work < kWorkWorthSharing) return false;
    return HostWorkers::global().run(grid, range.scratch.workers, run_range, &range);
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
    std::byte* scratch =
        range.scratch.stride == 0 ? nullptr : range.scratch.base + range.scratch.stride * worker;
    (*range.code)(range.buffers, range.dims, begin, end, scratch);
  }

  static void copy(const Op& op, CpuQueue& queue, const Replay& replay) {
    auto* dst = reinterpret_cast<std::byte*>(replay.block[op.word]);
    const auto* src = reinterpret_cast<const std::byte*>(replay.block[op.word + 1]);
    const std::int64_t bytes = replay.block[op.word + 2];
    if (bytes <= 0 || dst == src) return;
    replay.tally->bytes_copied += bytes;
    const bool overlap = dst < src + bytes && src < dst + bytes;
    if (overlap || bytes < 4 * kBytesOfPiece) {
      std::memmove(dst, src, static_cast<std::size_t>(bytes));
      return;
    }
    queue.region().parallel_for(
        bytes, kBytesOfPiece, [=](std::int64_t begin, std::int64_t end, int) {
          std::memcpy(dst + begin, src + begin, static_cast<std::size_t>(end - begin));
        });
  }

  static void fill(const Op& op, CpuQueue& queue, const Replay& replay) {
    auto* dst = reinterpret_cast<std::byte*>(replay.block[op.word]);
    const std::int64_t bytes = replay.block[op.word + 1];
    if (bytes <= 0) return;
    if (bytes < 4 * kBytesOfPiece) {
      fill_bytes(dst, bytes, op.pattern, op.width);
      return;
    }
    // Pieces begin at multiples of kBytesOfPiece, so the pattern is in phase in each.
    queue.region().parallel_for(bytes, kBytesOfPiece,
                                [=, &op](std::int64_t begin, std::int64_t end, int) {
                                  fill_bytes(dst + begin, end - begin, op.pattern, op.width);
                                });
  }

  Profile* profile_ = Profile::active();
};

class CpuRecorder final : public Recorder {
 public:
  void launch(const LaunchOp& op) override {
    CpuRecording::Op out{CpuRecording::Op::Kind::launch};
    out.ordered = op.launch->ordered;
    out.launch = op.launch;
    out.word = op.word;
    out.dims_word = op.dims_word();
    out.grid_word = op.grid_word();
    out.number = op.number;
    out.epoch = op.epoch;
    recording_->ops.push_back(out);
  }
  void copy(const CopyOp& op) override {
    CpuRecording::Op out{CpuRecording::Op::Kind::copy};
    out.word = op.word;
    recording_->ops.push_back(out);
  }
  void fill(const FillOp& op) override {
    CpuRecording::Op out{CpuRecording::Op::Kind::fill};
    out.word = op.word;
    out.pattern = op.fill->pattern;
    out.width = static_cast<std::uint8_t>(op.fill->pattern_bytes);
    recording_->ops.push_back(out);
  }
  std::unique_ptr<Recording> finish() override { return std::move(recording_); }

 private:
  std::unique_ptr<CpuRecording> recording_ = std::make_unique<CpuRecording>();
};

}  // namespace

bool CpuQueue::read(void* host, const void* device, std::size_t bytes) {
  std::memcpy(host, device, bytes);
  return true;
}

CpuDevice::CpuDevice(CpuResources resources) : resources_(std::move(resources)) {
  if (resources_.workers.run) own_pool_ = std::make_unique<ThreadPool>(resources_.workers);
}

void* CpuDevice::allocate(std::size_t bytes) {
  if (resources_.allocate) {
    void* memory = resources_.allocate(bytes, 64);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, "the allocator of the program has no ", bytes, " bytes");
    return memory;
  }
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = bytes <= total_memory()
                     ? std::aligned_alloc(alignment, std::max(rounded, alignment))
                     : nullptr;
  if (memory == nullptr)
    fail(ErrorCode::out_of_memory, "no memory for an arena of ", bytes,
         " bytes; use smaller inputs or free memory");
  if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // a hint; may be refused
  return memory;
}

void CpuDevice::deallocate(void* memory, std::size_t bytes) noexcept {
  if (resources_.release)
    resources_.release(memory, bytes);
  else
    std::free(memory);
}

void CpuDevice::discard(void* memory, std::size_t bytes) noexcept {
  if (resources_.allocate) return;  // not ours to hand to the system
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void CpuDevice::write(void* device, const void* host, std::size_t bytes) {
  std::memcpy(device, host, bytes);
}

std::unique_ptr<Loaded> CpuDevice::load(const program::Program& program) {
  for (const program::Code& code : program.codes)
    if (!code.generic)
      fail(ErrorCode::unsupported, "code \"", code.name, "\" for target \"", code.target,
           "\" has no function for the CPU; load or compile it before the Session is made");
  auto loaded = std::make_unique<Loaded>();
  for (const program::BufferDesc& buffer : program.buffers)
    loaded->constants.push_back(
        buffer.data == nullptr ? nullptr : const_cast<std::byte*>(buffer.data->data()));
  return loaded;
}

std::unique_ptr<Recorder> CpuDevice::make_recorder(const Image&, Loaded&,
                                                   std::span<const std::int64_t>) {
  return std::make_unique<CpuRecorder>();
}

}  // namespace gex::runtime
