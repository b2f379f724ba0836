#include "traced_run.hpp"

#include <chrono>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "compile/execute.hpp"
#include "compiling.hpp"
#include "files.hpp"
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

}  // namespace

TracedRun traced_run(const Arguments& arguments) {
  const std::int64_t calls = arguments.integer("--calls").value_or(kCalls);
  if (calls < 1) fail(ErrorCode::invalid_argument, "--calls is at least 1, got ", calls);
  TracedRun run;
  auto last = Clock::now();
  const auto phase = [&](std::string name) {
    const auto now = Clock::now();
    run.first_call.push_back({std::move(name), std::chrono::duration<double>(now - last).count()});
    last = now;
  };
  const Activity activity(str("compiling and running ", arguments.file()));
  auto graph = read_graph(arguments.file());
  phase("read");
  run.name = graph->name();
  std::vector<HostTensor> inputs = make_inputs(*graph, arguments);
  last = Clock::now();
  run.compiled = compile(std::move(graph), compile_options(arguments));
  for (const auto& stage : run.compiled.report.seconds) run.first_call.push_back(stage);
  runtime::SessionOptions options = session_options(arguments);
  run.reuse_memory = options.reuse_memory;
  options.frozen = run.compiled.frozen;
  last = Clock::now();
  run.session = std::make_unique<runtime::Session>(run.compiled.executable, options,
                                                   run.compiled.specialiser);
  phase("session");
  execute(*run.session, inputs);
  phase("run");
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
  return with_compile_options(with_input_options(std::move(own)));
}

}  // namespace gex::tool
