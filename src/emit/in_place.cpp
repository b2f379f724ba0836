#include "emit/in_place.hpp"

#include <algorithm>

#include "loop/body.hpp"
#include "lower/cluster.hpp"
#include "ops/call.hpp"

namespace gex::emit {

namespace {

bool reads_as_operand(const lower::Unit& unit, const Value* value) {
  if (unit.anchor == nullptr) return false;
  for (const lower::Prologue& prologue : unit.prologues)
    if (std::find(prologue.inputs.begin(), prologue.inputs.end(), value) != prologue.inputs.end())
      return true;
  return std::any_of(unit.anchor->inputs().begin(), unit.anchor->inputs().end(),
                     [&](Value* operand) { return operand != nullptr && lies_in(operand, value); });
}

// Whether the value covers all of the other's memory, element by element in order.
bool is_reshape_of(Value* value, const Value* other) {
  auto view = lower::resolve_view(value);
  return view && view->base == other && view->offset == Dim(0) &&
         view->strides == dense_strides(value->type().shape) &&
         lower::memory_strides(*other) == dense_strides(other->type().shape) &&
         value->type().bytes() == other->type().bytes();
}

}  // namespace

const Value* base_of(Value* value) {
  auto view = lower::resolve_view(value);
  return view ? view->base : value;
}

bool lies_in(Value* value, const Value* memory) {
  return value == memory || base_of(value) == memory;
}

bool call_can_write(const Node& call, const Value* value, const Value* memory) {
  Value* changed = written_operand(value);
  if (changed == nullptr) return false;
  if (lower::memory_strides(*value) != lower::memory_strides(*memory)) return false;
  const auto there = std::count_if(call.inputs().begin(), call.inputs().end(), [&](Value* operand) {
    return operand != nullptr && !operand->type().is_token() && lies_in(operand, memory);
  });
  return there == (changed == memory ? 1 : 0);
}

bool reads(const lower::Unit& unit, const Value* value) {
  return std::find(unit.inputs.begin(), unit.inputs.end(), value) != unit.inputs.end() ||
         reads_as_operand(unit, value);
}

std::optional<std::size_t> writer_of(const Units& units, const Value* value) {
  for (std::size_t u = 0; u < units.size(); ++u)
    if (std::ranges::find(units[u].outputs, value) != units[u].outputs.end()) return u;
  return std::nullopt;
}

const Node* scatter_under(const Graph& graph, const Tie& tie) {
  Value* value = graph.outputs()[static_cast<std::size_t>(tie.output)];
  const Value* input = graph.inputs()[static_cast<std::size_t>(tie.input)].get();
  const Value* result = base_of(value);
  const Node* node = result->producer();
  if (node == nullptr || !node->op().body || !node->op().body->scatter) return nullptr;
  const bool plain = value == result && node->input(0) == input;
  if (plain || !is_reshape_of(value, result) || !is_reshape_of(node->input(0), input))
    return nullptr;
  for (std::size_t k = 1; k < node->inputs().size(); ++k)
    if (node->has_input(k) && lies_in(node->input(k), input)) return nullptr;
  return node;
}

Value* written_operand(const Value* value) {
  const Node* node = value->producer();
  if (node == nullptr || !ops::is_call(*node)) return nullptr;
  const auto attrs = node->as<ops::Call>();
  const std::size_t first = node->num_outputs() - attrs.written.size();
  for (std::size_t k = 0; k < attrs.written.size(); ++k) {
    if (node->output(first + k) == value)
      return ops::call_operands(*node)[static_cast<std::size_t>(attrs.written[k])];
  }
  return nullptr;
}

bool can_write_in_place(const Units& units, Value* value, Value* input) {
  const std::optional<std::size_t> writer = writer_of(units, value);
  if (!writer || lower::memory_strides(*value) != lower::memory_strides(*input)) return false;
  for (std::size_t u = *writer + 1; u < units.size(); ++u) {
    if (reads(units[u], input)) return false;
  }
  const lower::Unit& unit = units[*writer];
  if (unit.kind == lower::Unit::Kind::scatter) {
    if (unit.anchor->input(0) != input) return false;
    for (std::size_t k = 1; k < unit.anchor->inputs().size(); ++k) {
      Value* operand = unit.anchor->input(k);
      if (operand != nullptr && lies_in(operand, input)) return false;
    }
    return true;
  }
  if (unit.kind == lower::Unit::Kind::step) return call_can_write(*unit.anchor, value, input);
  if (unit.kind == lower::Unit::Kind::problem && reads_as_operand(unit, input)) return false;
  auto at = std::find(unit.inputs.begin(), unit.inputs.end(), input);
  if (at == unit.inputs.end()) return true;
  // The kernel itself may read the old value: only at the element that it writes, and never after
  // that.
  int first = unit.kind == lower::Unit::Kind::problem ? 1 : 0;
  int read = first + static_cast<int>(at - unit.inputs.begin());
  int written = first + static_cast<int>(unit.inputs.size()) +
                static_cast<int>(std::find(unit.outputs.begin(), unit.outputs.end(), value) -
                                 unit.outputs.begin());
  const loop::Store* store = nullptr;
  for (const loop::Stage& stage : unit.kernel.stages) {
    for (const loop::Expr& e : stage.exprs) {
      if (e.kind != loop::Expr::Kind::load || e.buffer != read) continue;
      if (store != nullptr) return false;
    }
    for (const loop::Store& s : stage.stores) {
      if (s.buffer == written) store = &s;
    }
    if (store == nullptr) continue;
    for (const loop::Stage& earlier : unit.kernel.stages) {
      for (const loop::Expr& e : earlier.exprs) {
        if (e.kind == loop::Expr::Kind::load && e.buffer == read && e.index != store->index)
          return false;
      }
      if (&earlier == &stage) break;
    }
  }
  return store != nullptr;
}

}  // namespace gex::emit
