#include "check/trial.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.hpp"
#include "base/precision.hpp"
#include "compile/execute.hpp"
#include "interp/interp.hpp"
#include "ops/core/build.hpp"

namespace gex::check {
namespace {

// The effect of a few roundings; low floats are rounded only where results are stored.
double last_bit(DType dtype) { return (is_low_float(dtype) ? 1 : 4) * epsilon_of(dtype); }

HostTensor nudged(const HostTensor& tensor, Nudge nudge, std::mt19937_64& random) {
  HostTensor moved = tensor;
  if (!is_float(tensor.dtype())) return moved;
  const double step = last_bit(tensor.dtype());
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    const bool up = nudge == Nudge::up || (nudge == Nudge::either && random() % 2 == 0);
    moved.set(k, tensor.get(k) * (up ? 1 + step : 1 - step));
  }
  return moved;
}

// The coarsest rounding anywhere in the graph determines the tolerance.
double coarsest_rounding(const Graph& graph) {
  double step = last_bit(DType::f32);
  const auto see = [&](const Value& value) {
    if (!value.type().is_token() && is_float(value.type().dtype))
      step = std::max(step, last_bit(value.type().dtype));
  };
  for (const auto& input : graph.inputs()) see(*input);
  for (Node& node : graph.nodes())
    for (std::size_t k = 0; k < node.num_outputs(); ++k) see(*node.output(k));
  return step;
}

std::string place_of(const HostTensor& tensor, std::int64_t linear) {
  std::string text = "]";
  for (std::size_t d = tensor.shape().size(); d-- > 0;) {
    text = str(d > 0 ? ", " : "", linear % tensor.shape()[d], text);
    linear /= tensor.shape()[d];
  }
  return "[" + text;
}

const Tie* tie_of(const Graph& graph, std::size_t output) {
  for (const Tie& tie : graph.ties())
    if (static_cast<std::size_t>(tie.output) == output) return &tie;
  return nullptr;
}

}  // namespace

std::string Trial::text() const {
  std::string text = str("O", level, fuse ? ", fused" : ", not fused",
                         generate_code ? ", compiled" : ", kernels interpreted");
  for (const std::string& pass : disabled) text += ", without " + pass;
  return text;
}

std::string kind_of(const std::string& fault) {
  for (const char* kind : {"signal", "timed out", "refused", "runs", "bug:", "interpreter:"})
    if (fault.starts_with(kind)) return kind;
  return fault.empty() ? "" : "mismatch";
}

interp::SymbolValues sizes_of(const Graph& graph, const interp::SymbolValues& given) {
  interp::SymbolValues sizes = given;
  std::int64_t next = 5;
  for (Dim symbol : symbols_of(graph)) {
    const DimRange range = symbol.range();
    const std::int64_t size = std::clamp(next, range.lo, std::max(range.lo, range.hi));
    if (sizes.try_emplace(symbol, size).second) next += 2;
  }
  return sizes;
}

std::vector<HostTensor> draw_inputs(const Graph& graph, const interp::SymbolValues& sizes,
                                    std::uint64_t seed) {
  std::vector<HostTensor> tensors;
  for (const auto& input : graph.inputs()) {
    const Type& type = input->type();
    std::vector<std::int64_t> shape;
    for (Dim size : type.shape) shape.push_back(interp::evaluate(size, sizes));
    HostTensor tensor(type.dtype, shape);
    const std::string& name = input->name();
    std::mt19937_64 random(seed * 1000003 + std::hash<std::string>()(name));
    const bool index = name.starts_with("index");
    const bool one = name.starts_with("cut");
    for (std::int64_t k = 0; k < tensor.numel(); ++k) {
      const std::uint64_t bits = random();
      if (is_float(type.dtype)) {
        tensor.set(k, static_cast<double>(bits >> 11) * 0x1p-51 - 2);  // [-2, 2)
      } else if (type.dtype == DType::boolean) {
        tensor.set_int(k, static_cast<std::int64_t>(bits % 2));
      } else if (index || one) {
        tensor.set_int(k, one ? 1 : static_cast<std::int64_t>(bits % 3) - 1);
      } else {
        tensor.set_int(k, static_cast<std::int64_t>(bits % 7) - (type.dtype == DType::u8 ? 0 : 3));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void Reference::look_nearby(Nudge nudge) const {
  std::mt19937_64 random(nearby_.size());
  std::vector<HostTensor> moved;
  for (const HostTensor& input : inputs_) moved.push_back(nudged(input, nudge, random));
  nearby_.push_back(interp::interpret(graph_, moved));
}

void Reference::look_inside() const {
  std::mt19937_64 random(nearby_.size());
  const std::unique_ptr<Graph> noisy = graph_.clone();
  for (Node& node : noisy->nodes()) {
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      Value* value = node.output(k);
      const bool computed = !node.inputs().empty() && !node.op().has(Trait::view);
      if (!computed || value->type().is_token() || !is_float(value->type().dtype)) continue;
      const double step = last_bit(value->type().dtype);
      // One factor for all elements, so that equal elements stay equal.
      const InsertBefore here(*noisy, node.next());
      Value* moved = ops::mul(*noisy, value, random() % 2 == 0 ? 1 + step : 1 - step);
      noisy->replace_all_uses(value, moved);
      noisy->set_input(moved->producer(), 0, value);
    }
  }
  nearby_.push_back(interp::interpret(*noisy, inputs_));
}

Reference::Reference(const Graph& graph, const std::vector<HostTensor>& inputs)
    : graph_(graph), inputs_(inputs), tolerance_(8 * coarsest_rounding(graph)) {
  try {
    expected_ = interp::interpret(graph, inputs);
    for (Nudge nudge : {Nudge::up, Nudge::down, Nudge::either, Nudge::either}) look_nearby(nudge);
  } catch (const UserError& error) {
    refused_ = true;
    error_ = error.what();
  } catch (const InternalError& error) {
    error_ = error.what();
  }
}

std::optional<std::string> Reference::judge(std::size_t output, const HostTensor& got) const {
  const HostTensor& want = expected_[output];
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    return str("output ", output, " is ", got.dtype(),
               gex::text_of(Shape(got.shape().begin(), got.shape().end())), ", expected ",
               want.dtype(), gex::text_of(Shape(want.shape().begin(), want.shape().end())));
  for (std::int64_t k = 0; k < want.numel(); ++k) {
    const double a = got.get(k), b = want.get(k);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double reach = tolerance_ * (1 + std::abs(b));
    bool unstable = false;
    for (const auto& outputs : nearby_) {
      const double near = outputs[output].get(k);
      if (near == b || (std::isnan(near) && std::isnan(b))) continue;
      if (!std::isfinite(near) || !std::isfinite(b)) {
        unstable = true;
      } else {
        reach = std::max(reach, 32 * std::abs(near - b));
      }
    }
    if (unstable || std::abs(a - b) <= reach) continue;
    return str("output ", output, " at ", place_of(want, k), " is ", a, ", expected ", b);
  }
  return std::nullopt;
}

std::optional<std::string> Reference::find_fault(const Trial& trial) const {
  if (!refused_ && !error_.empty()) return "interpreter: " + error_;
  std::vector<HostTensor> given = inputs_, results;
  try {
    CompileOptions options;
    options.level = trial.level;
    options.fuse = trial.fuse;
    options.generate_code = trial.generate_code;
    options.disabled_passes = trial.disabled;
    const Compiled compiled = compile(graph_.clone(), options);
    runtime::Session session(compiled.executable, {}, compiled.specialiser);
    results = execute(session, given);
  } catch (const UserError& error) {
    if (refused_) return std::nullopt;
    return str("rejected, but the interpreter runs it: ", error.what());
  } catch (const std::exception& error) {
    return str("bug: ", error.what());
  }
  if (refused_) return str("runs, but the interpreter rejects it: ", error_);
  std::size_t next = 0;
  for (std::size_t k = 0; k < expected_.size(); ++k) {
    const Tie* tie = tie_of(graph_, k);
    const HostTensor& got = tie ? given[static_cast<std::size_t>(tie->input)] : results[next++];
    // Rounding may go in the same direction several times in a row: take more samples before
    // reporting a fault.
    for (int more = 0; more < 16 && judge(k, got); ++more) {
      look_nearby(Nudge::either);
      look_inside();
    }
    if (auto fault = judge(k, got)) return fault;
  }
  return std::nullopt;
}

std::optional<std::string> find_fault(const Graph& graph, const std::vector<HostTensor>& inputs,
                                      const Trial& trial) {
  return Reference(graph, inputs).find_fault(trial);
}

}  // namespace gex::check
