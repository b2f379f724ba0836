#include "backend/cuda/program_texts.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

// All launches of a code have the same text, so the dims can be taken from any of them.
const program::Launch& launch_of(const program::Program& program, int code) {
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      if (const auto* launch = std::get_if<program::Launch>(&step.op); launch != nullptr)
        if (launch->code == code) return *launch;
  GEX_CHECK(false, "code ", code, " is not launched");
}

// Whether no step writes the memory that the launches of a matmul read as their right operand.
bool reads_constant_right(const program::Program& program, int code) {
  std::unordered_set<program::BufferId> right, written;
  for (const program::Segment& segment : program.segments) {
    for (const program::Step& step : segment.steps) {
      const auto* launch = std::get_if<program::Launch>(&step.op);
      if (launch != nullptr && launch->code == code && launch->buffers.size() > 1)
        right.insert(program::root_of(program, launch->buffers[1]));
      for (program::BufferId id : program::writes_of(step))
        written.insert(program::root_of(program, id));
    }
  }
  return std::none_of(right.begin(), right.end(), [&](program::BufferId root) {
    using Kind = program::BufferDesc::Kind;
    const Kind kind = program.buffers[static_cast<std::size_t>(root)].kind;
    return written.contains(root) || (kind != Kind::input && kind != Kind::constant);
  });
}

}  // namespace

KernelText text_of_code(const program::Program& program, const ParsedCodes& parsed, int number,
                        const DeviceLimits& limits, const std::vector<bool>& exchanged) {
  const ParsedCode& code = parsed.codes[static_cast<std::size_t>(number)];
  if (code.algorithm == kLibrary && !limits.form) return {};
  const auto kernel = [&](int k) { return &parsed.kernels[static_cast<std::size_t>(k)]; };
  if (!code.problem) return emit(*kernel(code.kernel), limits, exchanged);
  AttachedKernels attached;
  attached.exchanged = exchanged;
  if (code.kernel >= 0) {
    attached.epilogue = kernel(code.kernel);
    attached.extra_buffers = code.extra_buffers;
    attached.epilogue_dims_begin = problems::dims_count(*code.problem);
  }
  for (const program::Code::Prologue& prologue : code.prologues)
    attached.prologues.push_back({kernel(prologue.kernel), prologue.operand, prologue.first_buffer,
                                  prologue.input_buffers, prologue.dims_begin});
  attached.constant_right = reads_constant_right(program, number);
  if (!limits.form) return emit(*code.problem, attached, launch_of(program, number).dims, limits);
  const std::vector<Dim> constants(limits.values.begin(), limits.values.end());
  return emit(*code.problem, attached, constants, limits);
}

program::StaticLaunch static_launch(const KernelText& text,
                                    std::shared_ptr<const std::string> image) {
  program::StaticLaunch launch;
  launch.image = std::move(image);
  launch.entry = text.name;
  launch.waits = text.waits;
  launch.grid = text.grid.constant();
  launch.threads = text.block;
  launch.shared_bytes = text.shared_bytes.constant();
  return launch;
}

std::vector<const program::Launch*> separate_launches(const program::Program& program) {
  std::vector<const program::Launch*> separate;
  for (const program::Segment& segment : program.segments) {
    for (std::size_t i = 0; i < segment.steps.size(); ++i) {
      const auto* launch = std::get_if<program::Launch>(&segment.steps[i].op);
      if (launch == nullptr || launch->with_previous || launch->phase >= 0) continue;
      const auto* next = i + 1 < segment.steps.size()
                             ? std::get_if<program::Launch>(&segment.steps[i + 1].op)
                             : nullptr;
      if (next == nullptr || !next->with_previous) separate.push_back(launch);
    }
  }
  return separate;
}

}  // namespace gex::backend::cuda
