// If, Loop and Scan. Only the taken branch of a known condition is imported, and a loop with few,
// known iterations is unrolled. Otherwise they become `if` and `while` of the graph if the types of
// their values allow it; the rest is decided by values from a run (ImportState::need).

#include <algorithm>

#include "frontend/onnx/expr.hpp"
#include "ops/control.hpp"

namespace gex::onnx {
namespace {

constexpr std::int64_t kUnrolledIterations = 8;  // loop iterations that are unrolled

bool all_tensors(const Items& items) {
  return std::ranges::all_of(items, [](const Item& i) { return i.kind == Item::Kind::tensor; });
}

// An inner graph under construction; nothing remains if its import fails.
class Inner {
 public:
  Inner(ImportState& state, const char* name)
      : state_(state), graph_(std::make_unique<Graph>(name)) {
    state_.push(*graph_);
  }
  ~Inner() {
    if (open_) state_.pop();
    if (graph_) state_.keep(std::move(graph_));  // known values may refer to it
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

// Reorders the graph's inputs after the first `own` to those of `all`.
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
    // Perhaps only the branch that is not taken does not match the current sizes.
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

// The collected values of a loop without iterations are empty, with the sizes that the body
// declares.
Item empty_scan(Row& r, const ValueInfo& info) {
  Shape shape{Dim(0)};
  if (info.type.shape)
    for (const auto& size : *info.type.shape) shape.emplace_back(size.value.value_or(0));
  return Item::tensor(ops::full(r.g, storage_dtype(info.type.elem), 0, shape), info.type.elem);
}

// Iteration by iteration. Requests a value that decides whether there is another iteration if
// `may_ask`; else returns nothing.
std::optional<Items> unrolled_loop(Row& r, LoopSpec spec, bool may_ask) {
  const std::string where = str("Loop '", r.node.name, "': ");
  const auto can_tell = [&](Value* v) { return may_ask || r.state.known(v) != nullptr; };
  std::int64_t limit = INT64_MAX;
  if (spec.limit != nullptr) {
    if (!can_tell(spec.limit)) return std::nullopt;
    limit = r.state.need(spec.limit, where + "the number of iterations").get_int(0);
  }
  std::vector<std::vector<Value*>> collected(spec.scans);
  std::vector<Elem> elems(spec.scans, Elem::undefined);
  for (std::int64_t turn = 0; turn < limit; ++turn) {
    if (spec.condition != nullptr) {
      if (!can_tell(spec.condition)) return std::nullopt;
      if (r.state.need(spec.condition, where + "the condition").get_int(0) == 0) break;
    }
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

Type plain_type(const Value* value) {
  return Type::tensor(value->type().dtype, value->type().shape);
}

// `while` over (iteration, condition, states..., buffers..., limit, captured...).
class NativeLoop {
 public:
  NativeLoop(Row& r, const LoopSpec& spec)
      : r_(r),
        spec_(spec),
        turns_(spec.limit != nullptr ? r.state.known(spec.limit) : nullptr),
        inner_(r.state, "body"),
        b_(inner_.graph()) {}

  // Nothing if `while` can't run this kind of loop.
  std::optional<Items> run() {
    if (!all_tensors(spec_.states) || (spec_.scans > 0 && turns_ == nullptr)) return std::nullopt;
    start_ = spec_.condition != nullptr ? spec_.condition : ops::full(r_.g, DType::boolean, 1, {});
    try {
      if (!import_body()) return std::nullopt;
    } catch (const InnerValueNeeded&) {
      return std::nullopt;
    } catch (const UserError&) {
      return std::nullopt;  // what is missing may be known per iteration
    }
    return build();
  }

 private:
  bool import_body() {
    inputs_ = {Item::tensor(b_.add_input(Type::tensor(DType::i64, {})), Elem::i64),
               Item::tensor(b_.add_input(Type::tensor(DType::boolean, {})), Elem::boolean)};
    for (const Item& state : spec_.states)
      inputs_.push_back(Item::tensor(b_.add_input(plain_type(state.value)), state.elem));
    outputs_ = r_.state.import_subgraph(spec_.body, inputs_);
    const std::size_t states = spec_.states.size();
    for (std::size_t k = 0; k < states; ++k)
      if (!same_type(outputs_[k + 1], spec_.states[k])) return false;
    for (std::size_t k = 0; k < spec_.scans; ++k)
      if (outputs_[1 + states + k].kind != Item::Kind::tensor) return false;
    return spec_.scans == 0 || runs_to_its_limit();
  }

  // Buffers for collected values have one row per iteration.
  bool runs_to_its_limit() {
    const auto is_true = [&](Value* v) {
      const HostTensor* flag = r_.state.known(v);
      return flag != nullptr && flag->get_int(0) != 0;
    };
    const bool begins = spec_.condition == nullptr || is_true(start_);
    return begins && (outputs_[0].value == inputs_[1].value || is_true(outputs_[0].value));
  }

  Items build() {
    Graph& g = r_.g;
    const std::size_t states = spec_.states.size();
    std::vector<Value*> operands{ops::scalar_int(g, DType::i64, 0), start_};
    Value* next = ops::add(b_, inputs_[0].value, ops::scalar_int(b_, DType::i64, 1));
    std::vector<Value*> results{next, ops::reshape(b_, outputs_[0].value, {})};
    for (std::size_t k = 0; k < states; ++k) {
      operands.push_back(spec_.states[k].value);
      results.push_back(outputs_[k + 1].value);
    }
    const std::vector<Value*> captured = inner_.close();
    // The captured values were added before the buffers and the limit.
    std::vector<int> order;
    for (std::size_t k = 0; k < 2 + states; ++k) order.push_back(static_cast<int>(k));
    for (std::size_t k = 0; k < spec_.scans; ++k) {
      Value* item = outputs_[1 + states + k].value;
      Shape shape = item->type().shape;
      shape.insert(shape.begin(), Dim(turns_->get_int(0)));
      Value* buffer = b_.add_input(Type::tensor(item->type().dtype, shape));
      order.push_back(buffer->index());
      results.push_back(ops::index_put(b_, buffer, ops::unsqueeze(b_, item, 0),
                                       {ops::reshape(b_, inputs_[0].value, {1})}, {0}));
      operands.push_back(ops::full(g, item->type().dtype, 0, shape));
    }
    order.push_back(b_.add_input(Type::tensor(DType::i64, {}))->index());
    operands.push_back(spec_.limit != nullptr ? ops::reshape(g, spec_.limit, {})
                                              : ops::scalar_int(g, DType::i64, INT64_MAX));
    for (std::size_t k = 0; k < captured.size(); ++k)
      order.push_back(static_cast<int>(2 + states + k));
    operands.insert(operands.end(), captured.begin(), captured.end());
    b_.set_outputs(results);
    b_.reorder_inputs(order);
    return results_of(operands);
  }

  Items results_of(const std::vector<Value*>& operands) {
    const std::size_t carried = 2 + spec_.states.size() + spec_.scans;
    auto condition = std::make_unique<Graph>("condition");
    std::vector<Value*> seen;
    for (Value* operand : operands) seen.push_back(condition->add_input(plain_type(operand)));
    Value* below = ops::lt(*condition, seen[0], seen[carried]);
    condition->set_outputs({ops::bit_and(*condition, seen[1], below)});
    std::vector<std::unique_ptr<Graph>> graphs;
    graphs.push_back(std::move(condition));
    graphs.push_back(inner_.take());
    const ops::While attrs{static_cast<std::int64_t>(carried)};
    const Node* node = r_.g.add(op("while"), operands, to_attr_list(attrs), std::move(graphs));
    Items items;
    for (std::size_t k = 2; k < carried; ++k)
      items.push_back(Item::tensor(node->output(k), outputs_[k - 1].elem));
    return items;
  }

  Row& r_;
  const LoopSpec& spec_;
  const HostTensor* turns_;
  Inner inner_;
  Graph& b_;
  Value* start_ = nullptr;
  Items inputs_, outputs_;
};

Items loop_row(Row& r) {
  LoopSpec spec{r.graph_attr("body"), nullptr, nullptr, {}, 0};
  if (r.has(0)) spec.limit = ops::reshape(r.g, r.in(0), {});
  if (r.has(1)) spec.condition = ops::reshape(r.g, r.in(1), {});
  for (std::size_t i = 2; i < r.num_inputs(); ++i) spec.states.push_back(r.item(i));
  if (spec.body.outputs.size() < 1 + spec.states.size() || spec.body.inputs.size() < 2)
    r.refuse("the body has too few inputs or outputs");
  spec.scans = spec.body.outputs.size() - 1 - spec.states.size();
  const HostTensor* turns = spec.limit != nullptr ? r.state.known(spec.limit) : nullptr;
  if (turns != nullptr && turns->get_int(0) <= kUnrolledIterations)
    if (auto items = unrolled_loop(r, spec, false)) return *items;
  if (auto items = NativeLoop(r, spec).run()) return *items;
  return *unrolled_loop(r, spec, true);
}

// --- Scan
// -----------------------------------------------------------------------------------------

class ScanLoop {
 public:
  explicit ScanLoop(Row& r) : r_(r), g_(r.g), body_(r.graph_attr("body")), batched_(r.opset < 9) {
    scans_ = static_cast<std::size_t>(r.int_attr("num_scan_inputs", 1));
    const std::size_t first = batched_ ? 1 : 0;  // opset 8: lengths as input 0, and a batch axis
    if (r.num_inputs() < first + scans_) r.refuse("too few inputs");
    states_ = r.num_inputs() - first - scans_;
    if (body_.outputs.size() < states_) r.refuse("the body has too few outputs");
    collected_ = body_.outputs.size() - states_;
    directions_ = r.ints_attr(batched_ ? "directions" : "scan_input_directions", Ints(scans_, 0));
    axes_ = r.ints_attr("scan_input_axes", Ints(scans_, 0));
    out_directions_ = r.ints_attr("scan_output_directions", Ints(collected_, 0));
    out_axes_ = r.ints_attr("scan_output_axes", Ints(collected_, 0));
    if (directions_.size() != scans_ || axes_.size() != scans_ ||
        out_directions_.size() != collected_ || out_axes_.size() != collected_)
      r.refuse("directions and axes do not match the inputs and outputs");
    for (std::size_t k = 0; k < states_; ++k) carried_.push_back(r.item(first + k));
    for (std::size_t k = 0; k < scans_; ++k) {
      r.in(first + states_ + k);  // a tensor
      xs_.push_back(r.item(first + states_ + k));
    }
  }

  Items run() {
    if (!batched_) return turns(carried_, xs_);
    const auto batches = xs_.at(0).value->type().shape[0].as_const();
    if (!batches || r_.has(0)) r_.refuse("Scan of opset 8 with lengths or an unknown batch size");
    std::vector<std::vector<Value*>> rows(body_.outputs.size());
    Items last;
    for (std::int64_t b = 0; b < *batches; ++b) {
      const auto at = [&](Items items) {
        for (Item& item : items) item.value = ops::select(g_, item.value, 0, b);
        return items;
      };
      last = turns(at(carried_), at(xs_));
      for (std::size_t k = 0; k < last.size(); ++k) rows[k].push_back(last[k].value);
    }
    for (std::size_t k = 0; k < last.size(); ++k) last[k].value = stacked(g_, rows[k]);
    return last;
  }

 private:
  std::int64_t length(const Items& xs) const {
    std::int64_t size = 0;
    for (std::size_t k = 0; k < scans_; ++k) {
      const std::int64_t axis = normal_axis(axes_[k], xs[k].value->type().rank());
      const auto known = xs[k].value->type().shape[static_cast<std::size_t>(axis)].as_const();
      if (!known) r_.refuse("the length of the scan is not known at import");
      size = *known;
    }
    return size;
  }

  Items turns(Items carried, const Items& xs) {
    std::vector<std::vector<Value*>> parts(collected_);
    std::vector<Elem> elems(collected_, Elem::undefined);
    const std::int64_t count = length(xs);
    for (std::int64_t t = 0; t < count; ++t) {
      Items inputs = carried;
      for (std::size_t k = 0; k < scans_; ++k) {
        const std::int64_t axis = normal_axis(axes_[k], xs[k].value->type().rank());
        const std::int64_t at = directions_[k] == 0 ? t : count - 1 - t;
        inputs.push_back(Item::tensor(ops::select(g_, xs[k].value, axis, at), xs[k].elem));
      }
      Items outputs = r_.state.import_subgraph(body_, inputs);
      for (std::size_t k = 0; k < states_; ++k) carried[k] = outputs[k];
      for (std::size_t k = 0; k < collected_; ++k) {
        parts[k].push_back(outputs[states_ + k].value);
        elems[k] = outputs[states_ + k].elem;
      }
    }
    for (std::size_t k = 0; k < collected_; ++k)
      carried.push_back(parts[k].empty() ? empty_scan(r_, body_.outputs[states_ + k])
                                         : Item::tensor(joined(k, parts[k]), elems[k]));
    return carried;
  }

  Value* joined(std::size_t k, std::vector<Value*> parts) {
    if (out_directions_[k] != 0) std::ranges::reverse(parts);
    const std::int64_t axis = normal_axis(out_axes_[k], parts[0]->type().rank() + 1);
    for (Value*& part : parts) part = ops::unsqueeze(g_, part, axis);
    return parts.size() == 1 ? parts[0] : ops::cat(g_, parts, axis);
  }

  Row& r_;
  Graph& g_;
  const GraphProto& body_;
  bool batched_;
  std::size_t scans_ = 0, states_ = 0, collected_ = 0;
  Ints directions_, axes_, out_directions_, out_axes_;
  Items carried_, xs_;
};

}  // namespace

void add_control_rows() {
  add_row("If", if_row);
  add_row("Loop", loop_row);
  add_row("Scan", [](Row& r) { return ScanLoop(r).run(); });
}

}  // namespace gex::onnx
