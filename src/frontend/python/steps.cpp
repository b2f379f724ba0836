#include "frontend/python/steps.hpp"

#include <nanobind/stl/string.h>
#include <algorithm>

namespace gex::python {
namespace {

class StepList {
 public:
  StepList(const program::Program& program, std::span<const std::int64_t> key)
      : program_(program), key_(key) {}

  nb::list of_main() {
    for (int segment : program_.main) add_segment(segment);
    return std::move(out_);
  }

 private:
  void add_segment(int segment) {
    const auto& steps = program_.segments[static_cast<std::size_t>(segment)].steps;
    for (const program::Step& step : steps)
      std::visit([&](const auto& op) { add(step, op); }, step.op);
  }

  nb::dict entry(const program::Step& step, const char* kind, const std::string& name) {
    nb::dict out;
    out["kind"] = kind;
    out["name"] = name;
    out["stream"] = step.stream;
    out["line"] = step.location;
    return out;
  }

  // None if a size depends on values computed by the program.
  nb::object value(Dim dim) const {
    std::vector<Dim> symbols;
    dim.collect_symbols(symbols);
    const auto position = [&](Dim symbol) {
      const auto at = std::ranges::find(program_.symbols, symbol);
      return static_cast<std::size_t>(at - program_.symbols.begin());
    };
    for (Dim symbol : symbols)
      if (position(symbol) >= key_.size()) return nb::none();
    return nb::cast(dim.eval([&](Dim symbol) { return key_[position(symbol)]; }));
  }

  void add(const program::Step& step, const program::Launch& launch) {
    nb::dict out = entry(step, "launch", launch.name);
    out["grid"] = value(launch.grid);
    out_.append(out);
  }
  void add(const program::Step& step, const program::Copy& copy) {
    nb::dict out = entry(step, "copy", "copy");
    out["bytes"] = value(copy.bytes);
    out_.append(out);
  }
  void add(const program::Step& step, const program::Fill& fill) {
    nb::dict out = entry(step, "fill", "fill");
    out["bytes"] = value(fill.bytes);
    out_.append(out);
  }
  void add(const program::Step& step, const program::Call& call) {
    out_.append(entry(step, "call", call.name));
  }
  void add(const program::Step& step, const program::Bind& bind) {
    out_.append(entry(step, "bind", bind.symbol.text()));
  }
  void add(const program::Step& step, const program::If& branch) {
    out_.append(entry(step, "if", "if"));
    add_segment(branch.then_segment);
    add_segment(branch.else_segment);
  }
  void add(const program::Step& step, const program::While& loop) {
    out_.append(entry(step, "while", "while"));
    add_segment(loop.condition_segment);
    add_segment(loop.body_segment);
  }
  void add(const program::Step& step, const program::Record& record) {
    nb::dict out = entry(step, "record", "record");
    out["event"] = record.event;
    out_.append(out);
  }
  void add(const program::Step& step, const program::Wait& wait) {
    nb::dict out = entry(step, "wait", "wait");
    out["event"] = wait.event;
    out_.append(out);
  }

  const program::Program& program_;
  const std::span<const std::int64_t> key_;
  nb::list out_;
};

}  // namespace

nb::list steps_of(const program::Program& program, std::span<const std::int64_t> key) {
  return StepList(program, key).of_main();
}

}  // namespace gex::python
