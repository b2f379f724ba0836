#include "plan/super_kernels.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "plan/conflicts.hpp"

namespace gex::plan {

using program::BufferDesc;
using program::BufferId;
using program::Launch;
using program::Program;
using program::Step;

namespace {

// Fewer phases than this, or fewer products among them, do not repay the start of the kernel.
constexpr int kLeastPhases = 8, kLeastProducts = 4;
// Bytes that a launch copies to shared memory from exchanged memory, and that a launch that every
// block repeats may read or write.
constexpr std::int64_t kMostStaged = 24 * 1024, kMostRepeated = 8 * 1024;
constexpr std::int64_t kMostRepeatedWork = 64 * 1024;
// Blocks of a launch that is repeated by other launches than products, and of those.
constexpr std::int64_t kFewBlocks = 8;
constexpr std::int64_t kPiece = 8;                // bytes that are exchanged at once, without flags
constexpr std::int64_t kExchangeAlignment = 128;  // of values in exchanged memory
constexpr std::size_t kMostWords = 200;           // of a phase

std::int64_t rounded(std::int64_t bytes) {
  return (bytes + kExchangeAlignment - 1) / kExchangeAlignment * kExchangeAlignment;
}

// Bytes of a buffer that is dense, or nothing.
std::optional<std::int64_t> dense_bytes(const BufferDesc& desc) {
  std::int64_t elements = 1;
  for (std::size_t i = desc.shape.size(); i-- > 0;) {
    const auto size = desc.shape[i].as_const();
    if (!size) return std::nullopt;
    if (!desc.strides.empty() && *size != 1 && !(desc.strides[i] == Dim(elements)))
      return std::nullopt;
    elements *= *size;
  }
  return elements * static_cast<std::int64_t>(size_of(desc.dtype));
}

struct BufferUse {
  int launch;  // of the sequence
  std::size_t position;
  BufferId buffer;
  bool write;
};

// One sequence of launches.
class Sequence {
 public:
  Sequence(Program& program, std::span<Step> steps, const SuperKernelOptions& options,
           const std::map<BufferId, int>& uses)
      : program_(program), options_(options), uses_(uses) {
    int group = -1;
    for (Step& step : steps) {
      launches_.push_back(&std::get<Launch>(step.op));
      if (!launches_.back()->with_previous) ++group;
      groups_.push_back(group);
    }
    for (int i = 0; i < count(); ++i) {
      const Launch& launch = *launches_[index(i)];
      for (std::size_t p = 0; p < launch.buffers.size(); ++p)
        accesses_[program::root_of(program_, launch.buffers[p])].push_back(
            {i, p, launch.buffers[p], launch.writes[p]});
    }
  }

  // Returns the buffer of the exchanged memory, or -1 if the sequence is left alone.
  BufferId run() {
    choose_exchanged();
    limit_staging();
    choose_recomputed();  // last: launches that are repeated read no memory that phases write
    number_phases();
    const auto products = std::count_if(launches_.begin(), launches_.end(),
                                        [](const Launch* launch) { return launch->matrix; });
    if (phases_ < kLeastPhases || products < kLeastProducts) {
      for (Launch* launch : launches_) launch->phase = -1, launch->recomputed = false;
      return -1;
    }
    order_phases();
    return place_exchanged();
  }

 private:
  int count() const { return static_cast<int>(launches_.size()); }
  const BufferDesc& desc(BufferId id) const { return program_.buffers[index(id)]; }

  // ---- exchanged buffers ----

  bool can_be_exchanged(BufferId root, const std::vector<BufferUse>& accesses) const {
    const BufferDesc& memory = desc(root);
    const auto bytes = memory.bytes.as_const();
    const std::size_t element = size_of(memory.dtype);
    if (memory.kind != BufferDesc::Kind::temp || !bytes || element < 2 || element > 8) return false;
    // Nothing outside of the sequence reads or writes it.
    if (uses_.at(root) != static_cast<int>(accesses.size())) return false;
    std::map<std::int64_t, std::int64_t> written;  // bytes by offset
    for (const BufferUse& access : accesses) {
      const BufferDesc& view = desc(access.buffer);
      const auto dense = dense_bytes(view);
      const auto offset = program::offset_from_root(program_, access.buffer).as_const();
      if (!dense || !offset || view.dtype != memory.dtype || *dense % kPiece != 0 ||
          *offset % kPiece != 0 || *dense > kMostStaged ||
          !options_.can_exchange(*launches_[index(access.launch)], access.position))
        return false;
      if (!access.write) continue;
      if (!written.emplace(*offset, *dense).second) return false;
      if (writes_and_reads(access.launch, accesses)) return false;
    }
    // Every element is written once: readers wait for all of them.
    std::int64_t end = 0;
    for (const auto& [offset, size] : written) {
      if (offset != end) return false;
      end += size;
    }
    return end == *bytes && end > 0;
  }

  static bool writes_and_reads(int launch, const std::vector<BufferUse>& accesses) {
    return std::any_of(accesses.begin(), accesses.end(), [&](const BufferUse& other) {
      return other.launch == launch && !other.write;
    });
  }

  void choose_exchanged() {
    for (const auto& [root, accesses] : accesses_)
      if (can_be_exchanged(root, accesses)) exchanged_.insert(root);
  }

  // ---- launches that every block repeats ----

  bool is_written(BufferId root) const {
    const std::vector<BufferUse>& accesses = accesses_.at(root);
    return std::any_of(accesses.begin(), accesses.end(),
                       [](const BufferUse& access) { return access.write; });
  }

  bool can_be_recomputed(int i) const {
    const Launch& launch = *launches_[index(i)];
    if (launch.matrix || !launch.grid.is_const() || launch.grid.constant() > kFewBlocks ||
        groups_[index(i)] == 0 || launch.work.range().hi > kMostRepeatedWork)
      return false;
    BufferId result = -1;
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      const BufferId root = program::root_of(program_, launch.buffers[p]);
      if (desc(root).bytes.range().hi > kMostRepeated && launch.writes[p]) return false;
      if (!launch.writes[p]) {
        if (!exchanged_.contains(root) && is_written(root)) return false;
        continue;
      }
      if (result >= 0 || root != launch.buffers[p] || !exchanged_.contains(root)) return false;
      result = root;
    }
    if (result < 0) return false;
    // It pays in front of products, which wait for their weights meanwhile, and of launches of few
    // blocks, which would wait for its blocks.
    const std::vector<BufferUse>& accesses = accesses_.at(result);
    return std::all_of(accesses.begin(), accesses.end(), [&](const BufferUse& access) {
      const Launch& reader = *launches_[index(access.launch)];
      return access.write ||
             (reader.matrix ? launch.grid == Dim(1)
                            : reader.grid.is_const() && reader.grid.constant() <= kFewBlocks);
    });
  }

  void choose_recomputed() {
    std::map<int, int> producer_of_group;  // at most one for each group
    for (int i = 0; i < count(); ++i) {
      if (!can_be_recomputed(i)) continue;
      const BufferId result = result_of(i);
      std::set<int> readers;
      for (const BufferUse& access : accesses_.at(result))
        if (!access.write) readers.insert(groups_[index(access.launch)]);
      if (std::any_of(readers.begin(), readers.end(),
                      [&](int group) { return producer_of_group.contains(group); }))
        continue;
      for (int group : readers) producer_of_group[group] = i;
      launches_[index(i)]->recomputed = true;
      exchanged_.erase(result);
      repeated_.insert(result);
    }
  }

  BufferId result_of(int i) const {
    const Launch& launch = *launches_[index(i)];
    for (std::size_t p = 0; p < launch.buffers.size(); ++p)
      if (launch.writes[p]) return launch.buffers[p];
    return -1;
  }

  // ---- phases ----

  // A launch that would stage too much reads its largest value from global memory.
  void limit_staging() {
    for (const Launch* launch : launches_) {
      while (true) {
        std::set<BufferId> staged;
        std::int64_t bytes = 0;
        BufferId largest = -1;
        for (std::size_t p = 0; p < launch->buffers.size(); ++p) {
          const BufferId id = launch->buffers[p], root = program::root_of(program_, id);
          if (launch->writes[p] || !exchanged_.contains(root) || !staged.insert(id).second)
            continue;
          bytes += *dense_bytes(desc(id));
          if (largest < 0 || *dense_bytes(desc(id)) > *dense_bytes(desc(largest))) largest = id;
        }
        if (bytes <= kMostStaged) break;
        exchanged_.erase(program::root_of(program_, largest));
      }
    }
  }

  void number_phases() {
    int group = -1;
    for (int i = 0; i < count(); ++i) {
      if (launches_[index(i)]->recomputed) continue;
      if (groups_[index(i)] != group) ++phases_;
      group = groups_[index(i)];
      launches_[index(i)]->phase = phases_ - 1;
    }
    // A repeated launch belongs to the first phase that reads its result.
    for (int i = count() - 1; i >= 0; --i)
      if (launches_[index(i)]->recomputed)
        for (const BufferUse& access : accesses_.at(result_of(i)))
          if (!access.write) {
            launches_[index(i)]->phase = launches_[index(access.launch)]->phase;
            break;
          }
  }

  // Phases that access the same memory, other than exchanged values, run after each other.
  void order_phases() {
    for (const auto& [root, accesses] : accesses_) {
      if (exchanged_.contains(root) || repeated_.contains(root) || !is_written(root)) continue;
      for (const BufferUse& later : accesses)
        for (const BufferUse& earlier : accesses) {
          Launch& launch = *launches_[index(later.launch)];
          const int phase = launches_[index(earlier.launch)]->phase;
          if (phase < launch.phase && (later.write || earlier.write))
            launch.after_phase = std::max(launch.after_phase, phase);
        }
    }
  }

  BufferId place_exchanged() {
    BufferDesc memory;
    memory.name = "exchanged";
    memory.dtype = DType::u8;
    // Counters: a backend may divide the launches of a phase.
    std::int64_t bytes = rounded(std::int64_t{4} * count());
    const auto id = static_cast<BufferId>(program_.buffers.size());
    std::vector<BufferId> values;  // and all their views
    for (BufferId value = 0; value < id; ++value)
      if (exchanged_.contains(program::root_of(program_, value))) values.push_back(value);
    for (BufferId root : exchanged_) {
      BufferDesc& value = program_.buffers[index(root)];
      const std::int64_t size = value.bytes.constant();
      value.alias_of = id;
      value.alias_offset = bytes;
      bytes += rounded(2 * size);
    }
    for (BufferId value : values) {
      BufferDesc& doubled = program_.buffers[index(value)];
      doubled.exchanged = true;
      doubled.bytes = doubled.bytes * Dim(2);
      if (!exchanged_.contains(value)) doubled.alias_offset = doubled.alias_offset * Dim(2);
    }
    memory.shape = {bytes};
    memory.bytes = bytes;
    program_.buffers.push_back(std::move(memory));
    return id;
  }

  Program& program_;
  const SuperKernelOptions& options_;
  const std::map<BufferId, int>& uses_;
  std::vector<Launch*> launches_;
  std::vector<int> groups_;                              // by launch
  std::map<BufferId, std::vector<BufferUse>> accesses_;  // by root
  std::set<BufferId> exchanged_, repeated_;              // roots
  int phases_ = 0;
};

class SuperKernels {
 public:
  SuperKernels(Program& program, const SuperKernelOptions& options)
      : program_(program), options_(options) {
    for (const program::Segment& segment : program.segments)
      for (const Step& step : segment.steps) {
        if (const auto* launch = std::get_if<Launch>(&step.op)) {
          for (BufferId id : launch->buffers) ++uses_[program::root_of(program, id)];
          continue;
        }
        for (BufferId id : program::reads_of(step)) ++uses_[program::root_of(program, id)];
        for (BufferId id : program::writes_of(step)) ++uses_[program::root_of(program, id)];
      }
  }

  int run() {
    for (program::Segment& segment : program_.segments) {
      for (std::size_t first = 0; first < segment.steps.size(); ++first) {
        const std::size_t last = end_of_sequence(segment.steps, first);
        if (last == first) continue;
        const std::span<Step> steps = std::span(segment.steps).subspan(first, last - first);
        const BufferId memory = Sequence(program_, steps, options_, uses_).run();
        first = last;
        if (memory < 0) continue;
        Step clear;
        clear.op = program::Fill{memory, program_.buffers[index(memory)].bytes, 0, 4};
        clear.location = steps.front().location;
        segment.steps.insert(
            segment.steps.begin() + static_cast<std::ptrdiff_t>(last - steps.size()),
            std::move(clear));
        ++first;
        ++count_;
      }
    }
    return count_;
  }

 private:
  // The end of the longest sequence of whole groups that can be phases.
  std::size_t end_of_sequence(const std::vector<Step>& steps, std::size_t first) const {
    std::size_t end = first;
    if (continues(steps[first])) return first;  // the rest of a group that can't be one
    while (end < steps.size()) {
      std::size_t next = end, words = 0;
      bool fits = true;
      do {
        const auto* launch = std::get_if<Launch>(&steps[next].op);
        fits =
            fits && launch != nullptr && launch->grid.is_const() && options_.can_be_phase(*launch);
        if (launch != nullptr) words += launch->buffers.size() + launch->dims.size() + 3;
        ++next;
      } while (next < steps.size() && continues(steps[next]));
      if (!fits || words > kMostWords) break;
      end = next;
    }
    return end;
  }

  static bool continues(const Step& step) {
    const auto* launch = std::get_if<Launch>(&step.op);
    return launch != nullptr && launch->with_previous;
  }

  Program& program_;
  const SuperKernelOptions& options_;
  std::map<BufferId, int> uses_;  // by root
  int count_ = 0;
};

}  // namespace

int make_super_kernels(Program& program, const SuperKernelOptions& options) {
  if (program.num_streams > 1) return 0;
  return SuperKernels(program, options).run();
}

}  // namespace gex::plan
