#include "report/chrome_trace.hpp"

#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "report/json.hpp"
#include "target/target.hpp"

namespace gex::report {

namespace {

using program::Program;
using program::Step;
using runtime::TraceEvent;

std::unordered_map<const void*, const Step*> steps_of(const Program& program) {
  std::unordered_map<const void*, const Step*> steps;
  for (const program::Segment& segment : program.segments)
    for (const Step& step : segment.steps)
      std::visit([&](const auto& op) { steps[&op] = &step; }, step.op);
  return steps;
}

std::string event_name(const Step& step) {
  if (const auto* launch = std::get_if<program::Launch>(&step.op)) return launch->name;
  if (const auto* call = std::get_if<program::Call>(&step.op)) return call->name;
  return std::holds_alternative<program::Fill>(step.op) ? "fill" : "copy";
}

void write_name(Json& json, const char* what, int process, int thread, const std::string& name) {
  json.begin_object().field("ph", "M").field("name", what).field("pid", process);
  json.field("tid", thread).key("args").begin_object().field("name", name);
  json.end_object().end_object();
}

// Microseconds from the start of the first call.
double since(std::int64_t ns, std::int64_t origin) {
  return static_cast<double>(ns - origin) * 1e-3;
}

const char* name_of_host_work(const void* step) {
  if (step == &runtime::HostWork::enqueue) return "enqueue";
  return step == &runtime::HostWork::wait ? "wait for the device" : nullptr;
}

// The host is thread 0, worker k thread k + 1.
int thread_of(int worker) { return worker + 1; }

void write_call(Json& json, const TraceKeeper::Kept& kept, int process, std::int64_t origin) {
  const Program& program = *kept.program;
  const auto steps = steps_of(program);
  const Costs costs(program);
  const Sizes sizes = [&](Dim symbol) -> std::optional<std::int64_t> {
    for (const auto& [known, value] : kept.fastest.sizes)
      if (known == symbol) return value;
    return std::nullopt;
  };
  write_name(json, "process_name", process, 0, "gex " + program.name);
  json.begin_object().field("ph", "X").field("name", "call " + program.name).field("cat", "gex");
  json.field("pid", process).field("tid", 0).field("ts", since(kept.fastest.begin, origin));
  json.field("dur", since(kept.fastest.end, kept.fastest.begin)).end_object();
  std::set<int> workers = {TraceEvent::kHost};
  for (const TraceEvent& event : kept.fastest.events()) {
    const auto found = steps.find(event.step);
    if (found == steps.end()) {
      if (const char* work = name_of_host_work(event.step)) {
        json.begin_object().field("ph", "X").field("name", work).field("cat", "gex");
        json.field("pid", process).field("tid", 0).field("ts", since(event.begin, origin));
        json.field("dur", since(event.end, event.begin)).end_object();
      }
      continue;
    }
    const Step& step = *found->second;
    workers.insert(event.worker);
    json.begin_object().field("ph", "X").field("name", event_name(step)).field("cat", "gex");
    json.field("pid", process).field("tid", thread_of(event.worker));
    json.field("ts", since(event.begin, origin)).field("dur", since(event.end, event.begin));
    json.key("args").begin_object();
    if (!step.location.empty()) json.field("at", step.location);
    if (const auto cost = costs.of(step, sizes))
      json.field("flops", cost->flops).field("bytes", cost->read + cost->written);
    json.end_object().end_object();
  }
  const char* track = parse_target(program.target).is_cpu() ? "thread " : "stream ";
  for (int worker : workers)
    write_name(json, "thread_name", process, thread_of(worker),
               worker == TraceEvent::kHost ? std::string("host") : str(track, worker));
}

}  // namespace

std::string chrome_trace(const std::vector<TraceKeeper::Kept>& traces) {
  Json json;
  json.begin_object().field("displayTimeUnit", "ns").key("traceEvents").begin_list();
  std::int64_t origin = traces.empty() ? 0 : traces.front().fastest.begin;
  for (const TraceKeeper::Kept& kept : traces) origin = std::min(origin, kept.fastest.begin);
  for (std::size_t k = 0; k < traces.size(); ++k)
    write_call(json, traces[k], static_cast<int>(k) + 1, origin);
  json.end_list().end_object();
  return json.take();
}

}  // namespace gex::report
