// gex bench: measures the calls of a compiled graph.

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <optional>
#include <thread>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "commands.hpp"
#include "compile/execute.hpp"
#include "compiling.hpp"
#include "files.hpp"
#include "json.hpp"
#include "model_file.hpp"
#include "plan/report.hpp"
#include "runtime/background/background.hpp"
#include "runtime/session/core_limit.hpp"
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

struct Memory {
  std::int64_t arena = 0, lower_bound = 0, scratch = 0;  // bytes; scratch of all workers
};

// The same numbers as gex explain prints for these sizes; none if nothing was captured.
std::optional<Memory> memory_of(const runtime::Session& session) {
  const program::Program& program = session.program();
  for (const runtime::CaptureInfo& capture : session.captures()) {
    const auto value_of = [&](Dim symbol) -> std::optional<std::int64_t> {
      const auto at = std::ranges::find(program.symbols, symbol) - program.symbols.begin();
      if (at >= std::ssize(capture.key)) return std::nullopt;
      return capture.key[static_cast<std::size_t>(at)];
    };
    const plan::MemoryReport report =
        plan::memory_report(program, value_of, session.reuses_memory());
    return Memory{report.total, report.lower_bound, capture.arena_bytes - report.total};
  }  // all calls had these sizes
  return std::nullopt;
}

void print_memory(const runtime::Session& session) {
  const std::optional<Memory> memory = memory_of(session);
  if (!memory) return;
  line("arena", static_cast<double>(memory->arena), "bytes");
  line("lower bound", static_cast<double>(memory->lower_bound), "bytes");
  line("kernel scratch", static_cast<double>(memory->scratch), "bytes, all workers");
}

// The subject of a measurement: a session, its inputs, and the time to make it.
struct Subject {
  std::shared_ptr<const deploy::Model> model;      // null: a graph
  std::shared_ptr<runtime::DeviceContext> device;  // stays open
  Compiled compiled;
  std::unique_ptr<runtime::Session> session;
  std::vector<HostTensor> inputs;
  double prepare_seconds = 0;
};

Subject subject_of(const Arguments& arguments) {
  Subject subject;
  if (deploy::is_model_file(arguments.file())) {
    const auto start = Clock::now();
    subject.model = deploy::load_model(arguments.file(), load_options(arguments));
    subject.session = session_of(*subject.model, session_options(arguments));
    subject.prepare_seconds = seconds_since(start);
    subject.inputs = make_inputs(*signature_graph(*subject.model), arguments);
    return subject;
  }
  auto graph = read_graph(arguments.file());
  subject.inputs = make_inputs(*graph, arguments);
  const auto start = Clock::now();
  const UserOptions options = user_options(arguments);
  subject.device = open_target(options.compile.target);
  {
    const Activity activity(str("compiling ", arguments.file()));
    subject.compiled = compile(std::move(graph), cached(options.compile));
  }
  subject.prepare_seconds = seconds_since(start);
  subject.session = std::make_unique<runtime::Session>(subject.compiled.executable, options.session,
                                                       subject.compiled.specialiser);
  return subject;
}

struct Measured {
  std::vector<double> times;  // of calls, sorted
  double seconds = 0;         // from the first to the last

  double percentile(double share) const {
    const auto at = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1) + 0.5);
    return times[at];
  }
};

// Calls of one client: a fixed number, or as many as time allows.
std::vector<double> call_again(runtime::Session& session, std::vector<HostTensor> inputs,
                               std::int64_t calls, double seconds, int threads) {
  std::optional<runtime::LimitScope> limit;
  if (threads > 0) limit.emplace(threads);
  std::vector<double> times;
  const auto began = Clock::now();
  while (calls > 0 ? std::ssize(times) < calls : times.empty() || seconds_since(began) < seconds) {
    const auto start = Clock::now();
    execute(session, inputs);
    times.push_back(seconds_since(start));
  }
  return times;
}

Measured measure(const Subject& subject, std::int64_t clients, std::int64_t calls, double seconds,
                 int threads) {
  std::vector<std::vector<double>> all(static_cast<std::size_t>(clients));
  const auto began = Clock::now();
  std::vector<std::thread> others;
  const auto work = [&](std::size_t k) {
    all[k] = call_again(*subject.session, subject.inputs, calls, seconds, threads);
  };
  for (std::size_t k = 1; k < all.size(); ++k) others.emplace_back(work, k);
  work(0);
  for (std::thread& other : others) other.join();
  Measured measured;
  measured.seconds = seconds_since(began);
  for (const std::vector<double>& times : all)
    measured.times.insert(measured.times.end(), times.begin(), times.end());
  std::sort(measured.times.begin(), measured.times.end());
  return measured;
}

void print_json(const Subject& subject, const Measured& measured, double first_call,
                std::int64_t clients, std::int64_t threads) {
  const auto us = [](double value) { return json_number(value * 1e6); };
  const runtime::Counters counters = subject.session->counters();
  const std::optional<Memory> memory = memory_of(*subject.session);
  const auto bytes = [&](std::int64_t Memory::* field) {
    return memory ? str((*memory).*field) : "null";
  };
  std::cout << json_object(
                   {{"code", json_text(subject.model ? subject.model->code
                                                     : subject.compiled.report.generator)},
                    {"compile_us", subject.model ? "null" : us(subject.prepare_seconds)},
                    {"load_us", subject.model ? us(subject.prepare_seconds) : "null"},
                    {"first_call_us", us(first_call)},
                    {"calls", str(measured.times.size())},
                    {"clients", str(clients)},
                    {"threads", str(threads)},
                    {"fastest_us", us(measured.times.front())},
                    {"p50_us", us(measured.percentile(0.5))},
                    {"p90_us", us(measured.percentile(0.9))},
                    {"p99_us", us(measured.percentile(0.99))},
                    {"slowest_us", us(measured.times.back())},
                    {"calls_a_second",
                     json_number(static_cast<double>(measured.times.size()) / measured.seconds)},
                    {"launches_a_call", str(counters.launches / counters.calls)},
                    {"copied_bytes_a_call", str(counters.bytes_copied / counters.calls)},
                    {"arena_bytes", bytes(&Memory::arena)},
                    {"lower_bound_bytes", bytes(&Memory::lower_bound)},
                    {"scratch_bytes", bytes(&Memory::scratch)},
                    {"tuned", json_texts(subject.session->findings())}})
            << "\n";
}

void print(const Subject& subject, const Measured& measured, double first_call) {
  const runtime::Counters counters = subject.session->counters();
  std::cout << std::fixed << std::setprecision(1);
  line(subject.model ? "load" : "compile", subject.prepare_seconds * 1e3, "ms");
  line("first call", first_call * 1e6, "us");
  line("fastest call", measured.times.front() * 1e6, "us");
  line("median call", measured.times[measured.times.size() / 2] * 1e6, "us");
  line("p90", measured.percentile(0.9) * 1e6, "us");
  line("p99", measured.percentile(0.99) * 1e6, "us");
  line("throughput", static_cast<double>(measured.times.size()) / measured.seconds, "calls/s");
  std::cout << std::setprecision(0);
  line("calls", static_cast<double>(measured.times.size()), "timed");
  line("launches", static_cast<double>(counters.launches / counters.calls), "a call");
  line("copied", static_cast<double>(counters.bytes_copied / counters.calls), "bytes a call");
  print_memory(*subject.session);
  for (const std::string& finding : subject.session->findings())
    std::cout << "tuned: " << finding << "\n";
}

int run(const Arguments& arguments) {
  for (const char* option : {"--calls", "--seconds", "--clients", "--threads"})
    if (const auto number = arguments.integer(option); number && *number < 1)
      fail(ErrorCode::invalid_argument, option, " is at least 1, got ", *number);
  const std::int64_t calls = arguments.integer("--calls").value_or(0);  // 0: as time allows
  const auto seconds = static_cast<double>(arguments.integer("--seconds").value_or(1));
  const std::int64_t clients = arguments.integer("--clients").value_or(1);
  const std::int64_t threads = arguments.integer("--threads").value_or(0);
  Subject subject = subject_of(arguments);
  const auto start = Clock::now();
  execute(*subject.session, subject.inputs);
  const double first_call = seconds_since(start);
  // Static code is compiled in the background after a few calls: half of the time is warm-up for
  // it.
  if (calls == 0) measure(subject, clients, 0, seconds / 2, static_cast<int>(threads));
  if (calls == 0 && !subject.model && user_options(arguments).compile.autotune) {
    const Activity activity(str("tuning ", arguments.file()));
    runtime::wait_for_background();
  }
  const Measured measured = measure(subject, clients, calls, seconds, static_cast<int>(threads));
  if (arguments.has("--json"))
    print_json(subject, measured, first_call, clients, threads);
  else
    print(subject, measured, first_call);
  return 0;
}

}  // namespace

Command bench_command() {
  return {
      "bench",
      "FILE.gex|MODEL.onnx|MODEL.gexe [--input NAME=SOURCE]... [options]",
      "measures the calls of a graph or model",
      "Runs the graph on inputs made as for gex run and prints the compile time, the first\n"
      "call, the fastest, median, p90 and p99 of the later ones, throughput and memory. Times "
      "include\n"
      "making the result tensors. GEX_PROFILE=20 in the environment adds times by kernel. With\n"
      "--autotune the warm-up ends when all candidates are measured, and they are listed. With\n"
      "--json: one object with code, compile_us, load_us (null where it does not apply),\n"
      "first_call_us, calls, clients, threads, fastest_us, p50_us, p90_us, p99_us, slowest_us,\n"
      "calls_a_second, launches_a_call, copied_bytes_a_call, arena_bytes, lower_bound_bytes,\n"
      "scratch_bytes (null where nothing was captured) and tuned.",
      with_compile_options(with_input_options(with_load_options(
          {{"--seconds", "N", "how long to measure (1), after half of it as warm-up"},
           {"--calls", "N", "this many calls of each client instead, without warm-up"},
           {"--clients", "N", "threads that call at the same time (1)"},
           {"--threads", "N", "threads that one call may use (all)"},
           {"--json", "", "the figures as JSON"}}))),
      1,
      run};
}

}  // namespace gex::tool
