#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <algorithm>

#include "backend/cpu/generator.hpp"
#include "base/thread_pool.hpp"
#include "cache/store.hpp"
#include "compile/graphviz.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/captures.hpp"
#include "frontend/python/runnable_graph.hpp"
#include "frontend/python/runner.hpp"
#include "frontend/python/runner_options.hpp"
#include "frontend/python/steps.hpp"
#include "plan/report.hpp"
#include "runtime/background/background.hpp"
#include "runtime/device.hpp"
#include "target/target.hpp"

namespace gex::python {
namespace {

using Kind = OutputItem::Kind;

OutputItem plain(Kind kind, int of) {
  OutputItem item;
  item.kind = kind;
  item.of = of;
  return item;
}

OutputItem view(Kind kind, int of, std::vector<Dim> shape, std::vector<Dim> strides, Dim offset) {
  OutputItem item = plain(kind, of);
  item.shape = std::move(shape);
  item.strides = std::move(strides);
  item.offset = offset;
  return item;
}

void bind_signature(nb::module_& m) {
  nb::class_<OutputItem>(m, "OutputItem", "How one entry of the result list is made.")
      .def_static("graph", [](int of) { return plain(Kind::graph, of); })
      .def_static("argument", [](int of) { return plain(Kind::argument, of); })
      .def_static("argument_view",
                  [](int of, std::vector<Dim> shape, std::vector<Dim> strides, Dim offset) {
                    return view(Kind::argument_view, of, std::move(shape), std::move(strides),
                                offset);
                  })
      .def_static("output_view",
                  [](int of, std::vector<Dim> shape, std::vector<Dim> strides, Dim offset) {
                    return view(Kind::output_view, of, std::move(shape), std::move(strides),
                                offset);
                  })
      .def_static("integer",
                  [](Dim value) {
                    OutputItem item = plain(Kind::integer, -1);
                    item.value = value;
                    return item;
                  })
      .def_static("none", [] { return plain(Kind::none, -1); })
      .def_prop_ro("dims", [](const OutputItem& item) {
        std::vector<Dim> dims = item.shape;
        dims.insert(dims.end(), item.strides.begin(), item.strides.end());
        dims.push_back(item.offset);
        dims.push_back(item.value);
        return dims;
      });
  nb::class_<SymbolSource>(m, "SymbolSource", "Where a symbol gets its value at each call.")
      .def(
          "__init__",
          [](SymbolSource* self, Dim symbol, int argument, int axis, int output, std::int64_t scale,
             std::int64_t rest) {
            if (scale <= 0) fail(ErrorCode::invalid_argument, "scale is ", scale, ", not positive");
            new (self) SymbolSource{symbol, argument, axis, output, scale, rest};
          },
          nb::arg("symbol"), nb::arg("argument") = -1, nb::arg("axis") = -1, nb::arg("output") = -1,
          nb::arg("scale") = 1, nb::arg("rest") = 0);
  nb::class_<PythonSignature>(m, "Signature", "How arguments and results map to a graph's own.")
      .def(
          "__init__",
          [](PythonSignature* self, int num_arguments, std::vector<int> tensors,
             std::vector<std::pair<Dim, int>> integers, std::vector<nb::object> constants,
             std::vector<OutputItem> outputs, std::vector<SymbolSource> symbols) {
            new (self)
                PythonSignature{num_arguments,        std::move(tensors), std::move(integers),
                                std::move(constants), std::move(outputs), std::move(symbols)};
          },
          nb::arg("num_arguments"), nb::arg("tensors"), nb::arg("integers"), nb::arg("constants"),
          nb::arg("outputs"), nb::arg("symbols"))
      .def("save", &save_signature, "As bytes, without the constants.")
      .def_static("load", &load_signature, nb::arg("bytes"), nb::arg("constants"));
}

std::vector<Dim> integer_values(const PythonSignature& signature) {
  std::vector<Dim> values;
  for (const auto& [value, position] : signature.integers) values.push_back(value);
  return values;
}

nb::dict counters_of(const Runner& runner) {
  nb::dict out;
  const RunnableGraph* graph = runner.compiled_graph();
  if (graph == nullptr) return out;
  const runtime::Counters c = graph->session->counters();
  const std::pair<const char*, std::int64_t> counters[] = {
      {"calls", c.calls},
      {"captures", c.captures},
      {"replays", c.replays},
      {"evictions", c.evictions},
      {"uncaptured", c.uncaptured},
      {"recaptures", c.recaptures},
      {"limit_recaptures", c.limit_recaptures},
      {"limited_launches", c.limited_launches},
      {"overlapped_launches", c.overlapped_launches},
      {"launches", c.launches},
      {"host_calls", c.host_calls},
      {"bytes_copied", c.bytes_copied},
      {"specialised", c.specialised},
      {"arena_bytes", c.arena_bytes},
      {"arena_lower_bound", c.arena_lower_bound},
      {"allocations", c.allocations},
      {"inputs_released", c.inputs_released},
      {"recordings", c.recordings},
      {"graph_launches", c.graph_launches},
      {"single_launches", c.single_launches},
      {"plan_ns", c.plan_ns},
  };
  for (const auto& [name, value] : counters) out[name] = value;
  out["rebinds"] = runner.rebinds();
  out["pool_bytes"] = graph->session->pool_bytes();
  // Facts of the program itself; equal names add up.
  for (const auto& [name, value] : graph->report.counts)
    out[name.c_str()] =
        value + (out.contains(name.c_str()) ? nb::cast<std::int64_t>(out[name.c_str()]) : 0);
  return out;
}

// The memory plan of each capture, as in the compiler's report.
nb::list memory_of(const Runner& runner) {
  nb::list out;
  const RunnableGraph* graph = runner.compiled_graph();
  if (graph == nullptr) return out;
  const program::Program& program = graph->session->program();
  for (const runtime::CaptureInfo& capture : graph->session->captures()) {
    const auto value_of = [&](Dim symbol) -> std::optional<std::int64_t> {
      for (std::size_t k = 0; k < capture.key.size(); ++k)
        if (program.symbols[k] == symbol) return capture.key[k];
      return std::nullopt;
    };
    const plan::MemoryReport report =
        plan::memory_report(program, value_of, graph->session->reuses_memory());
    nb::dict entry;
    entry["arena"] = report.total;
    entry["lower_bound"] = report.lower_bound;
    entry["without_reuse"] = report.without_reuse;
    entry["scratch"] = report.scratch;
    entry["temporaries"] = report.rows.size();
    entry["why"] = report.why();
    entry["text"] = report.text();
    out.append(entry);
  }
  return out;
}

// The steps that each capture replays.
nb::list steps_of_captures(const Runner& runner) {
  nb::list out;
  if (const RunnableGraph* graph = runner.compiled_graph())
    for (const runtime::CaptureInfo& capture : graph->session->captures())
      out.append(steps_of(graph->session->program(), capture.key));
  return out;
}

std::string text_of(const Runner& runner, const std::string& level) {
  const RunnableGraph* graph = runner.compiled_graph();
  if (graph == nullptr)
    fail(ErrorCode::unsupported, "only compiled graphs have a ", level,
         " text, with frozen parameters from the first call on");
  if (level == "graph") return graph->report.graph_text;
  if (level == "kernels") return graph->report.kernel_text;
  if (level == "program")
    return program::print(graph->session->program(), {.constant_data = false});
  fail(ErrorCode::invalid_argument, "unknown level '", level, "'; use graph, kernels or program");
}

std::string graphviz_of_runner(const Runner& runner, const std::string& level) {
  const RunnableGraph* graph = runner.compiled_graph();
  if (graph == nullptr)
    fail(ErrorCode::unsupported, "only compiled graphs can be drawn, with frozen parameters from ",
         "the first call on");
  return graphviz_of(graph->report, graph->session->program(), level);
}

void reload_from_text(Runner& runner) {
  RunnableGraph* graph = runner.graph();
  if (graph == nullptr || graph->session == nullptr)
    fail(ErrorCode::unsupported, "only compiled graphs have a program text, with frozen ",
         "parameters from the first call on");
  const nb::gil_scoped_release unlocked;
  graph->reload_from_text();
}

int traverse_runner(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<Runner>(self)->traverse(visit, arg);
}

int clear_runner(PyObject* self) {
  nb::inst_ptr<Runner>(self)->clear();
  return 0;
}

// The graph input of a tensor argument; -1 if results are views of it, sizes are read from it, or
// it is written: then a call needs the argument itself until its end.
int plain_input(const Graph& graph, const PythonSignature& signature, int argument) {
  const auto at = std::ranges::find(signature.tensors, argument);
  if (at == signature.tensors.end()) return -1;
  const auto input = static_cast<int>(at - signature.tensors.begin());
  const auto makes_result = [&](const OutputItem& item) {
    return (item.kind == Kind::argument || item.kind == Kind::argument_view) && item.of == argument;
  };
  const auto tells_size = [&](const SymbolSource& source) { return source.argument == argument; };
  const auto writes = [&](const Tie& tie) { return tie.input == input; };
  const bool needed = std::ranges::any_of(signature.outputs, makes_result) ||
                      std::ranges::any_of(signature.symbols, tells_size) ||
                      std::ranges::any_of(graph.ties(), writes);
  return needed ? -1 : input;
}

bool is_batch_statistic(const Value& input) {
  return !input.uses().empty() && std::ranges::all_of(input.uses(), [](const Use& use) {
    return use.node != nullptr && use.node->is("batch_norm") && (use.index == 3 || use.index == 4);
  });
}

// The static arguments that can be bound once: plain tensors of constant size.
std::vector<FrozenArgument> frozen_arguments(
    const Graph& graph, const PythonSignature& signature,
    const std::vector<std::pair<int, std::string>>& candidates) {
  std::vector<FrozenArgument> frozen;
  for (const auto& [argument, name] : candidates) {
    const int input = plain_input(graph, signature, argument);
    if (input < 0) continue;
    const Value& value = *graph.inputs()[static_cast<std::size_t>(input)];
    if (value.type().bytes().as_const().value_or(0) == 0) continue;
    nb::object constant;
    if (argument >= signature.num_arguments)
      constant = signature.constants[static_cast<std::size_t>(argument - signature.num_arguments)];
    frozen.push_back({argument, input, name, std::move(constant), is_batch_statistic(value)});
  }
  std::ranges::sort(frozen, {}, &FrozenArgument::argument);
  return frozen;
}

std::vector<int> released_inputs(const Graph& graph, const PythonSignature& signature,
                                 const std::vector<int>& candidates) {
  std::vector<int> released;
  for (int argument : candidates) {
    const int input = plain_input(graph, signature, argument);
    if (input >= 0) released.push_back(input);
  }
  return released;
}

void check_layout(const Value& input, const FrozenMemory& memory) {
  const Type& type = input.type();
  const std::vector<Dim> strides = type.strides.value_or(dense_strides(type.shape));
  bool fits = type.dtype == memory.tensor.dtype && type.shape.size() == memory.tensor.shape.size();
  for (std::size_t d = 0; fits && d < type.shape.size(); ++d)
    fits = type.shape[d] == Dim(memory.tensor.shape[d]) &&
           (type.shape[d] == Dim(1) || strides[d] == Dim(memory.tensor.strides[d]));
  if (!fits)
    fail(ErrorCode::shape_mismatch, memory.name, " no longer has the type ", type,
         " that it was compiled with; compile again");
}

// Compiles the graph; the graph is kept, to be compiled again when frozen memory moves.
GraphMaker graph_maker(const Graph& graph, std::vector<Dim> integers, std::vector<int> released,
                       const runtime::SessionOptions& session_options,
                       const CompileOptions& compile_options, TorchDevice device) {
  return [own = std::shared_ptr<const Graph>(graph.clone()), integers = std::move(integers),
          released = std::move(released), session_options, compile_options,
          device](std::span<const FrozenMemory> frozen) -> std::unique_ptr<RunnableGraph> {
    CompileOptions options = compile_options;
    options.frozen_on_device = !frozen.empty() && !parse_target(options.target).is_cpu();
    for (const FrozenMemory& memory : frozen) {
      check_layout(*own->inputs()[static_cast<std::size_t>(memory.graph_input)], memory);
      options.frozen.push_back(
          {memory.graph_input,
           std::shared_ptr<const void>(std::shared_ptr<const void>(), memory.tensor.data),
           memory.contents});
    }
    auto runnable = compiled_graph(own->clone(), integers, released, options, session_options);
    runnable->device = device;
    return runnable;
  };
}

std::unique_ptr<Runner> compiled_runner(const Graph& graph, PythonSignature signature,
                                        std::vector<nb::object> callees,
                                        const CaptureOptions& captures,
                                        const RunnerOptions& options) {
  CompileOptions compile_options = options.user.compile;
  compile_options.cache =
      options.cache_dir.empty() ? Store::from_environment() : Store::at(options.cache_dir);
  runtime::SessionOptions session_options = options.user.session;
  captures.set(session_options);
  session_options.keep_arena = options.keep_arena;
  TorchDevice device;
  const Target target = parse_target(compile_options.target);
  if (!target.is_cpu() && !options.tensors_on_host) device.index = target.device;
  GraphMaker make = graph_maker(graph, integer_values(signature),
                                released_inputs(graph, signature, options.released),
                                session_options, compile_options, device);
  std::vector<FrozenArgument> bound_once = frozen_arguments(graph, signature, options.frozen);
  if (!bound_once.empty()) {
    auto runner = std::make_unique<Runner>(std::move(make), device, std::move(bound_once),
                                           std::move(signature), std::move(callees));
    runner->bind_constants();
    return runner;
  }
  std::unique_ptr<RunnableGraph> runnable;
  {
    nb::gil_scoped_release unlocked;
    runnable = make({});
  }
  return std::make_unique<Runner>(std::move(runnable), std::move(signature), std::move(callees));
}

PyType_Slot runner_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_runner)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear_runner)},
                              {0, nullptr}};

// Functions of the whole process.
void bind_process(nb::module_& m) {
  m.def(
      "trim", [] { runtime::open_device("cpu")->queues->trim(); },
      nb::call_guard<nb::gil_scoped_release>(),
      "Frees memory that is kept from call to call for temporaries.");
  m.def(
      "thread_count", [] { return ThreadPool::global().threads(); },
      "Threads that a launch may use, including the caller's.");
  m.def("wait_for_background", &runtime::wait_for_background,
        nb::call_guard<nb::gil_scoped_release>(),
        "Waits until nothing is compiled in the background.");
  m.def(
      "generator_stats",
      [] {
        nb::dict out;
        const codegen::Generator* generator = codegen::llvm_generator(nullptr);
        const codegen::GeneratorStats stats =
            generator ? generator->stats() : codegen::GeneratorStats();
        out["compiled"] = stats.compiled;
        out["loaded"] = stats.loaded;
        out["reused"] = stats.reused;
        return out;
      },
      "How many kernels of this process were compiled, loaded from a cache, or already in memory.");
  m.def("engine_build", &engine_build, "Identifies this build of the engine.");
  m.def("stop_background", &runtime::stop_background, nb::call_guard<nb::gil_scoped_release>(),
        "Stops background compilation permanently.");
}

nb::dict overhead_of(const Runner& runner) {
  nb::dict out;
  out["parameters_ns"] = runner.overhead().parameters_ns;
  out["inputs_ns"] = runner.overhead().inputs_ns;
  out["key_ns"] = runner.overhead().key_ns;
  return out;
}

// What the session of a compiled graph says about it; nothing before.
template <std::vector<std::string> (runtime::Session::*lines)() const>
std::vector<std::string> lines_of(const Runner& runner) {
  const RunnableGraph* graph = runner.compiled_graph();
  return graph ? (graph->session.get()->*lines)() : std::vector<std::string>{};
}

}  // namespace

void bind_runner(nb::module_& m) {
  bind_signature(m);
  bind_runner_options(m);
  bind_process(m);
  nb::class_<Runner>(m, "Runner", nb::type_slots(runner_slots), nb::is_weak_referenceable(),
                     "A compiled graph: takes the list of arguments and empties it.")
      .def("__call__", &Runner::operator(), nb::arg("arguments"))
      .def("refresh", &Runner::refresh, "Makes the next call bind frozen arguments again.")
      .def_prop_ro("frozen_tensors", &Runner::frozen_tensors)
      .def("text", &text_of, nb::arg("level") = "program", "Printed form: graph, kernels, program.")
      .def("graphviz", &graphviz_of_runner, nb::arg("level") = "graph",
           "The graph, its kernels or its program as Graphviz text.")
      .def("reload_from_text", &reload_from_text,
           "Prints the program, parses the text and runs that from now on.")
      .def_prop_ro("counters", &counters_of)
      .def("watch", &Runner::watch, nb::arg("word"), nb::arg("refuse"),
           "Calls `refuse`, which raises, when the first element of an i64 host tensor is not 0: "
           "at the beginning of the next call, or instead of an error of the device.")
      .def("name_ranges", &Runner::name_ranges, nb::arg("whole"), nb::arg("capture"),
           nb::arg("replay"), "Names of the ranges of its calls in PyTorch's profiler.")
      .def("measure_overhead", &Runner::measure_overhead, nb::arg("on"))
      .def_prop_ro("overhead", &overhead_of, "Overhead of the last measured call.")
      .def_prop_ro("steps", &steps_of_captures, "For each capture: a dict for each of its steps.")
      .def_prop_ro("memory", &memory_of, "For each capture: arena, lower_bound, why, text, ...")
      .def_prop_ro("seconds",
                   [](const Runner& runner) {
                     const RunnableGraph* graph = runner.compiled_graph();
                     return graph ? graph->report.seconds
                                  : std::vector<std::pair<std::string, double>>{};
                   })
      .def_prop_ro("remarks",
                   [](const Runner& runner) {
                     const RunnableGraph* graph = runner.compiled_graph();
                     return graph ? graph->report.remarks : std::vector<std::string>{};
                   })
      .def_prop_ro("tuned", &lines_of<&runtime::Session::findings>,
                   "Results of autotuning, a line for each problem.")
      .def_prop_ro("host_control", &lines_of<&runtime::Session::host_control>,
                   "Why the host decides if and while steps on a GPU, a line for each reason.")
      .def_prop_ro(
          "captures",
          [](const Runner& runner) {
            const RunnableGraph* graph = runner.compiled_graph();
            return graph ? captures_of(*graph->session) : nb::list();
          },
          "For each capture, the last used first: key, hits, arena_bytes, reason, note.");
  m.def("compiled_runner", &compiled_runner, nb::arg("graph"), nb::arg("signature"),
        nb::arg("callees"), nb::arg("captures"), nb::arg("options"),
        "Compiles the graph and makes it ready to replay.");
  m.def(
      "interpreter_runner",
      [](const Graph& graph, PythonSignature signature, std::vector<nb::object> callees) {
        auto runnable = interpreted_graph(graph.clone(), integer_values(signature));
        return std::make_unique<Runner>(std::move(runnable), std::move(signature),
                                        std::move(callees));
      },
      nb::arg("graph"), nb::arg("signature"), nb::arg("callees"),
      "Runs the graph node by node in the reference executor: slow, for tests and debugging.");
}

}  // namespace gex::python
