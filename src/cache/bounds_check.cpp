#include "cache/bounds_check.hpp"

#include <optional>

#include "base/error.hpp"
#include "cache/access_bounds.hpp"
#include "cache/problem_bounds.hpp"

namespace gex {

Facts facts_of(const program::Program& program) {
  using Relation = program::Guard::Relation;
  Facts facts;
  for (const program::Guard& guard : program.guards) {
    const Dim difference = guard.rhs - guard.lhs;
    if (guard.relation == Relation::le || guard.relation == Relation::eq)
      facts.push_back(difference);
    if (guard.relation == Relation::eq) facts.push_back(guard.lhs - guard.rhs);
    if (guard.relation == Relation::lt) facts.push_back(difference - 1);
  }
  return facts;
}

namespace {

using program::BufferDesc;
using program::BufferId;
using program::Program;

// Elements from the first to one past the last. Without strides they are dense.
Dim extent(const std::vector<Dim>& shape, const std::vector<Dim>& strides) {
  if (strides.empty()) return product(shape);
  Dim last;
  for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
  return last + 1;
}

Dim bytes_each(DType dtype) { return Dim(static_cast<std::int64_t>(size_of(dtype))); }

class SizeCheck {
 public:
  explicit SizeCheck(const Program& program) : program_(program), facts_(facts_of(program)) {}

  std::vector<std::string> run() {
    for (std::size_t id = 0; id < program_.buffers.size(); ++id) buffer(static_cast<int>(id));
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) output(k);
    for (const program::Segment& segment : program_.segments)
      for (const program::Step& step : segment.steps) {
        where_ = str("a step of segment \"", segment.name, "\"");
        std::visit([&](const auto& op) { check(op); }, step.op);
      }
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void require(bool proven, const Args&... sentence) {
    if (!proven) problems_.push_back(str(sentence...));
  }
  bool le(Dim a, Dim b) const { return surely_le(a, b, facts_); }
  const BufferDesc& desc(BufferId id) const {
    return program_.buffers[static_cast<std::size_t>(id)];
  }

  void buffer(BufferId id) {
    const BufferDesc& b = desc(id);
    const std::string name = str("buffer %", id, " \"", b.name, "\"");
    require(le(0, b.bytes), name, " may have fewer than 0 bytes: ", b.bytes);
    if (b.alias_of >= 0) {
      const BufferDesc& base = desc(b.alias_of);
      require(le(0, b.alias_offset) && le(b.alias_offset + b.bytes, base.bytes), name,
              " may reach outside %", b.alias_of, ", whose memory it shares");
      return;
    }
    switch (b.kind) {
      case BufferDesc::Kind::input: {
        const auto& input = program_.inputs[static_cast<std::size_t>(b.slot)];
        memory_of_tensor(name, b.bytes, input.dtype, input.shape, input.strides);
        break;
      }
      case BufferDesc::Kind::output: {
        const auto& output = program_.outputs[static_cast<std::size_t>(b.slot)];
        memory_of_tensor(name, b.bytes, output.dtype, output.shape, output.strides);
        break;
      }
      case BufferDesc::Kind::external:
        memory_of_tensor(name, b.bytes, b.dtype, b.shape, b.strides);
        break;
      case BufferDesc::Kind::constant:
        if (b.data != nullptr)
          require(le(b.bytes, Dim(static_cast<std::int64_t>(b.data->bytes()))), name,
                  " has fewer bytes of data than its buffer");
        break;
      case BufferDesc::Kind::temp:
        break;
    }
  }

  // Memory that the caller allocates for a tensor of this shape.
  void memory_of_tensor(const std::string& name, Dim bytes, DType dtype,
                        const std::vector<Dim>& shape, const std::vector<Dim>& strides) {
    require(le(bytes, extent(shape, strides) * bytes_each(dtype)), name, " of ", bytes,
            " bytes may be larger than its tensor");
  }

  void output(std::size_t k) {
    using Kind = program::OutputDesc::Kind;
    const program::OutputDesc& o = program_.outputs[k];
    if (o.kind != Kind::input_view && o.kind != Kind::output_view) return;
    const auto at = static_cast<std::size_t>(o.input);
    Dim room;
    if (o.kind == Kind::input_view) {
      const program::InputDesc& input = program_.inputs[at];
      room = extent(input.shape, input.strides) * bytes_each(input.dtype);
    } else {
      const program::OutputDesc& base = program_.outputs[at];
      room = extent(base.shape, base.strides) * bytes_each(base.dtype);
    }
    require(
        le(0, o.offset) && le((o.offset + extent(o.shape, o.strides)) * bytes_each(o.dtype), room),
        "output ", k, " \"", o.name, "\" may be outside the memory that it is a view of");
  }

  void check(const program::Launch& launch) {
    require(le(0, launch.grid) && le(0, launch.scratch_bytes), where_, ": launch \"", launch.name,
            "\" may have fewer than 0 grid points or bytes of scratch");
  }
  void check(const program::Copy& copy) {
    require(le(0, copy.bytes) && le(0, copy.dst_offset) && le(0, copy.src_offset) &&
                le(copy.dst_offset + copy.bytes, desc(copy.dst).bytes) &&
                le(copy.src_offset + copy.bytes, desc(copy.src).bytes),
            where_, ": the copy from %", copy.src, " to %", copy.dst, " may be out of bounds");
  }
  void check(const program::Fill& fill) {
    require(le(0, fill.bytes) && le(fill.bytes, desc(fill.dst).bytes), where_, ": the fill of %",
            fill.dst, " may be out of bounds");
  }
  void check(const program::Call& call) {
    for (const program::TensorView& view : call.inputs)
      require(le(0, view.offset) &&
                  le((view.offset + extent(view.shape, view.strides)) * bytes_each(view.dtype),
                     desc(view.buffer).bytes),
              where_, ": the call \"", call.name, "\" may access memory outside %", view.buffer);
  }
  void check(const program::Bind& bind) {
    require(le(bytes_each(desc(bind.buffer).dtype), desc(bind.buffer).bytes), where_, ": %",
            bind.buffer, " may be too small for a number");
  }
  void condition(BufferId id) {
    require(le(1, desc(id).bytes), where_, ": the condition %", id, " may be empty");
  }
  void check(const program::If& branch) { condition(branch.condition); }
  void check(const program::While& loop) { condition(loop.condition); }
  void check(const program::Record&) {}
  void check(const program::Wait&) {}

  const Program& program_;
  const Facts facts_;
  std::string where_;
  std::vector<std::string> problems_;
};

bool runs_on_cpu(const Program& program) { return program.target == "cpu"; }

Dim over(Dim size, const std::vector<Dim>& symbols, const std::vector<Dim>& dims) {
  return size.substitute([&](Dim symbol) -> std::optional<Dim> {
    for (std::size_t k = 0; k < symbols.size(); ++k)
      if (symbols[k] == symbol) return dims[k];
    return std::nullopt;
  });
}

}  // namespace

std::vector<std::string> unproven_sizes(const Program& program) { return SizeCheck(program).run(); }

Dim bytes_of_values(const Program& program, BufferId id) {
  const BufferDesc& buffer = program.buffers[static_cast<std::size_t>(id)];
  return buffer.exchanged ? floordiv(buffer.bytes, 2) : buffer.bytes;
}

namespace {

std::vector<std::string> unproven_launch(const Program& program, const program::Launch& launch,
                                         const backend::ParsedCodes& codes) {
  const auto kernel = [&](int k) { return &codes.kernels[static_cast<std::size_t>(k)]; };
  const backend::ParsedCode& spec = codes.codes[static_cast<std::size_t>(launch.code)];
  if (!spec.problem) return unproven_launch(program, KernelLaunch{&launch, kernel(spec.kernel)});
  ProblemLaunch at{&launch,
                   &*spec.problem,
                   spec.kernel < 0 ? nullptr : kernel(spec.kernel),
                   spec.extra_buffers,
                   {}};
  for (const auto& p : spec.prologues)
    at.prologues.push_back(
        {kernel(p.kernel), p.operand, p.first_buffer, p.input_buffers, p.dims_begin});
  return unproven_problem(program, at);
}

}  // namespace

std::vector<std::string> unproven_parts(const Program& program, const backend::ParsedCodes& codes) {
  std::vector<std::string> problems = unproven_sizes(program);
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      if (const auto* launch = std::get_if<program::Launch>(&step.op))
        for (std::string& problem : unproven_launch(program, *launch, codes))
          problems.push_back(std::move(problem));
  return problems;
}

std::vector<std::string> unproven_launch(const Program& program, const KernelLaunch& at) {
  const program::Launch& launch = *at.launch;
  const loop::Kernel& kernel = *at.kernel;
  const std::string name = str("launch \"", launch.name, "\"");
  const std::vector<Dim> symbols = kernel.symbols();
  const auto params = static_cast<std::size_t>(kernel.num_params());
  // On a GPU the workspace may follow (unproven_layouts).
  const bool fits =
      runs_on_cpu(program) ? launch.buffers.size() == params : launch.buffers.size() - params <= 1;
  if (!fits || launch.dims.size() != symbols.size())
    return {str(name, " has ", launch.buffers.size(), " buffers and ", launch.dims.size(),
                " sizes, its kernel ", params, " and ", symbols.size())};
  std::vector<std::string> problems;
  const Facts facts = facts_of(program);
  if (runs_on_cpu(program)) {
    if (!surely_le(launch.grid, over(kernel.grid_size(), symbols, launch.dims), facts))
      problems.push_back(str(name, " may have more grid points than its kernel"));
    if (!surely_le(over(kernel.scratch_bytes(), symbols, launch.dims), launch.scratch_bytes, facts))
      problems.push_back(str(name, " may have too little scratch"));
  }
  std::vector<Dim> bytes;
  for (std::size_t k = 0; k < params; ++k) {
    bytes.push_back(bytes_of_values(program, launch.buffers[k]));
    if (kernel.buffers[k].role != loop::Buffer::Role::in && !launch.writes[k])
      problems.push_back(str(name, " writes %", launch.buffers[k], " without declaring it"));
  }
  for (std::string& problem : unproven_accesses(kernel, launch.dims, bytes, facts))
    problems.push_back(str(name, ": ", problem));
  return problems;
}

}  // namespace gex
