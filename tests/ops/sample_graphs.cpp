#include "sample_graphs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_map>

namespace gex::test {
namespace {

DType dtype_of(const Sample::Input& input, DType dtype) {
  switch (input.kind) {
    case Sample::Input::Kind::index:
    case Sample::Input::Kind::key:
      return DType::i64;
    case Sample::Input::Kind::flag:
      return DType::boolean;
    default:
      return dtype;
  }
}

HostTensor draw(const OpDef& op, const Sample::Input& input, DType dtype, std::int64_t size,
                unsigned seed) {
  std::vector<std::int64_t> shape;
  for (Dim d : input.shape) shape.push_back(d.eval([&](Dim) { return size; }));
  const bool index = input.kind == Sample::Input::Kind::index;
  const double low = index ? -1 : op.test.low, high = index ? 1 : op.test.high;
  const bool non_negative = dtype == DType::u8 || (op.name == "batch_norm");
  return random_tensor(dtype_of(input, dtype), shape, non_negative ? std::max(low, 0.0) : low, high,
                       seed);
}

AttrValue with_size(const AttrValue& attr, const std::function<Dim(Dim)>& sized) {
  if (const Dim* dim = std::get_if<Dim>(&attr)) return sized(*dim);
  const auto* dims = std::get_if<std::vector<Dim>>(&attr);
  if (dims == nullptr) return attr;
  std::vector<Dim> numbers;
  for (Dim d : *dims) numbers.push_back(sized(d));
  return numbers;
}

// Axes in reverse order.
std::vector<std::int64_t> reversed_axes(int rank) {
  std::vector<std::int64_t> perm;
  for (int axis = rank; axis-- > 0;) perm.push_back(axis);
  return perm;
}

HostTensor transposed(const HostTensor& x) {
  return run_one(
      [&](Graph& g, auto& v) {
        return ops::transpose(g, v[0], reversed_axes(static_cast<int>(x.shape().size())));
      },
      {x});
}

}  // namespace

std::vector<const OpDef*> computed_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops()) {
    if (op->body || op->expand) ops.push_back(op);
  }
  return ops;
}

std::unique_ptr<Graph> graph_of(const OpDef& op, DType dtype) {
  const Sample& sample = *sample_of(op);
  auto g = std::make_unique<Graph>(op.name);
  std::vector<Value*> values;
  // Ops without tensor inputs still need an input that defines s.
  g->add_input(Type::tensor(DType::f32, {kSize}));
  for (const auto& input : sample.inputs) {
    values.push_back(g->add_input(Type::tensor(dtype_of(input, dtype), input.shape)));
  }
  try {
    g->set_outputs(sample.build(*g, values));
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::type_mismatch) << op.name << ": " << error.what();
    return nullptr;
  }
  verify(*g);
  return g;
}

Tensors inputs_of(const OpDef& op, DType dtype, std::int64_t size) {
  Tensors inputs{HostTensor(DType::f32, {size})};
  unsigned seed = 1;
  for (const auto& input : sample_of(op)->inputs) {
    inputs.push_back(draw(op, input, dtype, size, seed++));
  }
  return inputs;
}

std::unique_ptr<Graph> with_size(const Graph& graph, std::int64_t size) {
  auto sized = [&](Dim d) {
    return d.substitute([&](Dim s) -> std::optional<Dim> {
      return s == kSize ? std::optional<Dim>(size) : std::nullopt;
    });
  };
  auto g = std::make_unique<Graph>(graph.name());
  std::unordered_map<const Value*, Value*> copies;
  for (const auto& input : graph.inputs()) {
    Shape shape;
    for (Dim d : input->type().shape) shape.push_back(sized(d));
    copies[input.get()] = g->add_input(Type::tensor(input->type().dtype, shape));
  }
  for (const Node& node : graph.nodes()) {
    std::vector<Value*> inputs;
    for (const Value* v : node.inputs()) inputs.push_back(v ? copies.at(v) : nullptr);
    AttrList attrs;
    for (const AttrValue& attr : node.attrs()) attrs.push_back(with_size(attr, sized));
    std::vector<std::unique_ptr<Graph>> regions;
    for (const auto& region : node.subgraphs()) regions.push_back(with_size(*region, size));
    Node* copy = g->add(node.op(), inputs, attrs, std::move(regions));
    for (std::size_t k = 0; k < node.num_outputs(); ++k) copies[node.output(k)] = copy->output(k);
  }
  for (const Value* v : graph.outputs()) g->add_output(copies.at(v));
  return g;
}

std::unique_ptr<Graph> with_transposed_inputs(const Graph& graph, Tensors& inputs) {
  auto g = std::make_unique<Graph>(graph.name());
  std::vector<Value*> values;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Type& type = graph.inputs()[k]->type();
    const Shape reversed(type.shape.rbegin(), type.shape.rend());
    Value* x = g->add_input(Type::tensor(type.dtype, reversed));
    values.push_back(type.rank() < 2 ? x : ops::transpose(*g, x, reversed_axes(type.rank())));
    inputs[k] = transposed(inputs[k]);
  }
  for (Value* v : g->inline_graph(graph, values)) g->add_output(v);
  return g;
}

}  // namespace gex::test
