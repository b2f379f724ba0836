#include "report/model.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <unordered_map>

#include "backend/cpu/generator.hpp"
#include "backend/cpu/tuner.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "base/error.hpp"
#include "compile/graph_lines.hpp"
#include "plan/report.hpp"
#include "problems/problem.hpp"
#include "program/step_names.hpp"
#include "report/json.hpp"
#include "report/machine.hpp"
#include "report/sass.hpp"
#include "target/target.hpp"

namespace gex::report {

using program::BufferDesc;
using program::BufferId;
using program::Program;
using program::Step;

namespace {

// Code is truncated beyond this: a page should stay below five megabytes.
constexpr std::size_t kLongestCode = 24 << 10, kAllAssembly = 1280 << 10, kAllIr = 768 << 10;

constexpr double kSecondsForCandidates = 1;

// In place of a step in events of the host.
constexpr int kEnqueueing = -2, kWaiting = -3;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

const void* address_of(const Step& step) {
  return std::visit([](const auto& op) -> const void* { return &op; }, step.op);
}

class Writer {
 public:
  explicit Writer(const GraphFacts& facts)
      : facts_(facts), report_(*facts.report), program_(*facts.program) {}

  std::string write() {
    number_steps();
    json_.begin_object();
    json_.field("name", program_.name).field("target", program_.target);
    json_.field("generator", report_.generator);
    write_device();
    write_tensor_level();
    write_units();
    write_steps();
    write_codes();
    write_buffers();
    write_memory();
    write_decisions();
    write_timeline();
    json_.end_object();
    return json_.take();
  }

 private:
  struct StepPlace {
    const Step* step;
    int segment, unit;
  };

  void number_steps() {
    for (std::size_t s = 0; s < program_.segments.size(); ++s) {
      const auto& units = report_.origins.unit_of_step;
      for (std::size_t k = 0; k < program_.segments[s].steps.size(); ++k) {
        const Step& step = program_.segments[s].steps[k];
        const int unit = s < units.size() && k < units[s].size() ? units[s][k] : -1;
        number_of_[address_of(step)] = static_cast<int>(steps_.size());
        steps_.push_back({&step, static_cast<int>(s), unit});
      }
    }
  }

  // What the launches of a GPU are compared with.
  void write_device() {
    const Target target = parse_target(program_.target);
    if (target.is_cpu()) return;
    const DeviceLimits& limits = device_limits(target.device);
    json_.key("device").begin_object().field("name", limits.name);
    json_.field("multiprocessors", limits.multiprocessors).field("gflops", limits.gflops);
    json_.field("tensor_gflops", limits.tensor_gflops).field("bandwidth", limits.bandwidth);
    json_.field("cache_bytes", limits.cache_bytes).end_object();
  }

  void write_tensor_level() {
    // Programs of model files have no graph.
    const GraphLines lines =
        report_.graph_text.empty() ? GraphLines() : read_lines(report_.graph_text);
    std::vector<int> unit_of(lines.nodes.size(), -1);
    for (std::size_t u = 0; u < report_.origins.units.size(); ++u)
      for (int node : report_.origins.units[u].nodes)
        if (node >= 0 && static_cast<std::size_t>(node) < unit_of.size())
          unit_of[static_cast<std::size_t>(node)] = static_cast<int>(u);
    json_.key("values").begin_list();
    for (const ValueLine& value : lines.values)
      json_.begin_list().value(value.name).value(value.type).value(value.producer).end_list();
    json_.end_list();
    json_.list("inputs", lines.inputs).list("outputs", lines.outputs);
    json_.key("nodes").begin_list();
    for (std::size_t n = 0; n < lines.nodes.size(); ++n) {
      const NodeLine& node = lines.nodes[n];
      json_.begin_object().field("op", node.op);
      json_.list("in", node.inputs).list("out", node.outputs);
      if (!node.attributes.empty()) json_.field("attrs", node.attributes);
      if (!node.location.empty()) json_.field("at", node.location);
      if (node.parent >= 0) json_.field("parent", node.parent);
      json_.field("unit", unit_of[n]).end_object();
    }
    json_.end_list();
  }

  void write_units() {
    std::vector<std::vector<int>> steps_of(report_.origins.units.size());
    for (std::size_t s = 0; s < steps_.size(); ++s)
      if (steps_[s].unit >= 0 && static_cast<std::size_t>(steps_[s].unit) < steps_of.size())
        steps_of[static_cast<std::size_t>(steps_[s].unit)].push_back(static_cast<int>(s));
    json_.key("units").begin_list();
    for (std::size_t u = 0; u < report_.origins.units.size(); ++u) {
      const Origins::Unit& unit = report_.origins.units[u];
      json_.begin_object().field("kind", unit.kind).field("label", unit.label);
      json_.list("nodes", unit.nodes).list("steps", steps_of[u]).end_object();
    }
    json_.end_list();
  }

  void write_steps() {
    const Costs costs(program_);
    const auto least = facts_.traced ? least_times(*facts_.traced)
                                     : std::unordered_map<const void*, std::int64_t>();
    json_.key("steps").begin_list();
    for (const StepPlace& place : steps_) {
      const Step& step = *place.step;
      json_.begin_object()
          .field("kind", program::kind_of(step))
          .field("name", program::name_of(step));
      json_.field("unit", place.unit).field("segment", place.segment);
      json_.list("reads", program::reads_of(step)).list("writes", program::writes_of(step));
      if (step.stream != 0) json_.field("stream", step.stream);
      if (!step.location.empty()) json_.field("at", step.location);
      write_operation(step);
      if (const auto found = least.find(address_of(step)); found != least.end())
        json_.field("least", found->second);
      if (const auto cost = costs.of(step, facts_.sizes))
        json_.field("flops", cost->flops).field("read", cost->read).field("written", cost->written);
      write_candidates(step);
      json_.end_object();
    }
    json_.end_list();
    json_.key("segments").begin_list();
    for (const program::Segment& segment : program_.segments) json_.value(segment.name);
    json_.end_list();
  }

  // The forms that could compute a matmul or a convolution, and their times: the chosen one first.
  // Equal problems are measured once; nothing more is measured after kSecondsForCandidates.
  void write_candidates(const Step& step) {
    const auto* launch = std::get_if<program::Launch>(&step.op);
    if (launch == nullptr || launch->code < 0 || program_.target != "cpu") return;
    const program::Code& code = program_.codes[static_cast<std::size_t>(launch->code)];
    if (code.problem.empty()) return;
    std::vector<std::int64_t> dims;
    for (const Dim dim : launch->dims) {
      const auto size = evaluated(dim, facts_.sizes);
      if (!size) return;
      dims.push_back(*size);
    }
    const auto [at, is_new] = candidates_.try_emplace({code.problem, dims});
    if (is_new && seconds_for_candidates_ < kSecondsForCandidates) {
      const auto start = std::chrono::steady_clock::now();
      at->second = backend::cpu::timed_candidates(problems::parse_problem(code.problem), dims);
      seconds_for_candidates_ +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    if (at->second.empty()) return;
    json_.key("candidates").begin_list();
    for (const backend::cpu::TimedCandidate& one : at->second)
      json_.begin_list().value(one.name).value(one.microseconds).end_list();
    json_.end_list();
  }

  void write_operation(const Step& step) {
    const auto segment = [&](int number) {
      return program_.segments[static_cast<std::size_t>(number)].name;
    };
    std::visit(
        Overloaded{
            [&](const program::Launch& launch) {
              json_.field("code", launch.code);
              if (const auto grid = evaluated(launch.grid, facts_.sizes))
                json_.field("grid", *grid);
              if (launch.ordered) json_.field("ordered", true);
            },
            [&](const program::Bind& bind) { json_.field("symbol", bind.symbol.text()); },
            [&](const program::If& branch) {
              json_.field("runs",
                          str(segment(branch.then_segment), " or ", segment(branch.else_segment)));
            },
            [&](const program::While& loop) { json_.field("runs", segment(loop.body_segment)); },
            [](const auto&) {},
        },
        step.op);
  }

  void write_codes() {
    json_.key("codes").begin_list();
    std::size_t room_of_device = kAllAssembly;
    const std::vector<std::string> texts = device_texts();
    for (std::size_t k = 0; k < program_.codes.size(); ++k) {
      const program::Code& code = program_.codes[k];
      json_.begin_object().field("name", code.name).field("kernel", code.kernel);
      if (k < texts.size()) write_device_code(texts[k], k, room_of_device);
      if (!code.problem.empty()) {
        json_.field("problem", code.problem);
        if (on_tensor_cores(problems::parse_problem(code.problem)))
          json_.field("tensor_cores", true);
      }
      if (!code.algorithm.empty()) json_.field("algorithm", code.algorithm);
      json_.key("prologues").begin_list();
      for (const program::Code::Prologue& prologue : code.prologues) json_.value(prologue.kernel);
      json_.end_list().end_object();
    }
    json_.end_list();
    json_.key("kernels").begin_list();
    std::size_t room = kAllAssembly, room_of_ir = kAllIr;
    for (const std::string& text : program_.kernels) {
      json_.begin_object().field("loops", text);
      const std::string ir = code_of(text, codegen::Dump::optimised_ir, room_of_ir);
      if (!ir.empty()) json_.field("llvm", ir);
      const std::string assembly = code_of(text, codegen::Dump::assembly, room);
      if (!assembly.empty()) json_.field("assembly", assembly);
      json_.end_object();
    }
    json_.end_list();
  }

  // By code; empty for the CPU.
  std::vector<std::string> device_texts() const {
    if (!facts_.machine_code || !report_.generator.starts_with("nvrtc")) return {};
    return backend::cuda::texts_of(program_);
  }

  void write_device_code(const std::string& text, std::size_t code, std::size_t& room) {
    if (!text.empty()) json_.field("cuda", cut_to(text, room));
    if (facts_.executable == nullptr || code >= facts_.executable->device_codes.size()) return;
    const auto& image = facts_.executable->device_codes[code].image;
    if (image == nullptr || room == 0) return;
    const std::string sass = sass_of(*image);
    if (!sass.empty()) json_.field("sass", cut_to(sass, room));
  }

  // As much of a text as there is room for.
  static std::string cut_to(std::string text, std::size_t& room) {
    const std::size_t most = std::min(room, kLongestCode);
    if (text.size() > most)
      text = text.substr(0, most) + "\n... cut here: the report would grow too large\n";
    room -= std::min(room, text.size());
    return text;
  }

  // What LLVM makes of a kernel; empty on other targets.
  std::string code_of(const std::string& text, codegen::Dump what, std::size_t& room) const {
    const bool generated = report_.generator.starts_with("llvm");
    if (!facts_.machine_code || !generated || room == 0) return {};
    codegen::Generator* generator = codegen::llvm_generator(nullptr);
    if (generator == nullptr) return {};
    codegen::GeneratorOptions options;
    options.fast_math = facts_.fast_math;
    return cut_to(generator->dump(loop::parse_kernel(text), options, what), room);
  }

  void write_buffers() {
    json_.key("buffers").begin_list();
    for (std::size_t k = 0; k < program_.buffers.size(); ++k) {
      const BufferDesc& buffer = program_.buffers[k];
      json_.begin_object().field("name", buffer.name);
      json_.field("kind", program::name_of(buffer.kind));
      json_.field("type", str(buffer.dtype, text_of(buffer.shape)));
      if (const auto bytes = evaluated(buffer.bytes, facts_.sizes)) json_.field("bytes", *bytes);
      const BufferId root = program::root_of(program_, static_cast<BufferId>(k));
      if (root != static_cast<BufferId>(k)) json_.field("root", root);
      json_.end_object();
    }
    json_.end_list();
  }

  void write_memory() {
    std::map<std::string, std::int64_t> outside;  // bytes by kind, of buffers that own memory
    for (const BufferDesc& buffer : program_.buffers)
      if (buffer.alias_of < 0 && buffer.kind != BufferDesc::Kind::temp)
        outside[std::string(program::name_of(buffer.kind))] +=
            evaluated(buffer.bytes, facts_.sizes).value_or(0);
    const plan::MemoryReport memory =
        plan::memory_report(program_, facts_.sizes, facts_.reuse_memory);
    const plan::Lifetimes lives = plan::lifetimes_of(program_);
    json_.key("memory").begin_object();
    json_.field("total", memory.total).field("lower_bound", memory.lower_bound);
    json_.field("without_reuse", memory.without_reuse).field("why", memory.why());
    json_.field("strategy", plan::name_of(memory.strategy)).field("positions", lives.positions);
    json_.key("rows").begin_list();
    for (const plan::MemoryReport::Row& row : memory.rows)
      json_.begin_list()
          .value(row.buffer)
          .value(row.offset)
          .value(row.bytes)
          .value(row.life.first)
          .value(row.life.last)
          .end_list();
    json_.end_list().list("later", memory.later);
    json_.key("outside").begin_object();
    for (const auto& [kind, bytes] : outside) json_.field(kind, bytes);
    json_.end_object();
    json_.key("position_of_step").begin_list();
    for (const auto& segment : lives.of_step)
      for (const plan::Interval& interval : segment) json_.value(interval.first);
    json_.end_list().end_object();
  }

  void write_decisions() {
    json_.key("passes").begin_list();
    for (const Origins::PassRun& pass : report_.origins.passes)
      json_.begin_object()
          .field("name", pass.name)
          .field("changed", pass.changed)
          .field("count", pass.count)
          .field("before", pass.nodes_before)
          .field("after", pass.nodes_after)
          .field("seconds", pass.seconds)
          .end_object();
    json_.end_list().key("separate").begin_list();
    for (const Origins::Separate& separate : report_.origins.separate)
      json_.begin_object()
          .field("node", separate.node)
          .field("other", separate.other)
          .field("reason", separate.reason)
          .end_object();
    json_.end_list().list("remarks", report_.remarks).list("tuned", facts_.tuned);
    std::map<std::string, std::int64_t> counts;
    for (const auto& [name, count] : report_.counts) counts[name] += count;
    json_.key("counts").begin_object();
    for (const auto& [name, count] : counts) json_.field(name, count);
    json_.end_object().key("stages").begin_list();
    for (const auto& [stage, seconds] : report_.seconds)
      json_.begin_list().value(stage).value(seconds).end_list();
    json_.end_list().key("guards").begin_list();
    for (const program::Guard& guard : program_.guards)
      json_.value(str(guard.lhs, " ", program::symbol_of(guard.relation), " ", guard.rhs, "  (",
                      guard.message, ")"));
    json_.end_list();
    write_captures();
  }

  void write_captures() {
    json_.key("sizes").begin_object();
    for (Dim symbol : program_.symbols)
      if (const auto size = facts_.sizes(symbol)) json_.field(symbol.text(), *size);
    json_.end_object().key("captures").begin_list();
    for (const runtime::CaptureInfo& capture : facts_.captures)
      json_.begin_object()
          .list("key", capture.key)
          .field("hits", capture.hits)
          .field("arena_bytes", capture.arena_bytes)
          .field("lower_bound", capture.lower_bound)
          .field("reason", capture.reason)
          .field("note", capture.note)
          .end_object();
    json_.end_list();
  }

  void write_timeline() {
    if (!facts_.traced) return;
    const runtime::CallTrace& trace = facts_.traced->fastest;
    json_.key("timeline").begin_object();
    json_.field("ns", trace.end - trace.begin).list("calls", facts_.traced->times);
    json_.key("events").begin_list();  // step, worker, begin, end
    for (const runtime::TraceEvent& event : trace.events()) {
      json_.begin_list().value(number_of_event(event.step));
      json_.value(event.worker).value(event.begin - trace.begin).value(event.end - trace.begin);
      json_.end_list();
    }
    json_.end_list().end_object();
  }

  int number_of_event(const void* step) const {
    if (step == &runtime::HostWork::enqueue) return kEnqueueing;
    if (step == &runtime::HostWork::wait) return kWaiting;
    const auto found = number_of_.find(step);
    return found == number_of_.end() ? -1 : found->second;
  }

  const GraphFacts& facts_;
  const CompileReport& report_;
  const Program& program_;
  std::vector<StepPlace> steps_;
  // By problem and sizes.
  std::map<std::pair<std::string, std::vector<std::int64_t>>,
           std::vector<backend::cpu::TimedCandidate>>
      candidates_;
  double seconds_for_candidates_ = 0;
  std::unordered_map<const void*, int> number_of_;
  Json json_;
};

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string graph_model(const GraphFacts& facts) { return Writer(facts).write(); }

std::string report_model(const ReportFacts& facts) {
  Json json;
  json.begin_object().field("format", "gex-report").field("version", kModelVersion);
  json.field("gex", facts.version).field("title", facts.title).field("created", now_text());
  const Machine& found = machine();
  json.key("machine")
      .begin_object()
      .field("name", found.name)
      .field("threads", found.threads)
      .field("gflops", found.gflops)
      .field("bandwidth", found.bandwidth)
      .field("cache_bandwidth", found.cache_bandwidth)
      .end_object();
  json.key("first_call").begin_list();
  for (const auto& [phase, seconds] : facts.first_call)
    json.begin_list().value(phase).value(seconds).end_list();
  json.end_list();
  json.key("extra").raw(facts.extra.empty() ? "{}" : facts.extra);
  json.key("graphs").begin_list();
  for (const std::string& graph : facts.graphs) json.raw(graph);
  json.end_list().end_object();
  return json.take();
}

}  // namespace gex::report
