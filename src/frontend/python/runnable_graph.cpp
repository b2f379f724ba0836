#include "frontend/python/runnable_graph.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "compile/program_text.hpp"
#include "target/target.hpp"

namespace gex::python {

std::unique_ptr<RunnableGraph> compiled_graph(std::unique_ptr<Graph> graph,
                                              std::span<const Dim> integers,
                                              std::span<const int> released,
                                              const CompileOptions& options,
                                              runtime::SessionOptions session_options) {
  gex::Signature signature = gex::Signature::of(*graph);
  for (int input : released) signature.inputs[static_cast<std::size_t>(input)].released = true;
  // A size that nothing uses would only cause more captures.
  const std::vector<Dim> told_by_tensors = symbols_told_by_inputs(*graph);
  const std::vector<Dim> used = all_symbols_of(*graph);
  for (Dim value : integers) {
    if (std::ranges::find(used, value) == used.end()) continue;
    if (std::ranges::find(told_by_tensors, value) != told_by_tensors.end()) continue;
    signature.inputs.push_back({-1, value, value.text()});
  }
  // The Runner makes views of inputs and outputs: the graph always returns new memory.
  for (gex::Signature::Output& output : signature.outputs) output.own_memory = true;
  Compiled compiled = compile(std::move(graph), signature, options);
  const auto start = std::chrono::steady_clock::now();
  auto runnable = std::make_unique<RunnableGraph>();
  for (const program::InputDesc& input : compiled.program->inputs)
    runnable->inputs.push_back({input.kind == program::InputDesc::Kind::integer, input.value});
  runnable->num_outputs = compiled.program->outputs.size();
  const Target target = parse_target(compiled.program->target);
  if (!target.is_cpu()) runnable->device.index = target.device;
  runnable->report = std::move(compiled.report);
  session_options.frozen = std::move(compiled.frozen);
  session_options.frozen_on_device = options.frozen_on_device;
  runnable->session_options = std::move(session_options);
  runnable->executable = compiled.executable;
  runnable->session = std::make_unique<runtime::Session>(
      std::move(compiled.executable), runnable->session_options, std::move(compiled.specialiser));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  runnable->report.seconds.push_back({"session", took.count()});
  return runnable;
}

void RunnableGraph::reload_from_text() {
  const std::string text = program::print(session->program());
  executable = compile_program_text(text);
  GEX_CHECK(program::print(*executable->program) == text, "the text of program ",
            executable->program->name, " changes when it is parsed");
  session = std::make_unique<runtime::Session>(executable, session_options);
}

std::unique_ptr<RunnableGraph> interpreted_graph(std::unique_ptr<Graph> graph,
                                                 std::span<const Dim> integers) {
  auto runnable = std::make_unique<RunnableGraph>();
  runnable->inputs.resize(graph->inputs().size());
  runnable->num_outputs = graph->outputs().size();
  runnable->interpreted = std::make_unique<InterpretedGraph>(std::move(graph), integers);
  for (Dim symbol : runnable->interpreted->integers()) runnable->inputs.push_back({true, symbol});
  return runnable;
}

}  // namespace gex::python
