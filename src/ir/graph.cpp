#include "ir/graph.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/suggest.hpp"
#include "ir/check_node.hpp"
#include "ir/sizes_differ.hpp"

namespace gex {
namespace {

using ValueMap = std::unordered_map<const Value*, Value*>;

Value* image_of(const ValueMap& map, const Value* value) {
  if (value == nullptr) return nullptr;
  auto it = map.find(value);
  GEX_CHECK(it != map.end(), "the copied graph uses a value before or without its definition");
  return it->second;
}

bool is_graph_output(const Value& value) {
  return std::any_of(value.uses().begin(), value.uses().end(),
                     [](const Use& use) { return use.node == nullptr; });
}

// Whether the memory layout of this value is not promised to anyone outside.
bool takes_layout(const Value& value) {
  return !value.type().strides && !value.is_input() && !is_graph_output(value);
}

}  // namespace

const AttrValue& Node::attr(std::string_view name) const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < op_->attrs.size(); ++i) {
    if (op_->attrs[i].name == name) return attrs_[i];
    names.push_back(op_->attrs[i].name);
  }
  std::string known;
  for (std::string_view n : names) known += (known.empty() ? "" : ", ") + std::string(n);
  fail(ErrorCode::not_found, op_->name, " has no attribute '", name, "'", suggestion(name, names),
       " (it has: ", known.empty() ? "none" : known, ")");
}

Graph::Graph(std::string name) : name_(std::move(name)) {}

Graph::~Graph() {
  for (Node* node = first_; node != nullptr;) {
    std::unique_ptr<Node> owned(node);
    node = node->next_;
  }
}

std::unique_ptr<Value> Graph::make_value(Graph& graph, Type type, Node* producer, int index) {
  auto value = std::make_unique<Value>();
  value->type_ = std::move(type);
  value->producer_ = producer;
  value->graph_ = &graph;
  value->index_ = index;
  return value;
}

std::unique_ptr<Node> Graph::make_node(const OpDef& op, AttrList attrs,
                                       std::vector<std::unique_ptr<Graph>> subgraphs) {
  auto node = std::make_unique<Node>();
  node->op_ = &op;
  node->attrs_ = std::move(attrs);
  node->subgraphs_ = std::move(subgraphs);
  node->graph_ = this;
  return node;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(name_);
  ValueMap image;
  auto copy_value = [&](const Value& from, Node* producer) {
    auto value = make_value(*copy, from.type_, producer, from.index_);
    value->name_ = from.name_;
    image[&from] = value.get();
    return value;
  };
  for (const auto& input : inputs_) copy->inputs_.push_back(copy_value(*input, nullptr));
  for (const Node& node : nodes()) {
    std::vector<std::unique_ptr<Graph>> subgraphs;
    for (const auto& sub : node.subgraphs_) subgraphs.push_back(sub->clone());
    std::unique_ptr<Node> made = copy->make_node(*node.op_, node.attrs_, std::move(subgraphs));
    made->location_ = node.location_;
    made->labels_ = node.labels_;
    for (const auto& out : node.outputs_) made->outputs_.push_back(copy_value(*out, made.get()));
    copy->link(made.release());
  }
  // Inputs are set in a second pass, because a graph being rewritten may be temporarily out of
  // order.
  Node* made = copy->first_;
  for (const Node& node : nodes()) {
    std::vector<Value*> inputs;
    for (const Value* value : node.inputs_) inputs.push_back(image_of(image, value));
    copy->connect(made, std::move(inputs));
    made = made->next_;
  }
  std::vector<Value*> outputs;
  for (const Value* value : outputs_) outputs.push_back(image_of(image, value));
  copy->set_outputs(std::move(outputs));
  copy->ties_ = ties_;
  copy->labels_ = labels_;
  copy->current_location_ = current_location_;
  return copy;
}

Value* Graph::add_input(Type type, std::string name) {
  inputs_.push_back(make_value(*this, std::move(type), nullptr, static_cast<int>(inputs_.size())));
  inputs_.back()->name_ = std::move(name);
  return inputs_.back().get();
}

void Graph::erase_input(int index) {
  GEX_CHECK(index >= 0 && index < static_cast<int>(inputs_.size()), "input ", index, " of graph '",
            name_, "' with ", inputs_.size(), " inputs");
  GEX_CHECK(inputs_[static_cast<std::size_t>(index)]->uses_.empty(), "input ", index, " of graph '",
            name_, "' is still used");
  for (const Tie& tie : ties_)
    GEX_CHECK(tie.input != index, "input ", index, " of graph '", name_, "' is tied to output ",
              tie.output);
  inputs_.erase(inputs_.begin() + index);
  for (std::size_t i = static_cast<std::size_t>(index); i < inputs_.size(); ++i)
    inputs_[i]->index_ = static_cast<int>(i);
  for (Tie& tie : ties_)
    if (tie.input > index) --tie.input;
}

void Graph::reorder_inputs(std::span<const int> order) {
  GEX_CHECK(order.size() == inputs_.size(), "an order of ", order.size(), " for ", inputs_.size(),
            " inputs");
  std::vector<std::unique_ptr<Value>> reordered;
  for (int from : order) {
    GEX_CHECK(from >= 0 && from < static_cast<int>(inputs_.size()) &&
                  inputs_[static_cast<std::size_t>(from)],
              "input ", from, " is out of range or listed twice");
    reordered.push_back(std::move(inputs_[static_cast<std::size_t>(from)]));
  }
  std::vector<int> new_index(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    new_index[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  for (std::size_t i = 0; i < reordered.size(); ++i) reordered[i]->index_ = static_cast<int>(i);
  for (Tie& tie : ties_) tie.input = new_index[static_cast<std::size_t>(tie.input)];
  inputs_ = std::move(reordered);
}

Node* Graph::add(const OpDef& op, std::vector<Value*> inputs, AttrList attrs,
                 std::vector<std::unique_ptr<Graph>> subgraphs) {
  std::vector<Type> types;
  try {
    // Trailing inputs may be omitted: every node of an op has the same number of inputs.
    while (inputs.size() < op.inputs.size() &&
           op.inputs[inputs.size()].arity == InputSpec::Arity::optional)
      inputs.push_back(nullptr);
    for (const Value* value : inputs)
      if (value != nullptr) check_mine(value, op.name);
    check_inputs(op, inputs);
    if (attrs.empty())
      for (const AttrField& field : op.attrs) attrs.push_back(field.default_value);
    check_attrs(op, attrs);
    types = infer_types(op, inputs, attrs, subgraphs);
  } catch (const UserError& error) {
    if (current_location_.empty()) throw;
    fail_as(error, str(error.what(), " (at ", current_location_, ")"));
  }
  std::unique_ptr<Node> node = make_node(op, std::move(attrs), std::move(subgraphs));
  node->location_ = current_location_;
  for (std::size_t i = 0; i < types.size(); ++i)
    node->outputs_.push_back(
        make_value(*this, std::move(types[i]), node.get(), static_cast<int>(i)));
  Node* added = node.release();
  link(added);
  connect(added, std::move(inputs));
  return added;
}

Node* Graph::add(std::string_view op_name, std::vector<Value*> inputs,
                 std::vector<std::pair<std::string, AttrValue>> attrs,
                 std::vector<std::unique_ptr<Graph>> subgraphs) {
  const OpDef& def = gex::op(op_name);
  AttrList list;
  for (const AttrField& field : def.attrs) list.push_back(field.default_value);
  for (const auto& [name, value] : attrs) {
    auto it = std::find_if(def.attrs.begin(), def.attrs.end(),
                           [&](const AttrField& field) { return field.name == name; });
    if (it == def.attrs.end()) {
      std::vector<std::string_view> names;
      for (const AttrField& field : def.attrs) names.push_back(field.name);
      fail(ErrorCode::invalid_argument, op_name, " has no attribute '", name, "'",
           suggestion(name, names));
    }
    std::optional<AttrValue> converted = attr_convert(value, it->default_value);
    if (!converted)
      fail(ErrorCode::invalid_argument, op_name, ": attribute '", name, "' is expected to be a ",
           attr_kind_name(it->default_value), ", got the ", attr_kind_name(value), " ",
           attr_text(value));
    list[static_cast<std::size_t>(it - def.attrs.begin())] = std::move(*converted);
  }
  return add(def, std::move(inputs), std::move(list), std::move(subgraphs));
}

void Graph::set_outputs(std::vector<Value*> outputs) {
  for (const Value* value : outputs) check_mine(value, "output");
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    drop_use(outputs_[i], {nullptr, static_cast<int>(i)});
  outputs_ = std::move(outputs);
  output_slots_.assign(outputs_.size(), 0);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    add_use(outputs_[i], {nullptr, static_cast<int>(i)});
}

void Graph::set_output(int index, Value* value) {
  GEX_CHECK(index >= 0 && index < static_cast<int>(outputs_.size()), "output ", index,
            " of graph '", name_, "' with ", outputs_.size(), " outputs");
  check_mine(value, "output");
  drop_use(outputs_[static_cast<std::size_t>(index)], {nullptr, index});
  outputs_[static_cast<std::size_t>(index)] = value;
  add_use(value, {nullptr, index});
}

void Graph::add_output(Value* value) {
  check_mine(value, "output");
  outputs_.push_back(value);
  output_slots_.push_back(0);
  add_use(value, {nullptr, static_cast<int>(outputs_.size()) - 1});
}

bool Graph::can_replace(const Value* from, const Value* to) const {
  if (!same_data_type(from->type_, to->type_)) return false;
  return !is_graph_output(*from) || from->type_.strides == to->type_.strides ||
         (from->type_.strides && takes_layout(*to));
}

void Graph::replace_all_uses(Value* from, Value* to) {
  check_mine(from, "replaced value");
  check_mine(to, "replacement");
  if (from == to) return;
  if (from->type_.strides && is_graph_output(*from) && takes_layout(*to))
    to->type_.strides = from->type_.strides;
  to->uses_.reserve(to->uses_.size() + from->uses_.size());
  for (const Use& use : from->uses_) {
    (use.node ? use.node->inputs_ : outputs_)[static_cast<std::size_t>(use.index)] = to;
    add_use(to, use);
  }
  from->uses_.clear();
}

void Graph::set_input(Node* node, int index, Value* value) {
  GEX_CHECK(node->graph_ == this, "node of another graph");
  GEX_CHECK(index >= 0 && index < static_cast<int>(node->inputs_.size()), "input ", index, " of ",
            node->op_->name, " with ", node->inputs_.size(), " inputs");
  if (value != nullptr) check_mine(value, node->op_->name);
  Value*& place = node->inputs_[static_cast<std::size_t>(index)];
  if (place != nullptr) drop_use(place, {node, index});
  place = value;
  if (value != nullptr) add_use(value, {node, index});
}

void Graph::erase(Node* node) {
  GEX_CHECK(node->graph_ == this, "node of another graph");
  for (const auto& output : node->outputs_)
    GEX_CHECK(output->uses_.empty(), "erased node is still used: ", print_node(*node));
  for (std::size_t i = 0; i < node->inputs_.size(); ++i)
    if (node->inputs_[i] != nullptr) drop_use(node->inputs_[i], {node, static_cast<int>(i)});
  if (insertion_ == node) insertion_ = node->next_;
  unlink(node);
  std::unique_ptr<Node> owned(node);
}

void Graph::move_before(Node* node, Node* at) {
  GEX_CHECK(node->graph_ == this && (at == nullptr || at->graph_ == this), "node of another graph");
  if (node == at) return;
  if (insertion_ == node) insertion_ = node->next_;
  unlink(node);
  InsertBefore here(*this, at);
  link(node);
}

Node* Graph::clone_node(const Node& node, std::vector<Value*> inputs) {
  std::vector<std::unique_ptr<Graph>> subgraphs;
  for (const auto& sub : node.subgraphs_) subgraphs.push_back(sub->clone());
  Node* copy = add(*node.op_, std::move(inputs), node.attrs_, std::move(subgraphs));
  copy->location_ = node.location_;
  copy->labels_ = node.labels_;
  for (std::size_t i = 0; i < copy->outputs_.size() && i < node.outputs_.size(); ++i) {
    copy->outputs_[i]->name_ = node.outputs_[i]->name_;
    if (same_data_type(copy->outputs_[i]->type_, node.outputs_[i]->type_))
      copy->outputs_[i]->type_ = node.outputs_[i]->type_;
  }
  return copy;
}

std::vector<Value*> Graph::inline_graph(const Graph& callee, std::span<Value* const> inputs) {
  GEX_CHECK(&callee != this, "a graph can't be inlined into itself");
  if (inputs.size() != callee.inputs_.size())
    fail(ErrorCode::invalid_argument, "graph '", callee.name_, "' takes ", callee.inputs_.size(),
         " inputs, got ", inputs.size());
  ValueMap image;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_mine(inputs[i], "inlined input");
    image[callee.inputs_[i].get()] = inputs[i];
  }
  for (const Node& node : callee.nodes()) {
    std::vector<Value*> mapped;
    for (const Value* value : node.inputs_) mapped.push_back(image_of(image, value));
    const Node* copy = clone_node(node, std::move(mapped));
    for (std::size_t i = 0; i < node.outputs_.size(); ++i)
      image[node.outputs_[i].get()] = copy->output(i);
  }
  std::vector<Value*> outputs;
  for (const Value* value : callee.outputs_) outputs.push_back(image_of(image, value));
  return outputs;
}

void Graph::connect(Node* node, std::vector<Value*> inputs) {
  node->inputs_ = std::move(inputs);
  node->use_slots_.assign(node->inputs_.size(), 0);
  for (std::size_t i = 0; i < node->inputs_.size(); ++i)
    if (node->inputs_[i] != nullptr) add_use(node->inputs_[i], {node, static_cast<int>(i)});
}

void Graph::check_mine(const Value* value, std::string_view role) const {
  if (value == nullptr) fail(ErrorCode::invalid_argument, role, ": the value is null");
  if (value->graph_ != this)
    fail(ErrorCode::invalid_argument, role, ": the value belongs to graph '", value->graph_->name_,
         "', not to '", name_, "'; pass it in as an input");
}

void Graph::link(Node* node) {
  Node* after = insertion_;
  Node* before = after ? after->prev_ : last_;
  node->prev_ = before;
  node->next_ = after;
  (before ? before->next_ : first_) = node;
  (after ? after->prev_ : last_) = node;
  ++num_nodes_;
}

void Graph::unlink(Node* node) {
  (node->prev_ ? node->prev_->next_ : first_) = node->next_;
  (node->next_ ? node->next_->prev_ : last_) = node->prev_;
  node->prev_ = node->next_ = nullptr;
  --num_nodes_;
}

std::uint32_t& Graph::slot_of(const Use& use) {
  auto index = static_cast<std::size_t>(use.index);
  return use.node ? use.node->use_slots_[index] : output_slots_[index];
}

void Graph::add_use(Value* value, Use use) {
  slot_of(use) = static_cast<std::uint32_t>(value->uses_.size());
  value->uses_.push_back(use);
}

void Graph::drop_use(Value* value, Use use) {
  std::uint32_t slot = slot_of(use);
  GEX_CHECK(slot < value->uses_.size() && value->uses_[slot] == use, "use list out of step");
  value->uses_[slot] = value->uses_.back();
  slot_of(value->uses_[slot]) = slot;
  value->uses_.pop_back();
}

}  // namespace gex
