#include "frontend/fx/importer.hpp"

#include <utility>

#include "ops/call.hpp"
#include "ops/control.hpp"
#include "ops/core/build.hpp"

namespace gex::fx {
namespace {

// A row that contradicts PyTorch's fake tensors is a bug of the row, not of the user.
void check_promise(const std::string& overload, const std::vector<Value*>& values,
                   const std::vector<Type>& results) {
  GEX_CHECK(values.size() == results.size(), overload, ": row returned ", values.size(),
            " results, PyTorch's fake results are ", results.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (results[i].is_token()) continue;  // absent
    GEX_CHECK(values[i] != nullptr, overload, ": row returned nothing for result ", i);
    const Type& got = values[i]->type();
    const Type& promised = results[i];
    bool fits = got.dtype == promised.dtype && got.rank() == promised.rank();
    for (int d = 0; fits && d < got.rank(); ++d)
      fits = known_eq(got.shape[d], promised.shape[d]) != false;
    GEX_CHECK(fits, overload, ": row returned ", got, " for result ", i,
              ", PyTorch's fake result is ", promised);
  }
}

}  // namespace

Importer::Importer(std::string name) : graph_(std::make_unique<Graph>(std::move(name))) {}

Value* Importer::add_input(Type type, std::string name) {
  return graph_->add_input(std::move(type), std::move(name));
}

Value* Importer::add_constant(HostTensor tensor) {
  return ops::constant(*graph_, std::move(tensor));
}

Value* Importer::add_dim(Dim value) { return ops::dim_value(*graph_, value); }

NodeOutcome Importer::add_node(const std::string& overload, std::vector<AtenArg> args,
                               std::vector<Type> results, const std::string& location) {
  const AtenRow* row = find_aten_row(overload);
  if (row == nullptr) return {std::nullopt, "gex has no native form of it"};
  Node* last = mark();
  graph_->set_location(location);
  AtenCall call(*graph_, overload, std::move(args), std::move(results));
  try {
    std::vector<Value*> values = row->import(call);
    if (!values.empty()) {
      check_promise(overload, values, call.results());
      expected_sizes_ = call.expected_sizes();
      return {std::move(values), {}};
    }
  } catch (const UserError& error) {
    rollback(last);
    return {std::nullopt, error.what()};
  }
  rollback(last);
  return {std::nullopt, "not in this form"};
}

void Importer::rollback(Node* mark) {
  while (graph_->last() != mark) graph_->erase(graph_->last());
}

void Importer::label(Node* mark, const Labels& labels) {
  for (Node* node = mark == nullptr ? graph_->first() : mark->next(); node != nullptr;
       node = node->next()) {
    Labels all = node->labels();
    for (const auto& [name, value] : labels)
      if (find_label(all, name) == nullptr) set_label(all, name, value);
    node->set_labels(std::move(all));
  }
}

std::vector<Value*> Importer::add_call(const CallSpec& spec, const std::string& location) {
  graph_->set_location(location);
  std::vector<Type> operand_types;
  for (std::size_t i = 0; i < spec.operands.size(); ++i) {
    operand_types.push_back(spec.operands[i]->type());
    operand_types.back().strides = spec.operand_strides[i];
  }
  ops::Call attrs = ops::make_call(spec.callee, spec.name, spec.results, operand_types);
  attrs.integers = spec.integers;
  attrs.written.assign(spec.written.begin(), spec.written.end());
  std::vector<Value*> inputs = spec.operands;
  if (spec.ordered) {
    if (token_ == nullptr) token_ = ops::apply(*graph_, "token", {});
    inputs.insert(inputs.begin(), token_);
  }
  Node* node = graph_->add(op(spec.ordered ? "call_effect" : "call"), std::move(inputs), attrs);
  std::size_t first = 0;
  if (spec.ordered) token_ = node->output(first++);
  std::vector<Value*> values;
  for (std::size_t i = first; i < node->num_outputs(); ++i) values.push_back(node->output(i));
  return values;
}

Value* Importer::add_bind(Value* value, Dim symbol, const std::string& location) {
  graph_->set_location(location);
  return graph_->add(op("bind"), {value}, ops::Bind{symbol})->output();
}

std::vector<Value*> Importer::add_region_op(const char* op_name, std::vector<Value*> inputs,
                                            AttrList attrs, Importer& first, Importer& second,
                                            const std::string& location) {
  graph_->set_location(location);
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(first.finish());
  regions.push_back(second.finish());
  Node* node = graph_->add(op(op_name), std::move(inputs), std::move(attrs), std::move(regions));
  std::vector<Value*> values;
  for (std::size_t i = 0; i < node->num_outputs(); ++i) values.push_back(node->output(i));
  return values;
}

std::vector<Value*> Importer::add_if(Value* condition, std::vector<Value*> inputs, Importer& yes,
                                     Importer& no, const std::string& location) {
  inputs.insert(inputs.begin(), condition);
  return add_region_op("if", std::move(inputs), {}, yes, no, location);
}

std::vector<Value*> Importer::add_while(std::vector<Value*> inputs, int carried,
                                        Importer& condition, Importer& body,
                                        const std::string& location) {
  return add_region_op("while", std::move(inputs), to_attr_list(ops::While{carried}), condition,
                       body, location);
}

void Importer::add_check(Value* condition, const CallSpec& on_failure,
                         const std::string& location) {
  Importer holds("holds"), fails("fails");
  CallSpec call = on_failure;
  call.ordered = true;
  for (std::size_t i = 0; i < on_failure.operands.size(); ++i) {
    const Type type =
        Type::tensor(on_failure.operands[i]->type().dtype, on_failure.operands[i]->type().shape);
    holds.add_input(type, str("operand", i));
    call.operands[i] = fails.add_input(type, str("operand", i));
  }
  fails.add_call(call, location);
  add_if(condition, on_failure.operands, holds, fails, location);
}

namespace {

// "model.py:12 in forward of encoder.layer.0.attention": the part after the last " of ".
void move_locations(Graph& graph, std::string_view traced_for, std::string_view now) {
  constexpr std::string_view kOf = " of ";
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) move_locations(*subgraph, traced_for, now);
    const std::string& location = node.location();
    const std::size_t of = location.rfind(kOf);
    if (of == std::string::npos) continue;
    const std::size_t begin = of + kOf.size(), end = begin + traced_for.size();
    if (!std::string_view(location).substr(begin).starts_with(traced_for)) continue;
    if (end < location.size() && location[end] != '.') continue;
    node.set_location(str(location.substr(0, begin), now, location.substr(end)));
  }
}

}  // namespace

std::vector<Value*> Importer::add_copy_of(const Importer& body, std::vector<Value*> inputs,
                                          std::string_view traced_for, std::string_view now) {
  GEX_CHECK(body.token_ == nullptr, "calls with effects are ordered within one graph only");
  if (traced_for.empty() || traced_for == now) return graph_->inline_graph(*body.graph_, inputs);
  const std::unique_ptr<Graph> moved = body.graph_->clone();
  move_locations(*moved, traced_for, now);
  return graph_->inline_graph(*moved, inputs);
}

int Importer::add_output(Value* value, std::optional<std::vector<Dim>> strides) {
  if (strides && value->type().strides != strides) {
    // An existing layout stays: an input's, or that of the same value as another result.
    if (value->is_input() || value->type().strides) {
      value = ops::apply(*graph_, "reshape", {value}, ops::ToShape{value->type().shape});
    }
    Type type = value->type();
    type.strides = std::move(strides);
    value->set_type(std::move(type));
  }
  graph_->add_output(value);
  return static_cast<int>(graph_->outputs().size()) - 1;
}

void Importer::tie(Value* value, int input) {
  graph_->add_output(value);
  graph_->ties().push_back({static_cast<int>(graph_->outputs().size()) - 1, input});
}

std::unique_ptr<Graph> Importer::finish() {
  verify(*graph_);
  return std::exchange(graph_, nullptr);
}

}  // namespace gex::fx
