// What the importer knows about values before anything runs: numbers that depend only on constants,
// and small integer tensors whose elements are expressions over size symbols.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/import_state.hpp"
#include "interp/interp.hpp"
#include "ops/core/attributes.hpp"
#include "ops/core/build.hpp"

namespace gex::onnx {
namespace {

constexpr std::int64_t kLargestList = 4096;  // elements of a symbolic list

bool has_symbols(const AttrValue& value) {
  if (const auto* dim = std::get_if<Dim>(&value)) return !dim->is_const();
  if (const auto* dims = std::get_if<std::vector<Dim>>(&value))
    return std::ranges::any_of(*dims, [](Dim d) { return !d.is_const(); });
  return false;
}

bool has_fixed_type(const Value& value) {
  return !value.type().is_token() &&
         std::ranges::all_of(value.type().shape, [](Dim d) { return d.is_const(); });
}

bool can_evaluate(const Node& node) {
  const OpDef& op = node.op();
  if (op.has(Trait::effect) || op.has(Trait::control) || op.has(Trait::random)) return false;
  if (op.step == StepKind::call) return false;
  for (const AttrValue& attr : node.attrs())
    if (has_symbols(attr)) return false;
  for (std::size_t k = 0; k < node.num_outputs(); ++k)
    if (!has_fixed_type(*node.output(k))) return false;
  return true;
}

Type type_of(const HostTensor& tensor) {
  return Type::tensor(tensor.dtype(), Shape(tensor.shape().begin(), tensor.shape().end()));
}

// Runs a single op on these inputs.
std::vector<HostTensor> run_one(const Node& node, std::span<const HostTensor* const> inputs) {
  Graph graph("one");
  std::vector<Value*> values;
  std::vector<HostTensor> tensors;
  for (const HostTensor* input : inputs) {
    if (input == nullptr) {
      values.push_back(nullptr);
      continue;
    }
    values.push_back(graph.add_input(type_of(*input)));
    tensors.push_back(*input);
  }
  const Node* copy = graph.add(node.op(), values, node.attrs());
  std::vector<Value*> outputs;
  for (std::size_t k = 0; k < copy->num_outputs(); ++k) outputs.push_back(copy->output(k));
  graph.set_outputs(outputs);
  return interp::interpret(graph, tensors);
}

bool is_movement(const Node& node) {
  const OpDef& op = node.op();
  return op.has(Trait::view) || op.has(Trait::concatenation) ||
         (op.indices != nullptr && !op.has(Trait::scatter));
}

}  // namespace

const HostTensor* ImportState::known(Value* value) {
  if (const auto found = known_.find(value); found != known_.end())
    return found->second ? &*found->second : nullptr;
  if (value->is_input()) {
    for (const auto& [input, tensor] : import.weights)
      if (&value->graph() == import.graph.get() && input == value->index()) return tensor.get();
    known_[value] = std::nullopt;
    return nullptr;
  }
  // Producers first, without recursion, because chains of constants may be long.
  std::vector<Value*> stack{value};
  while (!stack.empty()) {
    Value* top = stack.back();
    if (known_.contains(top)) {
      stack.pop_back();
      continue;
    }
    if (top->is_input()) {
      stack.pop_back();
      known(top);
      continue;
    }
    const Node& node = *top->producer();
    bool possible = can_evaluate(node), ready = true;
    if (possible) {
      for (Value* input : node.inputs()) {
        if (input == nullptr) continue;
        if (input->is_input()) {
          possible &= known(input) != nullptr;
        } else if (const auto found = known_.find(input); found == known_.end()) {
          stack.push_back(input);
          ready = false;
        } else {
          possible &= found->second.has_value();
        }
        if (!possible) break;
      }
    }
    if (!possible) {
      // Inputs pushed for it are popped later; evaluating them is harmless.
      known_[top] = std::nullopt;
      continue;
    }
    if (ready) known_[top] = evaluate(node, static_cast<std::size_t>(top->index()));
  }
  const auto& found = known_[value];
  return found ? &*found : nullptr;
}

std::optional<HostTensor> ImportState::evaluate(const Node& node, std::size_t output) {
  std::vector<const HostTensor*> inputs;
  for (Value* input : node.inputs()) inputs.push_back(input == nullptr ? nullptr : known(input));
  std::vector<HostTensor> results = run_one(node, inputs);
  return std::move(results[output]);
}

// --- symbolic integers -------------------------------------------------------------------------

std::optional<std::vector<Dim>> ImportState::known_dims(Value* value) {
  if (const auto found = dims_.find(value); found != dims_.end()) return found->second;
  auto result = symbolic(value);
  dims_[value] = result;
  return result;
}

std::optional<std::vector<Dim>> ImportState::symbolic(Value* value) {
  const auto count = value->type().numel().as_const();
  if (!count || *count > kLargestList) return std::nullopt;
  // Also integers stored as floats: exporters compute sizes in floats.
  const bool is_real = gex::is_float(value->type().dtype);
  if (const HostTensor* tensor = known(value)) {
    std::vector<Dim> dims;
    for (std::int64_t k = 0; k < *count; ++k) {
      const double real = is_real ? tensor->get(k) : 0;
      if (is_real && !(real == std::floor(real) && std::abs(real) < 1e15)) return std::nullopt;
      dims.emplace_back(is_real ? static_cast<std::int64_t>(real) : tensor->get_int(k));
    }
    return dims;
  }
  if (value->is_input()) return std::nullopt;
  const Node& node = *value->producer();
  if (node.is("dim")) return std::vector<Dim>{node.as<ops::OneDim>().size};
  if (node.op().step == StepKind::bind) return std::nullopt;
  if (node.is("cast") || node.is("floor") || node.is("ceil") || node.is("round"))
    return known_dims(node.input(0));
  if (is_movement(node) && has_fixed_type(*value)) return moved_dims(node);
  return arithmetic_dims(node);
}

// Runs the op on element numbers instead of the elements: the result shows where each element went.
std::optional<std::vector<Dim>> ImportState::moved_dims(const Node& node) {
  const bool indexed = node.op().indices != nullptr;
  std::vector<HostTensor> numbers;
  std::vector<Dim> all;
  numbers.reserve(node.inputs().size());
  std::vector<const HostTensor*> inputs;
  for (std::size_t k = 0; k < node.inputs().size(); ++k) {
    Value* input = node.input(k);
    if (input == nullptr || !has_fixed_type(*input)) return std::nullopt;
    if (indexed && k > 0) {
      inputs.push_back(known(input));
      if (inputs.back() == nullptr) return std::nullopt;
      continue;
    }
    const auto dims = known_dims(input);
    if (!dims) return std::nullopt;
    std::vector<std::int64_t> shape;
    for (const Dim d : input->type().shape) shape.push_back(d.constant());
    HostTensor& tensor = numbers.emplace_back(input->type().dtype, shape);
    if (all.size() + dims->size() > 127 && tensor.dtype() != DType::i64) return std::nullopt;
    for (std::size_t e = 0; e < dims->size(); ++e)
      tensor.set_int(static_cast<std::int64_t>(e), static_cast<std::int64_t>(all.size() + e));
    all.insert(all.end(), dims->begin(), dims->end());
  }
  for (const HostTensor& tensor : numbers) {
    // The number tensors replace the operands that are not indices.
    inputs.insert(inputs.begin() + (&tensor - numbers.data()), &tensor);
  }
  for (const AttrValue& attr : node.attrs())
    if (has_symbols(attr)) return std::nullopt;
  const std::vector<HostTensor> results = run_one(node, inputs);
  std::vector<Dim> moved;
  for (std::int64_t k = 0; k < results[0].numel(); ++k)
    moved.push_back(all[static_cast<std::size_t>(results[0].get_int(k))]);
  return moved;
}

namespace {

// Element `linear` of the broadcast shape in an operand of another.
std::size_t broadcast_place(const Shape& operand, const Shape& result, std::int64_t linear) {
  std::int64_t place = 0, stride = 1;
  for (std::size_t d = 0; d < result.size(); ++d) {
    const std::int64_t size = result[result.size() - 1 - d].constant();
    const std::int64_t at = linear % std::max<std::int64_t>(size, 1);
    linear /= std::max<std::int64_t>(size, 1);
    if (d >= operand.size()) continue;
    const std::int64_t own = operand[operand.size() - 1 - d].constant();
    if (own != 1) place += at * stride;
    stride *= own;
  }
  return static_cast<std::size_t>(place);
}

}  // namespace

std::optional<std::vector<Dim>> ImportState::arithmetic_dims(const Node& node) {
  if (!has_fixed_type(*node.output())) return std::nullopt;
  std::vector<std::vector<Dim>> operands;
  for (Value* input : node.inputs()) {
    if (input == nullptr || !has_fixed_type(*input)) return std::nullopt;
    auto dims = known_dims(input);
    if (!dims) return std::nullopt;
    operands.push_back(std::move(*dims));
  }
  const std::string& op = node.op().name;
  const Shape& shape = node.output()->type().shape;
  const std::int64_t count = node.output()->type().numel().constant();
  if (op == "reduce_prod" && count == 1) return std::vector<Dim>{product(operands[0])};
  if (op == "reduce_sum" && count == 1) {
    Dim sum;
    for (const Dim d : operands[0]) sum += d;
    return std::vector<Dim>{sum};
  }
  const auto at = [&](std::size_t k, std::int64_t linear) {
    return operands[k][broadcast_place(node.input(k)->type().shape, shape, linear)];
  };
  std::vector<Dim> result;
  for (std::int64_t e = 0; e < count; ++e) {
    std::optional<Dim> element;
    if (op == "neg") {
      element = -at(0, e);
    } else if (op == "where") {
      if (const auto flag = at(0, e).as_const()) element = *flag != 0 ? at(1, e) : at(2, e);
    } else if (node.op().on_sizes != nullptr) {
      element = node.op().on_sizes(at(0, e), at(1, e));
    }
    if (!element) return std::nullopt;
    result.push_back(*element);
  }
  return result;
}

namespace {

bool depends_on_sizes_alone(Value* value) {
  std::set<Value*> seen;
  std::vector<Value*> stack{value};
  while (!stack.empty()) {
    Value* top = stack.back();
    stack.pop_back();
    if (!seen.insert(top).second) continue;
    if (top->is_input() || !top->producer()->op().has(Trait::pure) ||
        top->producer()->op().step == StepKind::call)
      return false;
    for (Value* input : top->producer()->inputs())
      if (input != nullptr) stack.push_back(input);
  }
  return true;
}

bool has_unknown_sizes(const Graph& graph) {
  return std::ranges::any_of(graph.inputs(), [](const auto& input) {
    return std::ranges::any_of(input->type().shape, [](Dim size) { return !size.as_const(); });
  });
}

}  // namespace

const HostTensor& ImportState::need(Value* value, const std::string& why) {
  if (const HostTensor* tensor = known(value)) return *tensor;
  // Checked before the next answer is taken: answers are for values of the outermost graph.
  if (is_nested()) throw InnerValueNeeded{why};
  if (answered_ < options.answers.size()) {
    // Values that were unknown before may depend on it.
    std::erase_if(known_, [](const auto& entry) { return !entry.second; });
    std::erase_if(dims_, [](const auto& entry) { return !entry.second; });
    return *(known_[value] = options.answers[answered_++]);
  }
  // Without unknown sizes such a value is a constant that was too large to fold: it is computed.
  if (has_unknown_sizes(*import.graph) && depends_on_sizes_alone(value))
    fail(ErrorCode::unsupported, why, " depends on unknown sizes");
  import.graph->set_outputs({value});
  throw ValueNeeded{nullptr, why};
}

}  // namespace gex::onnx
