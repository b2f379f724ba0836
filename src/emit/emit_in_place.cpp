// Writing over memory that holds what nobody reads any more: inputs that the graph gives new
// contents, temporaries, operands that calls change.

#include <algorithm>

#include "emit/emitter.hpp"
#include "loop/body.hpp"
#include "loop/single_op.hpp"
#include "lower/cluster.hpp"
#include "ops/call.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

namespace {

// The value in whose memory this one lies.
const Value* base_of(Value* value) {
  auto view = lower::resolve_view(value);
  return view ? view->base : value;
}

// Whether a step that takes the value as an operand reads the memory of the other: a view is read
// where its base lies, or where it was copied to.
bool lies_in(Value* value, const Value* memory) {
  return value == memory || base_of(value) == memory;
}

bool reads_as_operand(const lower::Unit& unit, const Value* value) {
  if (unit.anchor == nullptr) return false;
  for (const lower::Prologue& prologue : unit.prologues)
    if (std::find(prologue.inputs.begin(), prologue.inputs.end(), value) != prologue.inputs.end())
      return true;
  return std::any_of(unit.anchor->inputs().begin(), unit.anchor->inputs().end(),
                     [&](Value* operand) { return operand != nullptr && lies_in(operand, value); });
}

// Whether a call whose result `value` is may have changed that operand where `memory` lies: its
// other operands do not lie there, and what it is given is not another view of it.
bool call_can_write(const Node& call, const Value* value, const Value* memory) {
  Value* changed = written_operand(value);
  if (changed == nullptr) return false;
  if (lower::memory_strides(*value) != lower::memory_strides(*memory)) return false;
  const auto there = std::count_if(call.inputs().begin(), call.inputs().end(), [&](Value* operand) {
    return operand != nullptr && !operand->type().is_token() && lies_in(operand, memory);
  });
  return there == (changed == memory ? 1 : 0);
}

// Whether the value is all of the other's memory, element by element in order.
bool is_reshape_of(Value* value, const Value* other) {
  auto view = lower::resolve_view(value);
  return view && view->base == other && view->offset == Dim(0) &&
         view->strides == dense_strides(value->type().shape) &&
         lower::memory_strides(*other) == dense_strides(other->type().shape) &&
         value->type().bytes() == other->type().bytes();
}

}  // namespace

bool reads(const lower::Unit& unit, const Value* value) {
  return std::find(unit.inputs.begin(), unit.inputs.end(), value) != unit.inputs.end() ||
         reads_as_operand(unit, value);
}

std::optional<std::size_t> writer_of(const std::vector<lower::Unit>& units, const Value* value) {
  for (std::size_t u = 0; u < units.size(); ++u)
    if (std::ranges::find(units[u].outputs, value) != units[u].outputs.end()) return u;
  return std::nullopt;
}

// A scatter into a reshaped input whose reshaped result is the input's new contents; null if the
// tie is none.
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

bool Emitter::place_scatter(const std::vector<lower::Unit>& units, const Tie& tie) {
  const Node* node = scatter_under(graph_, tie);
  Value* value = graph_.outputs()[static_cast<std::size_t>(tie.output)];
  Value* input = graph_.inputs()[static_cast<std::size_t>(tie.input)].get();
  if (node == nullptr || buffers_.contains(value) || buffers_.contains(node->output()))
    return false;
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const lower::Unit& u) { return u.anchor == node; });
  if (unit == units.end() || std::any_of(unit + 1, units.end(), [&](const lower::Unit& later) {
        return reads(later, input);
      }))
    return false;
  if (!copy_before(units, static_cast<std::size_t>(unit - units.begin()), input)) return false;
  for (Value* same : {value, node->output(), node->input(0)})
    if (!same->is_input()) buffers_[same] = buffers_.at(input);
  return true;
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

bool Emitter::read_after(const std::vector<lower::Unit>& units, std::size_t position,
                         const Value* value) const {
  const auto ends_as = [&](Value* copied) { return lies_in(copied, value); };
  return std::any_of(tie_copies_.begin(), tie_copies_.end(),
                     [&](const TieCopy& copy) { return ends_as(copy.value); }) ||
         std::any_of(output_copies_.begin(), output_copies_.end(),
                     [&](const OutputCopy& copy) { return ends_as(copy.value); }) ||
         std::any_of(units.begin() + static_cast<std::ptrdiff_t>(position) + 1, units.end(),
                     [&](const lower::Unit& unit) { return reads(unit, value); });
}

// What a call changes is computed where its new contents belong, last call first: chains of such
// calls then work in one place. Where that fails the call gets a copy.
void Emitter::place_written(const std::vector<lower::Unit>& units) {
  if (!options_.overwrite_temps) return;
  for (std::size_t u = units.size(); u-- > 0;) {
    if (units[u].kind != lower::Unit::Kind::step || !ops::is_call(*units[u].anchor)) continue;
    const Node& call = *units[u].anchor;
    for (std::size_t k = 0; k < call.num_outputs(); ++k) {
      Value* result = call.output(k);
      Value* changed = written_operand(result);
      if (changed == nullptr || buffers_.count(changed) != 0 || base_of(changed) != changed)
        continue;
      const bool own_memory =
          !lower::is_free(*changed->producer()) &&
          (!ops::is_call(*changed->producer()) || written_operand(changed) != nullptr);
      if (!own_memory || read_after(units, u, changed) || !call_can_write(call, result, changed))
        continue;
      const BufferId target = buffer_of(result);
      Value* input = input_at(target);
      if (input != nullptr && (is_copied(input) || !can_write_in_place(units, changed, input)))
        continue;
      buffers_[changed] = target;
      ++in_place_;
    }
  }
}

Value* Emitter::input_at(BufferId id) const {
  for (const auto& input : graph_.inputs()) {
    auto found = buffers_.find(input.get());
    if (found != buffers_.end() && found->second == id) return input.get();
  }
  return nullptr;
}

bool Emitter::can_write_in_place(const std::vector<lower::Unit>& units, Value* value,
                                 Value* input) const {
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
  if (unit.kind == lower::Unit::Kind::contraction && reads_as_operand(unit, input)) return false;
  auto at = std::find(unit.inputs.begin(), unit.inputs.end(), input);
  if (at == unit.inputs.end()) return true;
  // The kernel reads the old value itself: only at the very element it writes, and never after
  // that.
  int first = unit.kind == lower::Unit::Kind::contraction ? 1 : 0;
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

void Emitter::emit_scatter(const lower::Unit& unit, const std::vector<lower::Unit>& units,
                           std::size_t position) {
  const Node& node = *unit.anchor;
  Value* base = node.input(0);
  Value* result = node.output();
  BufferId base_buffer = materialised(base);
  bool in_place = buffers_.count(result) != 0 && buffers_.at(result) == base_buffer;
  // A temporary that dies here may be overwritten as well.
  if (options_.overwrite_temps && !in_place && buffers_.count(result) == 0 &&
      windowed_.count(base_buffer) == 0 &&
      program_.buffers[static_cast<std::size_t>(base_buffer)].kind == BufferDesc::Kind::temp &&
      program_.buffers[static_cast<std::size_t>(base_buffer)].alias_of < 0 &&
      base->producer() != nullptr && base->type() == result->type()) {
    // Copies that end the program read it last; its own other operands are read while it writes.
    bool read_later = read_after(units, position, base);
    for (std::size_t k = 1; k < node.inputs().size(); ++k)
      read_later |= node.has_input(k) && lies_in(node.input(k), base);
    if (!read_later) {
      buffers_[result] = base_buffer;
      in_place = true;
      ++in_place_;
    }
  }
  std::vector<BufferId> buffers;
  std::vector<bool> writes;
  std::vector<std::vector<Dim>> strides;  // of operands that are read as views
  for (Value* v : node.inputs()) {
    if (v == nullptr) continue;
    const Operand from = v == base ? placed(v) : operand(v);
    buffers.push_back(window(from.buffer, from.offset));
    strides.push_back(v == base ? std::vector<Dim>{} : from.strides);
    writes.push_back(in_place && v == base);
  }
  if (!in_place) {
    buffers.push_back(buffer_of(result));
    writes.push_back(true);
    program_.counters.push_back({"copies.scatter", 1});
  }
  loop::Kernel kernel = in_place ? loop::kernel_of_scatter_inplace(node) : loop::kernel_of(node);
  for (std::size_t k = 0; k < strides.size(); ++k)
    if (!strides[k].empty()) kernel.buffers[k].strides = std::move(strides[k]);
  launch(kernel, unit.label(), std::move(buffers), std::move(writes));
}

}  // namespace gex::emit
