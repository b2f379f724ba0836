#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontend/python/bindings.hpp"
#include "frontend/python/runner.hpp"
#include "gex/gex.h"
#include "report/chrome_trace.hpp"
#include "report/model.hpp"
#include "report/page.hpp"

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
  facts.sizes = sizes_of(session, kept ? &*kept : nullptr);
  facts.reuse_memory = session.reuses_memory();
  facts.captures = session.captures();
  facts.tuned = session.findings();
  facts.machine_code = machine_code;
  if (kept) {
    facts.trace = std::move(kept->fastest);
    facts.call_times = std::move(kept->times);
  }
  const nb::gil_scoped_release released;
  return report::graph_model(facts);
}

}  // namespace

void bind_report(nb::module_& m) {
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
      nb::arg("keeper").none(), "From now on calls are traced there; None: nowhere.");
  m.def("graph_model", &model_of, nb::arg("runner"), nb::arg("keeper").none(),
        nb::arg("machine_code"), "What a report says about one graph: JSON.");
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
