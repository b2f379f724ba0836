#include "backend/cuda/super_kernels.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "backend/cuda/persistent_text.hpp"
#include "backend/cuda/ring_kernel_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

using program::BufferDesc;
using program::BufferId;
using program::Launch;

namespace {

// Read-only buffers up to this size are requested before a block waits.
constexpr std::int64_t kMostTouched = 8 * 1024;

// The phases of one persistent kernel.
class PhaseList {
 public:
  PhaseList(const program::Program& program, const PhaseText& text_of)
      : program_(program), text_of_(text_of) {}

  void add(const Launch& launch) {
    PhasePart part;
    part.first_word = words_;
    part.grid = launch.grid.constant();
    words_ += static_cast<int>(launch.buffers.size() + launch.dims.size()) + 3;
    part.text = text(launch);
    describe(launch, part);
    if (launch.recomputed) {
      add_local(launch, std::move(part));
      return;
    }
    const auto number = static_cast<std::size_t>(launch.phase);
    if (phases_.size() <= number) {
      phases_.resize(number + 1);
      launches_of_.resize(number + 1);
    }
    Phase& phase = phases_[number];
    phase.after = std::max(phase.after, launch.after_phase);
    phase.parts.push_back(std::move(part));
    launches_of_[number].push_back(&launch);
    read_local(launch, phase);
  }

  // Products are phases of their own, of at most this many blocks.
  std::vector<Phase> phases(std::int64_t blocks) {
    std::vector<Phase> out;
    accesses_.clear();
    std::vector<int> last_of;  // by phase of the Program
    for (const Phase& phase : phases_) {
      const auto begin = out.size();
      std::int64_t used = 0;
      for (const bool products : {false, true}) {
        for (std::size_t i = 0; i < phase.parts.size(); ++i) {
          const PhasePart& part = phase.parts[i];
          if (part.text->product.has_value() != products) continue;
          const bool fits = out.size() > begin &&
                            out.back().parts.front().text->product.has_value() == products &&
                            (!products || part.grid <= blocks - used);
          if (!fits) {
            Phase& next = out.emplace_back();
            next.after = phase.after < 0 ? -1 : last_of[static_cast<std::size_t>(phase.after)];
            next.locals = phase.locals;
            for (Phase::Local& local : next.locals) local.read_by.clear();
            used = 0;
          }
          used += part.grid;
          out.back().parts.push_back(part);
          add_accesses(*launches_of_[static_cast<std::size_t>(&phase - phases_.data())][i],
                       static_cast<int>(out.size()) - 1);
          for (std::size_t l = 0; l < phase.locals.size(); ++l)
            out.back().locals[l].read_by.push_back(phase.locals[l].read_by[i]);
        }
      }
      last_of.push_back(static_cast<int>(out.size()) - 1);
    }
    order(out);
    return out;
  }

 private:
  const BufferDesc& desc(BufferId id) const {
    return program_.buffers[static_cast<std::size_t>(id)];
  }
  std::int64_t elements(BufferId id) const {
    std::int64_t count = 1;
    for (Dim dim : desc(id).shape) count *= dim.constant();
    return count;
  }

  const KernelText* text(const Launch& launch) {
    std::vector<bool> exchanged;
    for (BufferId id : launch.buffers)
      exchanged.push_back(desc(id).exchanged || results_.contains(id));
    std::unique_ptr<KernelText>& found = texts_[{launch.code, exchanged}];
    if (found == nullptr) found = std::make_unique<KernelText>(text_of_(launch.code, exchanged));
    return found.get();
  }

  void describe(const Launch& launch, PhasePart& part) const {
    std::map<BufferId, std::size_t> staged;  // buffers that are read at several positions
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      const BufferId id = launch.buffers[p];
      if (launch.writes[p] || results_.contains(id)) continue;
      if (desc(id).exchanged) {
        const auto [found, added] = staged.emplace(id, part.staged.size());
        if (added)
          part.staged.push_back({{}, static_cast<int>(size_of(desc(id).dtype)), elements(id)});
        part.staged[found->second].buffers.push_back(static_cast<int>(p));
        continue;
      }
      const auto bytes = desc(id).bytes.as_const();
      if (bytes && *bytes > 0 && *bytes <= kMostTouched)
        part.touched.emplace_back(static_cast<int>(p), *bytes);
    }
  }

  void add_local(const Launch& launch, PhasePart part) {
    Phase::Local local;
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      if (!launch.writes[p]) continue;
      const BufferId id = launch.buffers[p];
      local.result = static_cast<int>(p);
      local.result_bytes = elements(id) * static_cast<std::int64_t>(size_of(desc(id).dtype));
      local.part = std::move(part);
      results_[id] = std::move(local);
      return;
    }
    GEX_CHECK(false, "a repeated launch without a result");
  }

  // The repeated launch whose result the last part of the phase reads.
  void read_local(const Launch& launch, Phase& phase) const {
    for (Phase::Local& local : phase.locals) local.read_by.emplace_back();
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      const auto found = results_.find(launch.buffers[p]);
      if (found == results_.end() || launch.writes[p]) continue;
      if (phase.locals.empty()) {
        phase.locals.push_back(found->second);
        phase.locals.front().read_by.resize(phase.parts.size());
      }
      phase.locals.front().read_by.back().push_back(static_cast<int>(p));
    }
  }

  // Memory that phases share other than as exchanged values.
  void add_accesses(const Launch& launch, int phase) {
    for (std::size_t p = 0; p < launch.buffers.size(); ++p) {
      const BufferId id = launch.buffers[p];
      if (!desc(id).exchanged && !results_.contains(id))
        accesses_[program::root_of(program_, id)].push_back({phase, launch.writes[p]});
    }
  }

  // Sets Phase::waits_for to the earlier phases that access the same memory, without those that one
  // of them waits for itself.
  void order(std::vector<Phase>& phases) const {
    std::vector<std::set<int>> before(phases.size());  // all phases that have ended
    for (std::size_t p = 0; p < phases.size(); ++p) {
      std::set<int> conflicts;
      for (const auto& [root, accesses] : accesses_)
        for (const Access& mine : accesses)
          for (const Access& other : accesses)
            if (mine.phase == static_cast<int>(p) && other.phase < mine.phase &&
                (mine.write || other.write))
              conflicts.insert(other.phase);
      for (int other : conflicts) {
        before[p].insert(other);
        before[p].merge(std::set(before[static_cast<std::size_t>(other)]));
      }
      for (int other : conflicts)
        if (std::none_of(conflicts.begin(), conflicts.end(), [&](int later) {
              return before[static_cast<std::size_t>(later)].contains(other);
            }))
          phases[p].waits_for.push_back(other);
    }
  }

  struct Access {
    int phase;
    bool write;
  };
  const program::Program& program_;
  const PhaseText& text_of_;
  std::map<BufferId, std::vector<Access>> accesses_;     // by root
  std::vector<std::vector<const Launch*>> launches_of_;  // by phase of the Program
  std::map<std::pair<int, std::vector<bool>>, std::unique_ptr<KernelText>> texts_;
  std::map<BufferId, Phase::Local> results_;  // of repeated launches
  std::vector<Phase> phases_;
  int words_ = 0;
};

bool begins(const program::Step* before, const Launch& launch) {
  const auto* previous = before == nullptr ? nullptr : std::get_if<Launch>(&before->op);
  return launch.phase == 0 && (previous == nullptr || previous->phase < 0);
}

}  // namespace

std::vector<SuperKernel> super_kernels(const program::Program& program, const DeviceLimits& limits,
                                       const PhaseText& text_of) {
  constexpr std::int64_t kAnyBlocks = std::numeric_limits<std::int64_t>::max();
  const RingOptions ring = ring_options();
  std::vector<SuperKernel> kernels;
  for (const program::Segment& segment : program.segments) {
    for (std::size_t i = 0; i < segment.steps.size(); ++i) {
      const auto* first = std::get_if<Launch>(&segment.steps[i].op);
      const program::Step* before = i > 0 ? &segment.steps[i - 1] : nullptr;
      if (first == nullptr || !begins(before, *first)) continue;
      GEX_CHECK(before != nullptr && std::holds_alternative<program::Fill>(before->op),
                "a persistent kernel follows the step that clears its exchanged memory");
      PhaseList list(program, text_of);
      for (; i < segment.steps.size(); ++i) {
        const auto* launch = std::get_if<Launch>(&segment.steps[i].op);
        if (launch == nullptr || launch->phase < 0) break;
        list.add(*launch);
      }
      std::optional<KernelText> kernel;
      if (ring.enabled && has_bulk_copies(limits))
        kernel = ring_kernel(list.phases(kAnyBlocks), limits, ring);
      if (!kernel) kernel = persistent_kernel(list.phases(limits.multiprocessors), limits);
      kernels.push_back({first, *std::move(kernel)});
    }
  }
  return kernels;
}

}  // namespace gex::backend::cuda
