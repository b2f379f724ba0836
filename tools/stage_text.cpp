#include "stage_text.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "cache/device_bounds.hpp"
#include "cache/store.hpp"
#include "compile/execute.hpp"
#include "compile/program_text.hpp"
#include "compiling.hpp"
#include "emit/kernel_program.hpp"
#include "runtime/session/run_control.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

using program::Program;

bool is_comment(std::string_view line) { return line.starts_with("//") || line.starts_with("#"); }

struct Line {
  std::string_view text;
  std::size_t end = 0;  // where the next one begins
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back({text.substr(at, end - at), std::min(end + 1, text.size())});
    at = lines.back().end;
  }
  return lines;
}

// The kernels of a text: each from its symbols, or its first line, to a brace at the beginning of a
// line. The text before it is replaced by empty lines, so that errors have the right line number.
std::vector<loop::Kernel> kernels_in(std::string_view text) {
  std::vector<loop::Kernel> kernels;
  std::string block;
  for (const Line& line : lines_of(text)) {
    if (!is_comment(line.text)) block += line.text;
    block += '\n';
    if (!line.text.starts_with("}")) continue;
    kernels.push_back(loop::parse_kernel(block));
    block.assign(static_cast<std::size_t>(std::ranges::count(block, '\n')), '\n');
  }
  if (block.find_first_not_of(" \n\t\r") != std::string::npos)
    kernels.push_back(loop::parse_kernel(block));
  return kernels;
}

const loop::Kernel& chosen(const std::vector<loop::Kernel>& kernels, const Arguments& arguments) {
  std::vector<std::string_view> names;
  std::string listed;
  for (const loop::Kernel& kernel : kernels) {
    names.push_back(kernel.name);
    listed += (listed.empty() ? "" : ", ") + kernel.name;
  }
  const auto wanted = arguments.value("--kernel");
  if (!wanted && kernels.size() == 1) return kernels.front();
  if (!wanted)
    fail(ErrorCode::invalid_argument, "the text has ", kernels.size(),
         " kernels, choose one with --kernel: ", listed);
  const auto found = std::ranges::find(names, *wanted);
  if (found == names.end())
    fail(ErrorCode::not_found, "the text has no kernel '", *wanted, "'", suggestion(*wanted, names),
         " (it has: ", listed, ")");
  return kernels[static_cast<std::size_t>(found - names.begin())];
}

void refuse_unproven(const Program& program) {
  const std::vector<std::string> problems = unproven_program(program);
  if (problems.empty()) return;
  fail(ErrorCode::unsupported,
       "it can't be proven that the text stays inside its memory: ", problems.front(),
       problems.size() > 1 ? str(" (and ", problems.size() - 1, " more)") : "",
       "; run it with --trust if you know where it comes from");
}

void refuse_missing_memory(const Program& program) {
  for (const program::BufferDesc& buffer : program.buffers)
    if (buffer.kind == program::BufferDesc::Kind::constant && buffer.slot >= 0)
      fail(ErrorCode::unsupported, "constant \"", buffer.name,
           "\" is a frozen weight, which the text does not contain; compile without frozen inputs");
}

// A graph with the inputs, for make_inputs(). An integer is a tensor of that many elements there.
std::unique_ptr<Graph> signature_graph(const Program& program) {
  auto graph = std::make_unique<Graph>(program.name);
  for (const program::InputDesc& input : program.inputs) {
    const bool is_integer = input.kind == program::InputDesc::Kind::integer;
    graph->add_input(is_integer ? Type::tensor(DType::boolean, {input.value})
                                : Type::tensor(input.dtype, input.shape),
                     input.name);
  }
  return graph;
}

std::vector<HostTensor> inputs_of(const Program& program, const Arguments& arguments) {
  std::vector<HostTensor> inputs = make_inputs(*signature_graph(program), arguments);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (program.inputs[k].kind != program::InputDesc::Kind::integer) continue;
    HostTensor number(DType::i64, {});
    number.set_int(0, inputs[k].numel());
    inputs[k] = std::move(number);
  }
  return inputs;
}

bool is_written(const Program& program, program::BufferId input) {
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      for (program::BufferId written : program::writes_of(step))
        if (program::root_of(program, written) == input) return true;
  return false;
}

struct Ran {
  std::vector<HostTensor> outputs;
  std::vector<NamedTensor> written;  // inputs that the program writes into
};

Ran run_once(Program program, const Arguments& arguments) {
  const UserOptions options = user_options(arguments);
  const auto device = open_target(program.target);
  refuse_missing_memory(program);
  if (!arguments.has("--trust")) refuse_unproven(program);
  std::vector<HostTensor> inputs = inputs_of(program, arguments);
  backend::CodeOptions code_options;
  code_options.fast_math = options.compile.fast_math;
  code_options.generate_code = !arguments.has("--interpret");
  if (options.api.cache) code_options.cache = Store::from_environment();
  backend::CompiledCode code = compile_program(std::move(program), code_options);
  const auto executable = std::make_shared<const program::Executable>(std::move(code.executable));
  runtime::Session session(executable, options.session, code.specialiser);
  runtime::RunControl control;
  if (const auto seconds = arguments.integer("--timeout"))
    control.deadline = runtime::RunControl::Clock::now() + std::chrono::seconds(*seconds);
  const runtime::ControlScope scope(&control);
  Ran ran;
  ran.outputs = execute(session, inputs);
  const Program& done = session.program();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const program::InputDesc& input = done.inputs[k];
    if (input.buffer >= 0 && is_written(done, input.buffer))
      ran.written.push_back(
          {input.name.empty() ? str("input_", k) : input.name, std::move(inputs[k])});
  }
  return ran;
}

std::vector<NamedTensor> named(Ran ran, const std::vector<std::string>& names) {
  std::vector<NamedTensor> results;
  for (std::size_t k = 0; k < ran.outputs.size(); ++k)
    results.push_back({names[k], std::move(ran.outputs[k])});
  for (NamedTensor& written : ran.written) results.push_back(std::move(written));
  return results;
}

}  // namespace

TextStage stage_of(std::string_view text) {
  for (const Line& line : lines_of(text)) {
    if (is_comment(line.text)) continue;
    if (line.text.starts_with("program ")) return TextStage::program;
    if (line.text.starts_with("kernel ")) return TextStage::kernels;
    if (line.text.starts_with("graph ")) return TextStage::graph;
  }
  return TextStage::graph;
}

std::vector<NamedTensor> run_program_text(std::string_view text, const Arguments& arguments) {
  Program program = program::parse_program(text);
  program::verify(program);
  std::vector<std::string> names;  // as gex run calls the outputs of the graph
  for (std::size_t k = 0; k < program.outputs.size(); ++k) names.push_back(str("output_", k));
  return named(run_once(std::move(program), arguments), names);
}

std::vector<NamedTensor> run_kernel_text(std::string_view text, const Arguments& arguments) {
  const std::vector<loop::Kernel> kernels = kernels_in(text);
  const Target target = backend::find_target(compile_options(arguments).target);
  Program program = emit::program_of_kernel(chosen(kernels, arguments), target);
  std::vector<std::string> names;
  for (const program::OutputDesc& output : program.outputs) names.push_back(output.name);
  return named(run_once(std::move(program), arguments), names);
}

}  // namespace gex::tool
