#include "passes/shared_tail.hpp"

#include <algorithm>
#include <optional>

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"

namespace gex::passes {
namespace {

// The operand number of a node other than `value`; -1: none.
int other_operand(const Node& node, const Value* value) {
  return node.inputs().size() == 1 ? -1 : node.input(0) == value ? 1 : 0;
}

bool is_row(const Value* row, const Value* value) {
  const Type &type = row->type(), &of = value->type();
  if (type.dtype != of.dtype || !type.numel().is_const()) return false;
  return type.numel() == Dim(1) ||
         (type.numel() == of.shape.back() && type.shape.back() == of.shape.back());
}

// Inputs and constants, and views of them, are available before every node.
bool is_there(const Value* row) {
  const Node* node = row->producer();
  if (node == nullptr) return true;
  if (node->op().has(Trait::constant) && node->inputs().empty()) return true;
  return (node->op().has(Trait::view) || node->is("cast")) && node->inputs().size() == 1 &&
         is_there(node->input(0));
}

Value* copy_of(Graph& graph, Value* row) {
  const Node* node = row->producer();
  if (node == nullptr) return row;
  std::vector<Value*> inputs;
  for (Value* input : node->inputs()) inputs.push_back(copy_of(graph, input));
  return graph.clone_node(*node, inputs)->output(static_cast<std::size_t>(row->index()));
}

// The number for which x op number is x, exactly.
std::optional<double> neutral(const OpDef& op) {
  if (op.name == "add") return -0.0;
  if (op.name == "mul") return 1.0;
  return std::nullopt;
}

bool alike(const Node& a, const Value* of_a, const Node& b, const Value* of_b) {
  return &a.op() == &b.op() && a.inputs().size() == b.inputs().size() &&
         other_operand(a, of_a) == other_operand(b, of_b) &&
         a.output()->type().dtype == b.output()->type().dtype &&
         std::equal(a.attrs().begin(), a.attrs().end(), b.attrs().begin(), b.attrs().end(),
                    attr_equal) &&
         labels_equal(a.labels(), b.labels());
}

}  // namespace

Node* only_by_columns(const Value* value) {
  if (value->uses().size() != 1 || value->uses()[0].node == nullptr) return nullptr;
  Node* node = value->uses()[0].node;
  const OpDef& op = node->op();
  if (!op.has(Trait::elementwise) || !op.has(Trait::pure) || op.has(Trait::random)) return nullptr;
  if (node->num_outputs() != 1 || node->inputs().size() > 2 || node->output()->type().strides ||
      node->output()->type().shape != value->type().shape)
    return nullptr;
  const int other = other_operand(*node, value);
  if (other < 0) return node;
  const Value* row = node->input(static_cast<std::size_t>(other));
  return row != nullptr && is_row(row, value) ? node : nullptr;
}

SharedTail::SharedTail(std::vector<Value*> starts) : ends_(std::move(starts)) {
  while (advance()) {
  }
}

bool SharedTail::advance() {
  Step step;
  const Value* of_model = nullptr;
  bool all = true;
  for (Value* end : ends_) {
    Node* node = only_by_columns(end);
    if (node != nullptr && step.model == nullptr) {
      step.model = node;
      of_model = end;
      step.row_operand = other_operand(*node, end);
    }
    if (node != nullptr && !alike(*step.model, of_model, *node, end)) node = nullptr;
    const bool reads_row = node != nullptr && step.row_operand >= 0;
    step.nodes.push_back(node);
    step.rows.push_back(reads_row ? node->input(static_cast<std::size_t>(step.row_operand))
                                  : nullptr);
    step.columns.push_back(end->type().shape.back());
    waits_ |= reads_row && !is_there(step.rows.back());
    all &= node != nullptr;
  }
  if (step.model == nullptr || waits_) return false;
  if (!all && (step.row_operand < 0 || !neutral(step.model->op()))) return false;
  for (std::size_t k = 0; k < ends_.size(); ++k)
    if (step.nodes[k] != nullptr) ends_[k] = step.nodes[k]->output();
  steps_.push_back(std::move(step));
  return true;
}

Value* SharedTail::side_by_side(Graph& graph, const Step& step, DType dtype) {
  std::vector<Value*> rows;
  for (std::size_t k = 0; k < step.rows.size(); ++k) {
    const Dim columns = step.columns[k];
    if (step.rows[k] == nullptr) {
      rows.push_back(ops::full(graph, dtype, *neutral(step.model->op()), {columns}));
      continue;
    }
    Value* row = copy_of(graph, step.rows[k]);
    const bool one_number = row->type().numel() == Dim(1);
    row = ops::reshape(graph, row, {one_number ? Dim(1) : columns});
    rows.push_back(one_number ? ops::expand(graph, row, {columns}) : row);
  }
  return ops::cat(graph, std::move(rows), 0);
}

Value* SharedTail::make(Graph& graph, Value* starts) const {
  Value* all = starts;
  for (const Step& step : steps_) {
    LabelPropagation labels(graph, graph.insertion_point());
    graph.set_location(step.model->location());
    std::vector<Value*> inputs = {all};
    if (step.row_operand >= 0)
      inputs.insert(inputs.begin() + step.row_operand,
                    side_by_side(graph, step, all->type().dtype));
    all = graph.clone_node(*step.model, inputs)->output();
    labels.apply(*step.model);
  }
  graph.set_location({});
  return all;
}

void SharedTail::erase(Graph& graph) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
    for (Node* node : step->nodes)
      if (node != nullptr) graph.erase(node);
}

}  // namespace gex::passes
