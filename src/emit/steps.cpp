#include "emit/steps.hpp"

#include <algorithm>

#include "emit/in_place.hpp"
#include "ops/call.hpp"

namespace gex::emit {

using program::BufferDesc;
using program::BufferId;

void Steps::emit(const Node& node) {
  switch (node.op().step) {
    case StepKind::constant:
      return emit_constant(node);
    case StepKind::call:
      return emit_call(node);
    case StepKind::bind:
      return emit_bind(node);
    case StepKind::branch:
      return emit_if(node);
    case StepKind::loop:
      return emit_while(node);
    case StepKind::order:
      return;
    case StepKind::none:
      fail(ErrorCode::unsupported, "op ", node.op().name,
           " has no body, no expansion and no runtime step",
           node.location().empty() ? "" : " (at " + node.location() + ")");
  }
}

void Steps::emit_constant(const Node& node) {
  BufferDesc desc;
  desc.name = "constant";
  desc.kind = BufferDesc::Kind::constant;
  desc.data = std::get<TensorPtr>(node.attr("value"));
  desc.dtype = desc.data->dtype();
  for (std::int64_t size : desc.data->shape()) desc.shape.push_back(size);
  desc.bytes = static_cast<std::int64_t>(desc.data->bytes());
  BufferId id = memory_.add(std::move(desc));
  auto output = state_.buffers.find(node.output());
  if (output == state_.buffers.end()) {
    state_.buffers[node.output()] = id;
    return;
  }
  std::vector<Dim> dense = dense_strides(node.output()->type().shape);
  launches_.copy(output->second, lower::memory_strides(*node.output()), id, dense, Dim(0),
                 node.output()->type(), "constant");
}

void Steps::emit_bind(const Node& node) {
  program::Bind bind;
  bind.symbol = std::get<Dim>(node.attr("symbol"));
  bind.buffer = launches_.materialised(node.input(0));
  state_.program.symbols.push_back(bind.symbol);
  launches_.add_step({bind, 0, {}});
  // Buffers whose sizes depend on the symbol can be placed only once it is known: start a new
  // segment.
  if (std::find(state_.program.main.begin(), state_.program.main.end(), state_.segment) !=
      state_.program.main.end()) {
    state_.segment = static_cast<int>(state_.program.segments.size());
    state_.program.segments.push_back(
        {str(state_.program.name, ".", state_.program.main.size()), {}});
    state_.program.main.push_back(state_.segment);
  }
}

namespace {

// The new contents of an operand that a call writes; null for one that it only reads.
Value* new_contents(const Node& call, std::size_t operand) {
  const auto attrs = call.as<ops::Call>();
  const std::size_t first = call.num_outputs() - attrs.written.size();
  for (std::size_t k = 0; k < attrs.written.size(); ++k)
    if (static_cast<std::size_t>(attrs.written[k]) == operand) return call.output(first + k);
  return nullptr;
}

}  // namespace

void Steps::emit_call(const Node& node) {
  auto attrs = node.as<ops::Call>();
  program::Call call;
  call.name = attrs.name;
  call.callee = static_cast<int>(attrs.callee);
  call.integers = attrs.integers;
  std::vector<std::optional<ops::Dims>> wanted = ops::operand_strides(node);
  std::span<Value* const> operands = ops::call_operands(node);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Type& type = operands[k]->type();
    std::vector<Dim> strides = wanted[k] ? *wanted[k] : dense_strides(type.shape);
    Operand at = memory_.operand(operands[k]);
    if (Value* changed = new_contents(node, k)) {
      const BufferId own = memory_.of(changed);
      if (at != Operand{own, strides, Dim(0)}) {
        launches_.copy(own, strides, at.buffer, at.strides, at.offset, type, "not_in_place");
        at = {own, strides, Dim(0)};
      }
    } else if (at.strides != strides) {
      Type copied = type;
      copied.strides = strides;
      BufferId copy = memory_.add_temp(copied, call.name);
      launches_.copy(copy, strides, at.buffer, at.strides, at.offset, type, "call");
      at = {copy, strides, Dim(0)};
    }
    call.inputs.push_back({at.buffer, type.dtype, type.shape, at.strides, at.offset});
  }
  for (std::int64_t k : attrs.written) call.written_inputs.push_back(static_cast<int>(k));
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    Value* value = node.output(k);
    if (value->type().is_token() || written_operand(value) != nullptr) continue;
    BufferId id = memory_.add_temp(value->type(), call.name);
    state_.program.buffers[static_cast<std::size_t>(id)].kind = BufferDesc::Kind::external;
    // Sizes that only the result defines.
    for (Dim size : value->type().shape) {
      auto& known = state_.program.symbols;
      if (size.is_symbol() && std::find(known.begin(), known.end(), size) == known.end())
        known.push_back(size);
    }
    state_.buffers[value] = id;
    call.outputs.push_back(id);
  }
  launches_.add_step({std::move(call), 0, {}});
}

// A subgraph as a separate segment that reads the given memory as its inputs.
int Steps::emit_region(Graph& graph, std::span<const Operand> inputs, const std::string& name) {
  GEX_CHECK(inputs.size() == graph.inputs().size(), "region ", name);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    Value* input = graph.inputs()[k].get();
    Type type = input->type();
    type.strides = inputs[k].strides;
    input->set_type(std::move(type));
    state_.buffers[input] = inputs[k].buffer;
  }
  int segment = static_cast<int>(state_.program.segments.size());
  state_.program.segments.push_back({name, {}});
  emit_graph_(graph, segment);
  return segment;
}

void Steps::emit_if(const Node& node) {
  std::vector<Operand> inputs;
  std::vector<BufferId> results;
  for (std::size_t k = 1; k < node.inputs().size(); ++k)
    inputs.push_back(launches_.placed(node.input(k)));
  program::If step;
  step.condition = launches_.materialised(node.input(0));
  for (std::size_t k = 0; k < node.num_outputs(); ++k)
    results.push_back(memory_.of(node.output(k)));
  int segments[2];
  for (std::size_t branch = 0; branch < 2; ++branch) {
    Graph& graph = *node.subgraphs()[branch];
    segments[branch] = emit_region(graph, inputs, branch == 0 ? "then" : "else");
    int saved = std::exchange(state_.segment, segments[branch]);
    for (std::size_t k = 0; k < results.size(); ++k) {
      Operand from = memory_.operand(graph.outputs()[k]);
      launches_.copy(results[k], lower::memory_strides(*node.output(k)), from.buffer, from.strides,
                     from.offset, node.output(k)->type(), "region");
    }
    state_.segment = saved;
  }
  step.then_segment = segments[0];
  step.else_segment = segments[1];
  state_.current = &node;
  launches_.add_step({step, 0, {}});
}

void Steps::emit_while(const Node& node) {
  // The state is in the results' buffers from the first iteration on.
  std::vector<Operand> state;
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    Operand from = memory_.operand(node.input(k));
    state.push_back({memory_.of(node.output(k)), lower::memory_strides(*node.output(k)), Dim(0)});
    launches_.copy(state[k].buffer, state[k].strides, from.buffer, from.strides, from.offset,
                   node.output(k)->type(), "region");
  }
  // Inputs after the state are the same in every iteration.
  for (std::size_t k = node.num_outputs(); k < node.inputs().size(); ++k) {
    state.push_back(launches_.placed(node.input(k)));
  }
  program::While step;
  Graph& condition = *node.subgraphs()[0];
  Graph& body = *node.subgraphs()[1];
  step.condition_segment = emit_region(condition, state, "condition");
  int saved = std::exchange(state_.segment, step.condition_segment);
  step.condition = launches_.materialised(condition.outputs()[0]);
  step.body_segment = emit_region(body, state, "body");
  state_.segment = step.body_segment;
  // A body may return values of the old state in other positions (a swap): they are copied before
  // any part of the state is overwritten.
  std::vector<Operand> next;
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    Value* value = body.outputs()[k];
    Operand from = memory_.operand(value);
    bool is_state = std::ranges::find(state, from.buffer, &Operand::buffer) != state.end();
    if (is_state && from != state[k]) {
      BufferId aside = memory_.add_temp(value->type(), "next");
      launches_.copy(aside, lower::memory_strides(*value), from.buffer, from.strides, from.offset,
                     value->type(), "region");
      from = {aside, lower::memory_strides(*value), Dim(0)};
    }
    next.push_back(from);
  }
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    if (next[k] == state[k]) continue;
    launches_.copy(state[k].buffer, state[k].strides, next[k].buffer, next[k].strides,
                   next[k].offset, node.output(k)->type(), "region");
  }
  state_.segment = saved;
  state_.current = &node;
  launches_.add_step({step, 0, {}});
}

}  // namespace gex::emit
