#include "emit/kernel_program.hpp"

#include <algorithm>

#include "backend/backend.hpp"
#include "emit/code_table.hpp"
#include "emit/launches.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;
using program::Program;
using Role = loop::Buffer::Role;

namespace {

// The memory of a parameter, as an input or output of the Program.
BufferId add_parameter(const loop::Buffer& parameter, Program& program) {
  Type type = Type::tensor(parameter.dtype, parameter.shape);
  if (!parameter.strides.empty()) type.strides = parameter.strides;
  const bool is_output = parameter.role == Role::out;
  BufferDesc desc = describe(type, is_output ? BufferDesc::Kind::output : BufferDesc::Kind::input,
                             parameter.name);
  const auto id = static_cast<BufferId>(program.buffers.size());
  if (is_output) {
    desc.slot = static_cast<int>(program.outputs.size());
    program::OutputDesc output;
    output.name = parameter.name;
    output.dtype = parameter.dtype;
    output.shape = parameter.shape;
    output.strides = parameter.strides;
    output.buffer = id;
    program.outputs.push_back(std::move(output));
  } else {
    desc.slot = static_cast<int>(program.inputs.size());
    program::InputDesc input;
    input.name = parameter.name;
    input.dtype = parameter.dtype;
    input.shape = parameter.shape;
    input.strides = parameter.strides;
    input.buffer = id;
    program.inputs.push_back(std::move(input));
  }
  program.buffers.push_back(std::move(desc));
  return id;
}

void add_sizes(const loop::Kernel& kernel, Program& program) {
  std::vector<Dim> of_inputs;
  for (const program::InputDesc& input : program.inputs)
    for (Dim size : input.shape)
      if (size.is_symbol()) of_inputs.push_back(size);
  program.symbols = kernel.symbols();
  for (Dim symbol : program.symbols) {
    if (std::ranges::find(of_inputs, symbol) != of_inputs.end()) continue;
    program::InputDesc input;
    input.kind = program::InputDesc::Kind::integer;
    input.name = symbol.name();
    input.value = symbol;
    program.inputs.push_back(std::move(input));
  }
}

}  // namespace

Program program_of_kernel(const loop::Kernel& kernel, const Target& target) {
  loop::verify(kernel);
  Program program;
  program.name = kernel.name;
  program.target = target.text();
  program::Launch launch;
  launch.name = kernel.name;
  for (int k = 0; k < kernel.num_params(); ++k) {
    const loop::Buffer& parameter = kernel.buffers[static_cast<std::size_t>(k)];
    launch.buffers.push_back(add_parameter(parameter, program));
    launch.writes.push_back(parameter.role != Role::in);
  }
  add_sizes(kernel, program);
  CodeTable codes(program);
  program::Code code;
  code.name = kernel.name;
  code.kernel = codes.add_kernel(kernel, launch.dims);
  launch.code = codes.add_code(std::move(code));
  const backend::LaunchPlan plan = backend::backend_for(target.kind).plan(kernel, target);
  launch.grid = plan.grid;
  launch.scratch_bytes = plan.scratch_bytes;
  launch.block = plan.block;
  if (plan.workspace_bytes != Dim(0)) {
    launch.buffers.push_back(static_cast<BufferId>(program.buffers.size()));
    launch.writes.push_back(true);
    program.buffers.push_back(describe(Type::tensor(DType::u8, {plan.workspace_bytes}),
                                       BufferDesc::Kind::temp, "workspace"));
  }
  launch.ordered = kernel.ordered();
  launch.work = work_of(kernel);
  program.segments.push_back({"main", {{std::move(launch), 0, {}}}});
  program.main = {0};
  program::verify(program);
  return program;
}

}  // namespace gex::emit
