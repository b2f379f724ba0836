// If, Loop and Scan. A branch that is known is imported alone, and a loop with few turns that are
// known is unrolled. Else they become `if` and `while` of the graph, where the types of what they
// carry allow it; what is left is decided by asking the run (ImportState::need).

#include <algorithm>

#include "frontend/onnx/expr.hpp"
#include "ops/control.hpp"

namespace gex::onnx {
namespace {

constexpr std::int64_t kUnrolled = 8;  // turns of a loop that become straight code

bool all_tensors(const Items& items) {
  return std::ranges::all_of(items, [](const Item& i) { return i.kind == Item::Kind::tensor; });
}

// An inner graph that is being built; nothing stays behind if the import of it fails.
class Inner {
 public:
  Inner(ImportState& state, const char* name)
      : state_(state), graph_(std::make_unique<Graph>(name)) {
    state_.push(*graph_);
  }
  ~Inner() {
    if (open_) state_.pop();
    if (graph_) state_.keep(std::move(graph_));  // values of it may be remembered
  }
  Graph& graph() { return *graph_; }
  std::vector<Value*> close() {
    open_ = false;
    return state_.pop().captured;
  }
  std::unique_ptr<Graph> take() { return std::move(graph_); }

 private:
  ImportState& state_;
  std::unique_ptr<Graph> graph_;
  bool open_ = true;
};

std::vector<Value*> values_of(const Items& items) {
  std::vector<Value*> values;
  for (const Item& item : items) values.push_back(item.value);
  return values;
}

// The graph's inputs behind the first `own` become those of `all`, in that order.
void take_inputs(Graph& graph, std::size_t own, const std::vector<Value*>& captured,
                 const std::vector<Value*>& all) {
  std::vector<int> order;
  for (std::size_t k = 0; k < own; ++k) order.push_back(static_cast<int>(k));
  for (Value* value : all) {
    const auto found = std::ranges::find(captured, value);
    if (found != captured.end()) {
      order.push_back(static_cast<int>(own + static_cast<std::size_t>(found - captured.begin())));
    } else {
      order.push_back(graph.add_input(value->type())->index());
    }
  }
  graph.reorder_inputs(order);
}

std::optional<Items> native_if(Row& r, Value* condition) {
  Inner yes(r.state, "then");
  Items yes_items, no_items;
  std::vector<Value*> yes_captured, no_captured;
  try {
    yes_items = r.state.import_subgraph(r.graph_attr("then_branch"), {});
    yes_captured = yes.close();
    Inner no(r.state, "else");
    no_items = r.state.import_subgraph(r.graph_attr("else_branch"), {});
    no_captured = no.close();
    bool same =
        all_tensors(yes_items) && all_tensors(no_items) && yes_items.size() == no_items.size();
    for (std::size_t k = 0; same && k < yes_items.size(); ++k)
      same = yes_items[k].elem == no_items[k].elem &&
             yes_items[k].value->type() == no_items[k].value->type();
    if (!same) return std::nullopt;
    std::vector<Value*> all = yes_captured;
    for (Value* value : no_captured)
      if (std::ranges::find(all, value) == all.end()) all.push_back(value);
    yes.graph().set_outputs(values_of(yes_items));
    no.graph().set_outputs(values_of(no_items));
    take_inputs(yes.graph(), 0, yes_captured, all);
    take_inputs(no.graph(), 0, no_captured, all);
    std::vector<std::unique_ptr<Graph>> graphs;
    graphs.push_back(yes.take());
    graphs.push_back(no.take());
    all.insert(all.begin(), condition);
    const Node* node = r.g.add(op("if"), all, AttrList{}, std::move(graphs));
    for (std::size_t k = 0; k < yes_items.size(); ++k) yes_items[k].value = node->output(k);
    return yes_items;
  } catch (const InnerValueNeeded&) {
    return std::nullopt;
  } catch (const UserError&) {
    // Perhaps only the branch that is not taken does not fit the sizes at hand.
    return std::nullopt;
  }
}

Items if_row(Row& r) {
  Value* condition = r.in(0);
  if (condition->type().rank() > 0) condition = ops::reshape(r.g, condition, {});
  if (r.state.known(condition) == nullptr)
    if (auto items = native_if(r, condition)) return *items;
  const bool holds =
      r.state.need(condition, str("If '", r.node.name, "': the condition")).get_int(0) != 0;
  return r.state.import_subgraph(r.graph_attr(holds ? "then_branch" : "else_branch"), {});
}

// --- Loop
// -----------------------------------------------------------------------------------------

struct LoopSpec {
  const GraphProto& body;
  Value* limit;      // null: none
  Value* condition;  // null: always
  Items states;
  std::size_t scans;  // outputs that are collected
};

Value* stacked(Graph& g, const std::vector<Value*>& parts) {
  std::vector<Value*> rows;
  for (Value* part : parts) rows.push_back(ops::unsqueeze(g, part, 0));
  return rows.size() == 1 ? rows[0] : ops::cat(g, rows, 0);
}

// The collected values of a loop without turns have no elements; sizes as the body declares them.
Item empty_scan(Row& r, const ValueInfo& info) {
  Shape shape{Dim(0)};
  if (info.type.shape)
    for (const auto& size : *info.type.shape) shape.emplace_back(size.value.value_or(0));
  return Item::tensor(ops::full(r.g, carrier_of(info.type.elem), 0, shape), info.type.elem);
}

Items unrolled_loop(Row& r, LoopSpec spec) {
  const std::string where = str("Loop '", r.node.name, "': ");
  std::int64_t limit = INT64_MAX;
  if (spec.limit != nullptr)
    limit = r.state.need(spec.limit, where + "the number of turns").get_int(0);
  std::vector<std::vector<Value*>> collected(spec.scans);
  std::vector<Elem> elems(spec.scans, Elem::undefined);
  for (std::int64_t turn = 0; turn < limit; ++turn) {
    if (spec.condition != nullptr &&
        r.state.need(spec.condition, where + "the condition").get_int(0) == 0)
      break;
    Items inputs{r.state.constant(HostTensor::of_i64({}, std::vector{turn}), Elem::i64),
                 r.state.constant(HostTensor::scalar(DType::boolean, 1), Elem::boolean)};
    inputs.insert(inputs.end(), spec.states.begin(), spec.states.end());
    Items outputs = r.state.import_subgraph(spec.body, inputs);
    spec.condition = outputs[0].value;
    for (std::size_t k = 0; k < spec.states.size(); ++k) spec.states[k] = outputs[k + 1];
    for (std::size_t k = 0; k < spec.scans; ++k) {
      const Item& item = outputs[1 + spec.states.size() + k];
      collected[k].push_back(item.value);
      elems[k] = item.elem;
    }
  }
  Items results = spec.states;
  for (std::size_t k = 0; k < spec.scans; ++k)
    results.push_back(collected[k].empty()
                          ? empty_scan(r, spec.body.outputs[1 + spec.states.size() + k])
                          : Item::tensor(stacked(r.g, collected[k]), elems[k]));
  return results;
}

bool same_type(const Item& a, const Item& b) {
  return a.kind == Item::Kind::tensor && b.kind == Item::Kind::tensor && a.elem == b.elem &&
         a.value->type().dtype == b.value->type().dtype &&
         a.value->type().shape == b.value->type().shape;
}

// `while` over (turn, condition, states..., buffers..., limit, captured...).
std::optional<Items> native_loop(Row& r, const LoopSpec& spec) {
  Graph& g = r.g;
  const HostTensor* turns = spec.limit != nullptr ? r.state.known(spec.limit) : nullptr;
  if (!all_tensors(spec.states) || (spec.scans > 0 && turns == nullptr)) return std::nullopt;
  Value* start = spec.condition != nullptr ? spec.condition : ops::full(g, DType::boolean, 1, {});
  Inner inner(r.state, "body");
  Graph& b = inner.graph();
  const std::size_t states = spec.states.size();
  Items inputs{Item::tensor(b.add_input(Type::tensor(DType::i64, {})), Elem::i64),
               Item::tensor(b.add_input(Type::tensor(DType::boolean, {})), Elem::boolean)};
  for (const Item& state : spec.states) {
    Type type = Type::tensor(state.value->type().dtype, state.value->type().shape);
    inputs.push_back(Item::tensor(b.add_input(type), state.elem));
  }
  std::vector<Value*> operands{ops::scalar_int(g, DType::i64, 0), start};
  for (const Item& state : spec.states) operands.push_back(state.value);
  Items outputs;
  try {
    outputs = r.state.import_subgraph(spec.body, inputs);
    for (std::size_t k = 0; k < states; ++k)
      if (!same_type(outputs[k + 1], spec.states[k])) return std::nullopt;
    for (std::size_t k = 0; k < spec.scans; ++k)
      if (outputs[1 + states + k].kind != Item::Kind::tensor) return std::nullopt;
  } catch (const InnerValueNeeded&) {
    return std::nullopt;
  }
  // Collected values need a loop that runs to its limit.
  const HostTensor* goes_on = r.state.known(outputs[0].value);
  const bool to_the_end = spec.condition == nullptr || (r.state.known(start) != nullptr &&
                                                        r.state.known(start)->get_int(0) != 0);
  const bool never_stops =
      outputs[0].value == inputs[1].value || (goes_on != nullptr && goes_on->get_int(0) != 0);
  if (spec.scans > 0 && !(to_the_end && never_stops)) return std::nullopt;

  Value* next = ops::add(b, inputs[0].value, ops::scalar_int(b, DType::i64, 1));
  Value* more = ops::reshape(b, outputs[0].value, {});
  std::vector<Value*> results{next, more};
  for (std::size_t k = 0; k < states; ++k) results.push_back(outputs[k + 1].value);
  const std::vector<Value*> captured = inner.close();
  // The captured values came in before the buffers and the limit.
  std::vector<int> order;
  for (std::size_t k = 0; k < 2 + states; ++k) order.push_back(static_cast<int>(k));
  for (std::size_t k = 0; k < spec.scans; ++k) {
    Value* item = outputs[1 + states + k].value;
    Shape shape = item->type().shape;
    shape.insert(shape.begin(), Dim(turns->get_int(0)));
    Value* buffer = b.add_input(Type::tensor(item->type().dtype, shape));
    order.push_back(buffer->index());
    results.push_back(ops::index_put(b, buffer, ops::unsqueeze(b, item, 0),
                                     {ops::reshape(b, inputs[0].value, {1})}, {0}));
    operands.push_back(ops::full(g, item->type().dtype, 0, shape));
  }
  order.push_back(b.add_input(Type::tensor(DType::i64, {}))->index());
  operands.push_back(spec.limit != nullptr ? ops::reshape(g, spec.limit, {})
                                           : ops::scalar_int(g, DType::i64, INT64_MAX));
  for (std::size_t k = 0; k < captured.size(); ++k)
    order.push_back(static_cast<int>(2 + states + k));
  operands.insert(operands.end(), captured.begin(), captured.end());
  b.set_outputs(results);
  b.reorder_inputs(order);

  auto condition = std::make_unique<Graph>("condition");
  std::vector<Value*> seen;
  for (Value* operand : operands)
    seen.push_back(
        condition->add_input(Type::tensor(operand->type().dtype, operand->type().shape)));
  Value* below = ops::lt(*condition, seen[0], seen[2 + states + spec.scans]);
  condition->set_outputs({ops::bit_and(*condition, seen[1], below)});
  std::vector<std::unique_ptr<Graph>> graphs;
  graphs.push_back(std::move(condition));
  graphs.push_back(inner.take());
  const auto carried = static_cast<std::int64_t>(2 + states + spec.scans);
  const Node* node =
      g.add(op("while"), operands, to_attr_list(ops::While{carried}), std::move(graphs));
  Items items = spec.states;
  for (std::size_t k = 0; k < states; ++k) items[k].value = node->output(2 + k);
  for (std::size_t k = 0; k < spec.scans; ++k)
    items.push_back(Item::tensor(node->output(2 + states + k), outputs[1 + states + k].elem));
  return items;
}

Items loop_row(Row& r) {
  LoopSpec spec{r.graph_attr("body"), nullptr, nullptr, {}, 0};
  if (r.has(0)) spec.limit = ops::reshape(r.g, r.in(0), {});
  if (r.has(1)) spec.condition = ops::reshape(r.g, r.in(1), {});
  for (std::size_t i = 2; i < r.num_inputs(); ++i) spec.states.push_back(r.item(i));
  spec.scans = spec.body.outputs.size() - 1 - spec.states.size();
  const HostTensor* turns = spec.limit != nullptr ? r.state.known(spec.limit) : nullptr;
  const bool few = turns != nullptr && turns->get_int(0) <= kUnrolled;
  if (!few)
    if (auto items = native_loop(r, spec)) return *items;
  return unrolled_loop(r, spec);
}

// --- Scan
// -----------------------------------------------------------------------------------------

Items scan_row(Row& r) {
  Graph& g = r.g;
  const GraphProto& body = r.graph_attr("body");
  const auto scans = static_cast<std::size_t>(r.int_attr("num_scan_inputs", 1));
  const bool batched = r.opset < 9;  // opset 8: a batch axis, and lengths as input 0
  const std::size_t first = batched ? 1 : 0;
  const std::size_t states = r.num_inputs() - first - scans;
  const std::size_t collected = body.outputs.size() - states;
  const Ints directions =
      r.ints_attr(batched ? "directions" : "scan_input_directions", Ints(scans, 0));
  const Ints axes = r.ints_attr("scan_input_axes", Ints(scans, 0));
  const Ints out_directions = r.ints_attr("scan_output_directions", Ints(collected, 0));
  const Ints out_axes = r.ints_attr("scan_output_axes", Ints(collected, 0));

  const auto run = [&](Items carried, const Items& xs) {
    std::vector<std::vector<Value*>> parts(collected);
    std::vector<Elem> elems(collected, Elem::undefined);
    std::optional<std::int64_t> length;
    for (std::size_t k = 0; k < scans; ++k) {
      const std::int64_t axis = normal_axis(axes[k], xs[k].value->type().rank());
      const auto size = xs[k].value->type().shape[static_cast<std::size_t>(axis)].as_const();
      if (!size) r.refuse("the length of the scan is not known at import");
      length = size;
    }
    for (std::int64_t t = 0; t < length.value_or(0); ++t) {
      Items inputs = carried;
      for (std::size_t k = 0; k < scans; ++k) {
        const std::int64_t axis = normal_axis(axes[k], xs[k].value->type().rank());
        const std::int64_t at = directions[k] == 0 ? t : *length - 1 - t;
        inputs.push_back(Item::tensor(ops::select(g, xs[k].value, axis, at), xs[k].elem));
      }
      Items outputs = r.state.import_subgraph(body, inputs);
      for (std::size_t k = 0; k < states; ++k) carried[k] = outputs[k];
      for (std::size_t k = 0; k < collected; ++k) {
        parts[k].push_back(outputs[states + k].value);
        elems[k] = outputs[states + k].elem;
      }
    }
    Items results = carried;
    for (std::size_t k = 0; k < collected; ++k) {
      if (parts[k].empty()) {
        results.push_back(empty_scan(r, body.outputs[states + k]));
        continue;
      }
      if (out_directions[k] != 0) std::ranges::reverse(parts[k]);
      std::vector<Value*> rows;
      const std::int64_t axis = normal_axis(out_axes[k], parts[k][0]->type().rank() + 1);
      for (Value* part : parts[k]) rows.push_back(ops::unsqueeze(g, part, axis));
      Value* all = rows.size() == 1 ? rows[0] : ops::cat(g, rows, axis);
      results.push_back(Item::tensor(all, elems[k]));
    }
    return results;
  };

  Items carried, xs;
  for (std::size_t k = 0; k < states; ++k) carried.push_back(r.item(first + k));
  for (std::size_t k = 0; k < scans; ++k) xs.push_back(r.item(first + states + k));
  if (!batched) return run(carried, xs);
  const auto batches = xs[0].value->type().shape[0].as_const();
  if (!batches || r.has(0)) r.refuse("Scan of opset 8 with lengths or an open batch size");
  std::vector<std::vector<Value*>> rows(body.outputs.size());
  Items last;
  for (std::int64_t b = 0; b < *batches; ++b) {
    const auto at = [&](Items items) {
      for (Item& item : items) item.value = ops::select(g, item.value, 0, b);
      return items;
    };
    last = run(at(carried), at(xs));
    for (std::size_t k = 0; k < last.size(); ++k) rows[k].push_back(last[k].value);
  }
  for (std::size_t k = 0; k < last.size(); ++k) last[k].value = stacked(g, rows[k]);
  return last;
}

}  // namespace

void add_control_rows() {
  add_row("If", if_row);
  add_row("Loop", loop_row);
  add_row("Scan", scan_row);
}

}  // namespace gex::onnx
