// gex bench: how long a compiled graph takes, call after call.

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "compile/execute.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "plan/report.hpp"
#include "runtime/background/background.hpp"
#include "tensors.hpp"

namespace gex::tool {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void line(const char* what, double value, const char* unit) {
  std::cout << std::left << std::setw(16) << what << std::right << std::setw(12) << value << " "
            << unit << "\n";
}

// The same numbers as gex explain prints for these sizes.
void print_memory(const runtime::Session& session) {
  const program::Program& program = session.program();
  for (const runtime::CaptureInfo& capture : session.captures()) {
    const auto value_of = [&](Dim symbol) -> std::optional<std::int64_t> {
      const auto at = std::ranges::find(program.symbols, symbol) - program.symbols.begin();
      if (at >= std::ssize(capture.key)) return std::nullopt;
      return capture.key[static_cast<std::size_t>(at)];
    };
    const plan::MemoryReport report =
        plan::memory_report(program, value_of, session.reuses_memory());
    line("arena", static_cast<double>(report.total), "bytes");
    line("lower bound", static_cast<double>(report.lower_bound), "bytes");
    line("kernel scratch", static_cast<double>(capture.arena_bytes - report.total),
         "bytes, all workers");
    return;  // all calls had these sizes
  }
}

int run(const Arguments& arguments) {
  for (const char* option : {"--calls", "--seconds"})
    if (const auto number = arguments.integer(option); number && *number < 1)
      fail(ErrorCode::invalid_argument, option, " is at least 1, got ", *number);
  const std::int64_t calls = arguments.integer("--calls").value_or(0);  // 0: as time allows
  const std::int64_t seconds = arguments.integer("--seconds").value_or(1);
  auto graph = read_graph(arguments.file());
  std::vector<HostTensor> inputs = make_inputs(*graph, arguments);

  const auto start = Clock::now();
  const UserOptions options = user_options(arguments);
  const auto device = open_target(options.compile.target);
  const Compiled compiled = compile(std::move(graph), cached(options.compile));
  const double compile_seconds = seconds_since(start);
  runtime::Session session(compiled.executable, options.session, compiled.specialiser);
  const auto first_start = Clock::now();
  execute(session, inputs);
  const double first_call = seconds_since(first_start);

  // Static code comes from a background thread after a few calls: half of the time is for that.
  std::vector<double> times;
  auto began = Clock::now();
  const auto time_is_left = [&](double share) {
    return seconds_since(began) < share * static_cast<double>(seconds);
  };
  while (calls == 0 && time_is_left(0.5)) execute(session, inputs);
  if (calls == 0 && options.compile.autotune) runtime::wait_for_background();
  began = Clock::now();
  while (calls > 0 ? std::ssize(times) < calls : times.empty() || time_is_left(1)) {
    const auto call_start = Clock::now();
    execute(session, inputs);
    times.push_back(seconds_since(call_start));
  }
  std::sort(times.begin(), times.end());
  const runtime::Counters counters = session.counters();

  std::cout << std::fixed << std::setprecision(1);
  line("compile", compile_seconds * 1e3, "ms");
  line("first call", first_call * 1e6, "us");
  line("fastest call", times.front() * 1e6, "us");
  line("median call", times[times.size() / 2] * 1e6, "us");
  std::cout << std::setprecision(0);
  line("calls", static_cast<double>(times.size()), "timed");
  line("launches", static_cast<double>(counters.launches / counters.calls), "a call");
  line("copied", static_cast<double>(counters.bytes_copied / counters.calls), "bytes a call");
  print_memory(session);
  for (const std::string& finding : session.findings()) std::cout << "tuned: " << finding << "\n";
  return 0;
}

}  // namespace

Command bench_command() {
  return {
      "bench",
      "FILE.gex [--input NAME=SOURCE]... [options]",
      "compiles a graph and measures its calls",
      "Runs the graph on inputs made as for gex run and prints what compiling took, the first\n"
      "call, the fastest and the median of the later ones, launches and memory. Times include\n"
      "making the result tensors. GEX_PROFILE=20 in the environment adds times by kernel. With\n"
      "--autotune the warm-up ends when all ways have been measured, and they are listed.",
      with_compile_options(with_input_options(
          {{"--seconds", "N", "how long to measure (1), after half of it as warm-up"},
           {"--calls", "N", "so many calls instead, without warm-up"}})),
      1,
      run};
}

}  // namespace gex::tool
