#include "frontend/python/session_engine.hpp"

#include <algorithm>
#include <chrono>

#include "target/target.hpp"

namespace gex::python {

SessionEngine::SessionEngine(std::unique_ptr<Graph> graph, std::span<const Dim> integers,
                             std::span<const int> released, const CompileOptions& options,
                             const runtime::SessionOptions& session_options, bool tensors_on_host) {
  gex::Signature signature = gex::Signature::of(*graph);
  for (int input : released) signature.inputs[static_cast<std::size_t>(input)].released = true;
  // A size that nothing uses would only make captures more than they need to be.
  const std::vector<Dim> told_by_tensors = symbols_told_by_inputs(*graph);
  const std::vector<Dim> used = all_symbols_of(*graph);
  for (Dim value : integers) {
    if (std::ranges::find(used, value) == used.end()) continue;
    if (std::ranges::find(told_by_tensors, value) != told_by_tensors.end()) continue;
    signature.inputs.push_back({-1, value, value.text()});
  }
  // Views of inputs and outputs are made by the Runner: what the graph gives is always new memory.
  for (gex::Signature::Output& output : signature.outputs) output.own_memory = true;
  Compiled compiled = compile(std::move(graph), signature, options);
  report_ = std::move(compiled.report);
  const Target target = parse_target(compiled.program->target);
  if (!target.is_cpu() && !tensors_on_host) device_.index = target.device;
  const auto start = std::chrono::steady_clock::now();
  runtime::SessionOptions with_frozen = session_options;
  with_frozen.frozen = std::move(compiled.frozen);
  session_ = std::make_unique<runtime::Session>(std::move(compiled.executable), with_frozen,
                                                std::move(compiled.specialiser));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report_.seconds.push_back({"session", took.count()});
}

std::vector<Engine::Input> SessionEngine::inputs() const {
  std::vector<Input> inputs;
  for (const program::InputDesc& input : session_->program().inputs)
    inputs.push_back({input.kind == program::InputDesc::Kind::integer, input.value});
  return inputs;
}

}  // namespace gex::python
