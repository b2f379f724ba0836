#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/suggest.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/runner.hpp"
#include "gex/gex.h"
#include "report/chrome_trace.hpp"
#include "report/model.hpp"
#include "report/page.hpp"
#include "runtime/memory/usage.hpp"

namespace gex::python {
namespace {

using report::TraceKeeper;

// The sizes of the traced call, else those of the capture that was used last.
report::Sizes sizes_of(const runtime::Session& session, const TraceKeeper::Kept* kept) {
  std::vector<std::pair<Dim, std::int64_t>> known;
  if (kept != nullptr) {
    known = kept->fastest.sizes;
  } else if (const auto captures = session.captures(); !captures.empty()) {
    const std::vector<std::int64_t>& key = captures.front().key;
    for (std::size_t k = 0; k < key.size(); ++k)
      known.push_back({session.program().symbols[k], key[k]});
  }
  return [known = std::move(known)](Dim symbol) -> std::optional<std::int64_t> {
    for (const auto& [name, value] : known)
      if (name == symbol) return value;
    return std::nullopt;
  };
}

std::optional<TraceKeeper::Kept> trace_of(const Runner& runner, const TraceKeeper* keeper) {
  const RunnableGraph* graph = runner.compiled_graph();
  if (graph == nullptr || keeper == nullptr) return std::nullopt;
  return keeper->of(&graph->session->program());
}

// None for a graph that is not compiled (yet).
std::optional<std::string> model_of(const Runner& runner, const TraceKeeper* keeper,
                                    bool machine_code) {
  const RunnableGraph* graph = runner.compiled_graph();
  if (graph == nullptr) return std::nullopt;
  const runtime::Session& session = *graph->session;
  std::optional<TraceKeeper::Kept> kept = trace_of(runner, keeper);
  report::GraphFacts facts;
  facts.report = &graph->report;
  facts.program = &session.program();
  facts.executable = graph->executable.get();
  facts.sizes = sizes_of(session, kept ? &*kept : nullptr);
  facts.reuse_memory = session.reuses_memory();
  facts.captures = session.captures();
  facts.tuned = session.findings();
  facts.machine_code = machine_code;
  facts.traced = std::move(kept);
  const nb::gil_scoped_release released;
  return report::graph_model(facts);
}

using UnitRow = std::tuple<std::string, std::string, std::size_t>;
using ChangeRow = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;

std::vector<UnitRow> units_of(const Runner& runner) {
  std::vector<UnitRow> units;
  if (const RunnableGraph* graph = runner.compiled_graph())
    for (const Origins::Unit& unit : graph->report.origins.units)
      units.push_back({unit.kind, unit.label, unit.nodes.size()});
  return units;
}

std::vector<ChangeRow> changes_of(const Runner& runner) {
  std::vector<ChangeRow> changes;
  if (const RunnableGraph* graph = runner.compiled_graph())
    for (const Origins::PassRun& pass : graph->report.origins.passes)
      if (pass.changed)
        changes.push_back({pass.name, pass.count, pass.nodes_before, pass.nodes_after});
  return changes;
}

template <class Enum>
Enum named(std::span<const std::string_view> names, std::string_view name) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end())
    fail(ErrorCode::invalid_argument, "logs have no '", name, "'", suggestion(name, names));
  return static_cast<Enum>(at - names.begin());
}

nb::dict dict_of(const runtime::MemoryAmount& amount) {
  nb::dict out;
  out["current"] = amount.current;
  out["peak"] = amount.peak;
  out["allocations"] = amount.allocations;
  return out;
}

void bind_memory(nb::module_& m) {
  m.def(
      "memory_usage",
      [] {
        const runtime::MemoryUsage usage = runtime::memory_usage();
        nb::dict out;
        out["all"] = dict_of(usage.all);
        for (std::size_t k = 0; k < usage.of.size(); ++k)
          out[nb::str(runtime::kMemoryUses[k].data())] = dict_of(usage.of[k]);
        return out;
      },
      "Memory of the engine, all of it and by use: bytes now, their peak, number of allocations.");
  m.def("reset_memory_peaks", &runtime::reset_memory_peaks);
}

void bind_logs(nb::module_& m) {
  m.def(
      "write_log",
      [](const std::string& area, const std::string& level, const std::string& message) {
        log(named<LogArea>(log_area_names(), area), named<LogLevel>(log_level_names(), level),
            message);
      },
      nb::arg("area"), nb::arg("level"), nb::arg("message"), "As the engine logs: see GEX_LOG.");
  m.def(
      "logs",
      [](const std::string& area, const std::string& level) {
        return logs(named<LogArea>(log_area_names(), area),
                    named<LogLevel>(log_level_names(), level));
      },
      nb::arg("area"), nb::arg("level"), "Whether such a message would be written.");
}

}  // namespace

void bind_report(nb::module_& m) {
  bind_logs(m);
  bind_memory(m);
  m.def("fused_units", &units_of, nb::arg("runner"),
        "What fusion made: kind, label, number of nodes.");
  m.def("pass_changes", &changes_of, nb::arg("runner"),
        "Passes that changed the graph: name, number of changes, nodes before and after.");
  nb::class_<TraceKeeper>(m, "TraceKeeper", "Traces of calls, for reports and trace files.")
      .def(nb::init<>())
      .def(
          "has",
          [](const TraceKeeper& keeper, const Runner& runner) {
            return trace_of(runner, &keeper).has_value();
          },
          nb::arg("runner"), "Whether a call of the runner was traced.")
      .def(
          "times",
          [](const TraceKeeper& keeper, const Runner& runner) {
            const auto kept = trace_of(runner, &keeper);
            return kept ? kept->times : std::vector<std::int64_t>();
          },
          nb::arg("runner"), "Nanoseconds of each traced call of the runner.")
      .def(
          "chrome_trace",
          [](const TraceKeeper& keeper) { return report::chrome_trace(keeper.all()); },
          "The fastest call of each graph, as JSON that Perfetto and chrome://tracing open.");
  m.def(
      "set_tracing", [](std::shared_ptr<TraceKeeper> keeper) { runtime::set_trace_sink(keeper); },
      nb::arg("keeper").none(), "Sets where calls are traced from now on; None: tracing is off.");
  m.def("graph_model", &model_of, nb::arg("runner"), nb::arg("keeper").none(),
        nb::arg("machine_code"), "The report model of one graph: JSON.");
  m.def(
      "report_model",
      [](std::string title, std::vector<std::string> graphs,
         std::vector<std::pair<std::string, double>> first_call, std::string extra) {
        const nb::gil_scoped_release released;
        return report::report_model({std::move(title), gex_version(), std::move(graphs),
                                     std::move(first_call), std::move(extra)});
      },
      nb::arg("title"), nb::arg("graphs"), nb::arg("first_call"), nb::arg("extra"),
      "A whole report: JSON.");
  m.def("report_page", &report::html_page, nb::arg("models"),
        "One model, or two to compare, as a page of HTML.");
}

}  // namespace gex::python
