#include "traced_run.hpp"

#include <chrono>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "compile/execute.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "model_file.hpp"
#include "runtime/background/background.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

constexpr std::int64_t kCalls = 10;

using Clock = std::chrono::steady_clock;

// Collects traces during its lifetime.
class TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<runtime::TraceSink> sink) {
    runtime::set_trace_sink(std::move(sink));
  }
  ~TraceScope() { runtime::set_trace_sink(nullptr); }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
};

// Adds the seconds since the last phase under a name.
class Phases {
 public:
  explicit Phases(TracedRun& run) : run_(run) {}
  void end(std::string name) {
    const auto now = Clock::now();
    run_.first_call.push_back(
        {std::move(name), std::chrono::duration<double>(now - last_).count()});
    last_ = now;
  }
  void skip() { last_ = Clock::now(); }

 private:
  TracedRun& run_;
  Clock::time_point last_ = Clock::now();
};

// Compiles the graph or imported ONNX model; returns inputs for it.
std::vector<HostTensor> compile_graph(const Arguments& arguments, TracedRun& run, Phases& phases) {
  auto graph = read_graph(arguments.file());
  phases.end("read");
  run.name = graph->name();
  std::vector<HostTensor> inputs = make_inputs(*graph, arguments);
  run.compiled = compile(std::move(graph), compile_options(arguments));
  for (const auto& stage : run.compiled.report.seconds) run.first_call.push_back(stage);
  runtime::SessionOptions options = session_options(arguments);
  run.reuse_memory = options.reuse_memory;
  options.frozen = run.compiled.frozen;
  phases.skip();
  run.session = std::make_unique<runtime::Session>(run.compiled.executable, options,
                                                   run.compiled.specialiser);
  phases.end("session");
  return inputs;
}

// A model file has no graph: each launch counts as a unit without nodes.
void write_units(const program::Program& program, Origins& origins) {
  for (const program::Segment& segment : program.segments) {
    std::vector<int>& units = origins.unit_of_step.emplace_back();
    for (const program::Step& step : segment.steps) {
      units.push_back(-1);
      const auto* launch = std::get_if<program::Launch>(&step.op);
      if (launch == nullptr || launch->code < 0) continue;
      units.back() = static_cast<int>(origins.units.size());
      const program::Code& code = program.codes[static_cast<std::size_t>(launch->code)];
      origins.units.push_back({code.problem.empty() ? "loop" : "contraction", launch->name, {}});
    }
  }
}

std::vector<HostTensor> load_model(const Arguments& arguments, TracedRun& run, Phases& phases) {
  const auto model = deploy::load_model(arguments.file(), load_options(arguments));
  phases.end("model");
  run.name = model->metadata.name;
  run.compiled.executable = model->executable;
  run.compiled.program = model->executable->program;
  run.compiled.specialiser = model->specialiser;
  run.compiled.fast_math = model->metadata.fast_math;
  run.compiled.report.generator = model->code;
  write_units(model->program(), run.compiled.report.origins);
  std::vector<HostTensor> inputs = make_inputs(*signature_graph(*model), arguments);
  const runtime::SessionOptions options = session_options(arguments);
  run.reuse_memory = options.reuse_memory;
  phases.skip();
  run.session = session_of(*model, options);
  phases.end("session");
  return inputs;
}

}  // namespace

TracedRun traced_run(const Arguments& arguments) {
  const std::int64_t calls = arguments.integer("--calls").value_or(kCalls);
  if (calls < 1) fail(ErrorCode::invalid_argument, "--calls is at least 1, got ", calls);
  TracedRun run;
  Phases phases(run);
  const bool is_model = deploy::is_model_file(arguments.file());
  const Activity activity(str(is_model ? "running " : "compiling and running ", arguments.file()));
  std::vector<HostTensor> inputs =
      is_model ? load_model(arguments, run, phases) : compile_graph(arguments, run, phases);
  execute(*run.session, inputs);
  phases.end("run");
  Activity::note("code for these sizes");
  // Static code for these sizes is compiled in the background after a few calls.
  for (std::int64_t k = 0; k < std::max<std::int64_t>(calls, 4); ++k) execute(*run.session, inputs);
  runtime::wait_for_background();
  const auto keeper = std::make_shared<report::TraceKeeper>();
  Activity::note(str(calls, " traced calls"));
  {
    const TraceScope scope(keeper);
    for (std::int64_t k = 0; k < calls; ++k) execute(*run.session, inputs);
  }
  run.kept = keeper->of(run.compiled.program.get());
  GEX_CHECK(run.kept.has_value(), "a run was not traced");
  return run;
}

std::vector<Option> with_traced_run_options(std::vector<Option> own) {
  own.push_back({"--calls", "N", "calls that are traced (10); the fastest is shown"});
  return with_compile_options(with_input_options(with_load_options(std::move(own))));
}

}  // namespace gex::tool
