#include "frontend/python/session_engine.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "compile/program_text.hpp"
#include "target/target.hpp"

namespace gex::python {

SessionEngine::SessionEngine(std::unique_ptr<Graph> graph, std::span<const Dim> integers,
                             std::span<const int> released, const CompileOptions& options,
                             const runtime::SessionOptions& session_options) {
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
  report_ = std::move(compiled.report);
  const Target target = parse_target(compiled.program->target);
  if (!target.is_cpu()) device_.index = target.device;
  const auto start = std::chrono::steady_clock::now();
  session_options_ = session_options;
  session_options_.frozen = std::move(compiled.frozen);
  session_ = std::make_unique<runtime::Session>(std::move(compiled.executable), session_options_,
                                                std::move(compiled.specialiser));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report_.seconds.push_back({"session", took.count()});
}

void SessionEngine::reload_from_text() {
  const std::string text = program::print(session_->program());
  auto executable = compile_program_text(text);
  GEX_CHECK(program::print(*executable->program) == text, "the text of program ",
            executable->program->name, " changes when it is parsed");
  session_ = std::make_unique<runtime::Session>(std::move(executable), session_options_);
}

std::vector<Engine::Input> SessionEngine::inputs() const {
  std::vector<Input> inputs;
  for (const program::InputDesc& input : session_->program().inputs)
    inputs.push_back({input.kind == program::InputDesc::Kind::integer, input.value});
  return inputs;
}

}  // namespace gex::python
