#include "emit/boundary.hpp"

#include <algorithm>
#include <unordered_map>

#include "emit/in_place.hpp"
#include "ops/call.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

void Boundary::define_inputs() {
  std::vector<Dim> known;
  auto learn = [&](Dim d) {
    std::vector<Dim> symbols;
    d.collect_symbols(symbols);
    for (Dim s : symbols) {
      if (std::find(known.begin(), known.end(), s) == known.end()) known.push_back(s);
    }
  };
  for (const Signature::Input& slot : state_.signature.inputs) {
    program::InputDesc input;
    input.name = slot.name;
    if (slot.graph_input < 0) {
      input.kind = program::InputDesc::Kind::integer;
      input.dtype = DType::i64;
      input.value = slot.integer;
      learn(slot.integer);
    } else {
      Value* value = state_.graph.inputs()[static_cast<std::size_t>(slot.graph_input)].get();
      if (frozen_.is_frozen(value)) continue;
      const Type& type = value->type();
      BufferDesc desc = describe(type, BufferDesc::Kind::input, value->name());
      desc.slot = static_cast<int>(state_.program.inputs.size());
      input.dtype = type.dtype;
      input.shape = type.shape;
      input.strides = desc.strides;
      input.released = slot.released;
      if (input.name.empty()) input.name = value->name();
      input.buffer = memory_.add(std::move(desc));
      state_.buffers[value] = input.buffer;
      for (Dim d : type.shape) learn(d);
      for (Dim d : type.strides.value_or(std::vector<Dim>{})) learn(d);
    }
    state_.program.inputs.push_back(std::move(input));
  }
  state_.program.symbols = known;
  frozen_.define();
}

// Outputs that are views of inputs are returned as such views, unless the input is written.
std::unordered_set<const Value*> Boundary::choose_views() {
  std::unordered_set<const Value*> computed, views;
  for (const Signature::Output& slot : state_.signature.outputs) {
    if (slot.own_memory)
      computed.insert(state_.graph.outputs()[static_cast<std::size_t>(slot.graph_output)]);
  }
  for (const Tie& tie : state_.graph.ties()) {
    Value* value = state_.graph.outputs()[static_cast<std::size_t>(tie.output)];
    const Node* scatter = scatter_under(state_.graph, tie);
    // The result of an in-place scatter is already in its input's memory; otherwise it is copied.
    if (scatter != nullptr && scatter->output() != value && !computed.contains(value))
      views.insert(value);
    computed.insert(value);
  }
  for (Value* value : state_.graph.outputs()) {
    if (value->is_input() || computed.count(value) != 0) continue;
    auto view = lower::resolve_view(value);
    if (view && view->base->is_input() && !frozen_.is_frozen(view->base) &&
        !is_written(view->base) && view->strides == lower::memory_strides(*value))
      views.insert(value);
  }
  return views;
}

// Whether a tie gives the input new contents: then its old contents need a copy if they are
// returned.
bool Boundary::is_written(const Value* input) const {
  return std::any_of(state_.graph.ties().begin(), state_.graph.ties().end(), [&](const Tie& tie) {
    return tie.input == input->index() &&
           state_.graph.outputs()[static_cast<std::size_t>(tie.output)] != input;
  });
}

void Boundary::define_outputs(const Units& units) {
  OutputSources sources;
  for (const lower::Unit& unit : units) {
    if (unit.kind != lower::Unit::Kind::step || !ops::is_call(*unit.anchor)) continue;
    for (std::size_t k = 0; k < unit.anchor->num_outputs(); ++k)
      if (written_operand(unit.anchor->output(k)) == nullptr)
        sources.from_calls.insert(unit.anchor->output(k));
  }
  for (const Tie& tie : state_.graph.ties()) {
    const Value* value = state_.graph.outputs()[static_cast<std::size_t>(tie.output)];
    const Value& input = *state_.graph.inputs()[static_cast<std::size_t>(tie.input)];
    if (lower::memory_strides(*value) == lower::memory_strides(input))
      sources.tied_to.emplace(value, tie.input);
  }
  for (const Signature::Output& slot : state_.signature.outputs) {
    program::OutputDesc output;
    if (slot.kind == Signature::Output::Kind::tensor) {
      output = tensor_output(slot, sources);
    } else {
      const bool integer = slot.kind == Signature::Output::Kind::integer;
      output.kind = integer ? program::OutputDesc::Kind::integer : program::OutputDesc::Kind::none;
      output.value = slot.integer;
    }
    state_.program.outputs.push_back(std::move(output));
  }
}

program::OutputDesc Boundary::tensor_output(const Signature::Output& slot, OutputSources& sources) {
  using Kind = program::OutputDesc::Kind;
  const int number = static_cast<int>(state_.program.outputs.size());
  Value* value = state_.graph.outputs()[static_cast<std::size_t>(slot.graph_output)];
  const Type& type = value->type();
  program::OutputDesc output;
  output.name = value->name();
  output.dtype = type.dtype;
  output.shape = type.shape;
  output.strides = type.strides.value_or(std::vector<Dim>{});
  const auto add_memory = [&] {
    BufferDesc desc = describe(type, BufferDesc::Kind::output, value->name());
    desc.slot = number;
    return memory_.add(std::move(desc));
  };
  const auto view = lower::resolve_view(value);
  const bool of_input = view && view->base->is_input();
  const bool is_window =
      of_input && !frozen_.is_frozen(view->base) && view->strides == lower::memory_strides(*value);
  const bool shared = state_.buffers.contains(value) || sources.given.contains(value);
  const bool old_contents = of_input && is_written(view->base);
  const bool own_memory = slot.own_memory || frozen_.is_frozen(value) ||
                          (old_contents && !sources.tied_to.contains(value)) ||
                          (value->is_input() && is_written(value));
  if (own_memory && (shared || !sources.from_calls.contains(value))) {
    output.buffer = add_memory();
    if (value->is_input()) {
      copy_to_output(value, output.buffer);  // before anything may overwrite the input
    } else if (shared) {
      output_copies_.push_back({value, output.buffer});
    } else {
      state_.buffers[value] = output.buffer;
    }
  } else if (auto tied = sources.tied_to.find(value);
             tied != sources.tied_to.end() && !slot.own_memory) {
    output.kind = Kind::input_view;
    output.input = slot_of_input(tied->second);
  } else if (is_window) {
    output.kind = Kind::input_view;
    output.input = slot_of_input(view->base->index());
    output.offset = view->offset;
  } else if (auto earlier = sources.given.find(value); earlier != sources.given.end()) {
    output.kind = Kind::output_view;
    output.input = earlier->second;
  } else if (sources.from_calls.contains(value)) {
    output.kind = Kind::external;
  } else {
    output.buffer = add_memory();
    state_.buffers[value] = output.buffer;
  }
  sources.given.emplace(value, number);
  return output;
}

int Boundary::slot_of_input(int graph_input) const {
  const Value* value = state_.graph.inputs()[static_cast<std::size_t>(graph_input)].get();
  const BufferId buffer = state_.buffers.at(value);
  for (std::size_t k = 0; k < state_.program.inputs.size(); ++k)
    if (state_.program.inputs[k].buffer == buffer) return static_cast<int>(k);
  GEX_CHECK(false, "graph input ", graph_input, " is not in the signature");
  return -1;
}

void Boundary::copy_to_output(Value* value, BufferId output) {
  Operand from = memory_.operand(value);
  launches_.copy(output, lower::memory_strides(*value), from.buffer, from.strides, from.offset,
                 value->type(), "output");
}

void Boundary::finish_outputs() {
  for (const OutputCopy& copy : output_copies_) copy_to_output(copy.value, copy.output);
  for (std::size_t k = 0; k < state_.program.outputs.size(); ++k) {
    program::OutputDesc& output = state_.program.outputs[k];
    if (output.kind != program::OutputDesc::Kind::external) continue;
    output.buffer = state_.buffers.at(
        state_.graph.outputs()[static_cast<std::size_t>(state_.signature.outputs[k].graph_output)]);
  }
}

bool Boundary::copies(const Value* value) const {
  return std::ranges::any_of(output_copies_,
                             [&](const OutputCopy& copy) { return lies_in(copy.value, value); });
}

}  // namespace gex::emit
