#include "cache/device_bounds.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>

#include "backend/backend.hpp"
#include "base/error.hpp"
#include "cache/bounds_check.hpp"
#include "problems/problem.hpp"

namespace gex {

namespace {

using program::BufferDesc;
using program::BufferId;
using program::Launch;
using program::Program;
using program::Step;

// Exchanged memory is read in pieces of this size.
constexpr std::int64_t kPiece = 16;
// A counter for each phase of a persistent kernel, before its exchanged values.
constexpr std::int64_t kCounter = 4;

class LayoutCheck {
 public:
  LayoutCheck(const Program& program, const backend::ParsedCodes& codes)
      : program_(program),
        codes_(codes),
        target_(backend::find_target(program.target)),
        backend_(backend::backend_for(target_.kind)),
        facts_(facts_of(program)),
        first_of_code_(codes.codes.size(), nullptr) {}

  std::vector<std::string> run() {
    for (std::size_t id = 0; id < program_.buffers.size(); ++id) exchanged(static_cast<int>(id));
    for (const program::Segment& segment : program_.segments)
      for (const Step& step : segment.steps)
        if (const auto* launch = std::get_if<Launch>(&step.op)) layout(*launch);
    for (const program::Segment& segment : program_.segments) {
      const std::span<const Step> steps(segment.steps);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto* launch = std::get_if<Launch>(&steps[i].op);
        if (launch == nullptr) continue;
        const auto* previous = i > 0 ? std::get_if<Launch>(&steps[i - 1].op) : nullptr;
        if (launch->phase < 0 && !launch->with_previous) merged(steps.subspan(i));
        if (launch->phase >= 0 && (previous == nullptr || previous->phase < 0))
          phases(steps.subspan(i), i > 0 ? &steps[i - 1] : nullptr);
      }
    }
    return std::move(problems_);
  }

 private:
  template <class... Args>
  bool require(bool proven, const Launch& launch, const Args&... sentence) {
    if (!proven) problems_.push_back(str("launch \"", launch.name, "\": ", sentence...));
    return proven;
  }
  bool le(Dim a, Dim b) const { return surely_le(a, b, facts_); }
  const BufferDesc& desc(BufferId id) const {
    return program_.buffers[static_cast<std::size_t>(id)];
  }
  Dim bytes_of_shape(BufferId id) const {
    return product(desc(id).shape) * Dim(static_cast<std::int64_t>(size_of(desc(id).dtype)));
  }
  const backend::ParsedCode& code_of(const Launch& launch) const {
    return codes_.codes[static_cast<std::size_t>(launch.code)];
  }
  const loop::Kernel& kernel(int number) const {
    return codes_.kernels[static_cast<std::size_t>(number)];
  }

  // Values with flags take twice their size, and are read by the elements of their shape.
  void exchanged(BufferId id) {
    const BufferDesc& buffer = desc(id);
    if (!buffer.exchanged) return;
    const Dim end = buffer.alias_offset + max(bytes_of_shape(id) * Dim(2), Dim(kPiece));
    if (buffer.alias_of < 0 || !le(bytes_of_shape(id) * Dim(2), buffer.bytes) ||
        !le(end, desc(program::root_of(program_, id)).bytes))
      problems_.push_back(str("buffer %", id, " \"", buffer.name,
                              "\" may be too small for values with their flags"));
  }

  // The launch has blocks, threads and memory as the backend plans them for its code. All launches
  // of a code run one text, in which sizes that are constants are numbers.
  void layout(const Launch& launch) {
    const backend::ParsedCode& code = code_of(launch);
    const Launch*& first = first_of_code_[static_cast<std::size_t>(launch.code)];
    if (first == nullptr) first = &launch;
    const backend::LaunchPlan plan = code.problem ? plan_of_problem(launch) : plan_of_loop(launch);
    require(code.algorithm == plan.algorithm && equal_constants(*first, launch), launch,
            "its code is not that of its sizes");
    require(launch.block == plan.block, launch, "it has other threads than its kernel expects");
    require(le(plan.scratch_bytes, launch.scratch_bytes), launch,
            "its blocks may have too little shared memory");
    plans_.emplace(&launch, plan);
    if (plan.workspace_bytes == Dim(0)) return;
    require(!launch.buffers.empty() && launch.writes.back() &&
                le(plan.workspace_bytes, desc(launch.buffers.back()).bytes),
            launch, "its workspace may be too small");
  }

  static bool equal_constants(const Launch& a, const Launch& b) {
    return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                      [](Dim x, Dim y) { return x.as_const() == y.as_const(); });
  }

  backend::LaunchPlan plan_of_loop(const Launch& launch) {
    const loop::Kernel& loop = kernel(code_of(launch).kernel);
    backend::LaunchPlan plan = backend_.plan(loop, target_);
    const std::vector<Dim> symbols = loop.symbols();
    if (symbols.size() != launch.dims.size()) return plan;  // unproven_launch reports it
    const auto over_launch = [&](Dim size) {
      return size.substitute([&](Dim symbol) -> std::optional<Dim> {
        const auto at = std::ranges::find(symbols, symbol);
        if (at == symbols.end()) return std::nullopt;
        return launch.dims[static_cast<std::size_t>(at - symbols.begin())];
      });
    };
    for (Dim* size : {&plan.grid, &plan.scratch_bytes, &plan.workspace_bytes})
      *size = over_launch(*size);
    const auto buffers = static_cast<std::size_t>(loop.num_params());
    require(launch.buffers.size() == buffers + (plan.workspace_bytes == Dim(0) ? 0 : 1), launch,
            "it has another number of buffers than its kernel");
    return plan;
  }

  backend::LaunchPlan plan_of_problem(const Launch& launch) {
    const backend::ParsedCode& code = code_of(launch);
    backend::AttachedKernels attached;
    if (code.kernel >= 0) {
      attached.epilogue = &kernel(code.kernel);
      attached.extra_buffers = code.extra_buffers;
      attached.epilogue_dims_begin = problems::dims_count(*code.problem);
    }
    for (const program::Code::Prologue& p : code.prologues)
      attached.prologues.push_back(
          {&kernel(p.kernel), p.operand, p.first_buffer, p.input_buffers, p.dims_begin});
    return backend_.plan(*code.problem, attached, launch.dims, target_);
  }

  // A launch and those that follow it in one kernel, or calls of the library beside each other.
  void merged(std::span<const Step> steps) {
    const auto& first = std::get<Launch>(steps.front().op);
    std::size_t count = 1;
    while (count < steps.size()) {
      const auto* next = std::get_if<Launch>(&steps[count].op);
      if (next == nullptr || !next->with_previous || next->phase >= 0) break;
      ++count;
      const backend::LaunchPlan &a = plans_.at(&first), &b = plans_.at(next);
      require((a.library && b.library) || (a.mergeable && b.mergeable && a.block == b.block), *next,
              "it can't be merged with the launches before it");
    }
    // Parts of one kernel share its blocks: each part is right for any number of them.
    const backend::LaunchPlan& plan = plans_.at(&first);
    require(count > 1 || provably_eq(first.grid, plan.grid), first,
            "it may have other blocks than its kernel expects");
    for (std::size_t k = 0; k < count && count > 1; ++k) {
      const auto& part = std::get<Launch>(steps[k].op);
      require(le(0, part.grid) && plans_.at(&part).workspace_bytes == Dim(0), part,
              "it can't be a part of a kernel");
    }
    require(count <= backend::kMostMergedParts, first, "too many launches are merged with it");
    for (std::size_t k = 0; k < count; ++k) {
      const auto& launch = std::get<Launch>(steps[k].op);
      if (launch.recomputed) result_fits(launch);
    }
  }

  // The result of a repeated launch is in shared memory of the size of its buffer.
  void result_fits(const Launch& launch) {
    for (std::size_t k = 0; k < launch.buffers.size(); ++k)
      if (launch.writes[k])
        require(desc(launch.buffers[k]).bytes.is_const() &&
                    le(desc(launch.buffers[k]).bytes, bytes_of_shape(launch.buffers[k])),
                launch, "its result may not fit into shared memory");
  }

  // The phases of a persistent kernel, after the step that clears its exchanged memory.
  void phases(std::span<const Step> steps, const Step* before) {
    std::int64_t count = 0;
    for (const Step& step : steps) {
      const auto* launch = std::get_if<Launch>(&step.op);
      if (launch == nullptr || launch->phase < 0) break;
      ++count;
    }
    const auto* clear = before == nullptr ? nullptr : std::get_if<program::Fill>(&before->op);
    const auto& first = std::get<Launch>(steps.front().op);
    require(clear != nullptr && clear->pattern == 0 && le(Dim(kCounter * count), clear->bytes),
            first, "no step clears the counters of its phases");
    for (std::int64_t k = 0; k < count; ++k) {
      const auto& launch = std::get<Launch>(steps[static_cast<std::size_t>(k)].op);
      require(launch.phase < count && launch.grid.is_const() && launch.scratch_bytes.is_const() &&
                  le(0, launch.grid) && plans_.at(&launch).workspace_bytes == Dim(0),
              launch, "it can't be a phase of a persistent kernel");
      if (launch.recomputed) result_fits(launch);
    }
  }

  const Program& program_;
  const backend::ParsedCodes& codes_;
  const Target target_;
  const backend::Backend& backend_;
  const Facts facts_;
  std::vector<const Launch*> first_of_code_;
  std::unordered_map<const Launch*, backend::LaunchPlan> plans_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> unproven_layouts(const Program& program,
                                          const backend::ParsedCodes& codes) {
  if (program.target == "cpu") return {};
  return LayoutCheck(program, codes).run();
}

std::vector<std::string> unproven_program(const Program& program) {
  const backend::ParsedCodes codes = backend::parse_codes(program);
  std::vector<std::string> problems = unproven_parts(program, codes);
  // Plans are made of what has been proven to be consistent.
  if (problems.empty()) problems = unproven_layouts(program, codes);
  return problems;
}

}  // namespace gex
