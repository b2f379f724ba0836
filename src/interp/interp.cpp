#include "interp/interp.hpp"

#include <memory>
#include <unordered_map>

#include "base/error.hpp"
#include "interp/bind_symbols.hpp"
#include "interp/eval_kernel.hpp"
#include "loop/single_op.hpp"
#include "ops/call.hpp"
#include "ops/control.hpp"
#include "ops/core/build.hpp"
#include "ops/core/reference.hpp"

namespace gex::interp {

namespace {

using Tensors = std::vector<HostTensor>;
using TensorHandle = std::shared_ptr<const HostTensor>;

class Interpreter {
 public:
  Interpreter(const InterpOptions& options, SymbolValues symbols)
      : options_(options), symbols_(std::move(symbols)) {}

  Tensors run(const Graph& graph, std::span<const TensorHandle> inputs) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      values_[graph.inputs()[k].get()] = inputs[k];
    }
    for (Node& node : graph.nodes()) run_node(node);
    Tensors results;
    for (const Value* v : graph.outputs()) results.push_back(*values_.at(v));
    return results;
  }

 private:
  void run_node(const Node& node) {
    Tensors results;
    try {
      results = compute(node);
    } catch (const UserError& error) {
      if (node.location().empty()) throw;
      throw UserError(error.code(),
                      str(error.what(), " (", node.op().name, " at ", node.location(), ")"));
    }
    GEX_CHECK(results.size() == node.num_outputs(), node.op().name, " gave ", results.size());
    if (options_.observe) options_.observe(node, results);
    for (std::size_t k = 0; k < results.size(); ++k) {
      values_[node.output(k)] = std::make_shared<const HostTensor>(std::move(results[k]));
    }
  }

  Tensors compute(const Node& node) {
    const OpDef& op = node.op();
    if (op.body) return run_body(node);
    if (op.reference != nullptr) return run_reference(node);
    if (op.expand) return run_expansion(node);
    switch (op.step) {
      case StepKind::branch:
        return run_if(node);
      case StepKind::loop:
        return run_while(node);
      case StepKind::call:
        return run_call(node);
      case StepKind::bind:
        return run_bind(node);
      default:
        fail(ErrorCode::unsupported, "the interpreter can't run '", op.name,
             "': it has no body, no expansion and no reference implementation");
    }
  }

  std::vector<TensorHandle> inputs_of(const Node& node) const {
    std::vector<TensorHandle> inputs;
    for (const Value* v : node.inputs()) inputs.push_back(v ? values_.at(v) : nullptr);
    return inputs;
  }

  HostTensor make(const Type& type) const {
    std::vector<std::int64_t> shape;
    for (Dim d : type.shape) shape.push_back(evaluate(d, symbols_));
    return HostTensor(type.is_token() ? DType::boolean : type.dtype, shape);
  }

  Tensors run_body(const Node& node) {
    loop::Kernel kernel = loop::kernel_of(node);
    for (loop::Buffer& b : kernel.buffers) b.strides.clear();  // HostTensors are dense
    Tensors outputs;
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      outputs.push_back(make(node.output(k)->type()));
    }
    std::vector<void*> buffers;
    for (const TensorHandle& t : inputs_of(node)) {
      // Kernels take the addresses of inputs and outputs alike; inputs are only read.
      if (t) buffers.push_back(const_cast<std::byte*>(t->data()));
    }
    for (HostTensor& t : outputs) buffers.push_back(t.data());
    std::vector<std::int64_t> dims;
    for (Dim s : kernel.symbols()) dims.push_back(evaluate(s, symbols_));
    eval_kernel(kernel, buffers, dims);
    return outputs;
  }

  // The op's expansion into other ops, as a separate graph.
  Tensors run_expansion(const Node& node) {
    Graph g(node.op().name);
    std::vector<Value*> placeholders;
    std::vector<TensorHandle> inputs;
    for (const Value* v : node.inputs()) {
      placeholders.push_back(v ? g.add_input(v->type()) : nullptr);
      if (v) inputs.push_back(values_.at(v));
    }
    Node* copy = g.clone_node(node, placeholders);
    const std::vector<Value*> results = ops::expand_node(g, *copy);
    g.erase(copy);
    g.set_outputs(results);
    return Interpreter(quiet(), symbols_).run(g, inputs);
  }

  Tensors run_reference(const Node& node) {
    std::vector<const HostTensor*> inputs;
    for (const Value* v : node.inputs()) inputs.push_back(v ? values_.at(v).get() : nullptr);
    return node.op().reference({node, inputs, [this](Dim d) { return evaluate(d, symbols_); }});
  }

  // Nodes inside an expansion are not the user's: the observer does not see them.
  const InterpOptions& quiet() {
    quiet_.call = options_.call;
    return quiet_;
  }

  Tensors run_if(const Node& node) {
    std::vector<TensorHandle> inputs = inputs_of(node);
    const bool condition = inputs[0]->get_int(0) != 0;
    inputs.erase(inputs.begin());
    return Interpreter(options_, symbols_).run(*node.subgraphs()[condition ? 0 : 1], inputs);
  }

  Tensors run_while(const Node& node) {
    std::vector<TensorHandle> state = inputs_of(node);
    const auto carried = static_cast<std::size_t>(node.as<ops::While>().carried);
    const Graph &condition = *node.subgraphs()[0], &body = *node.subgraphs()[1];
    while (Interpreter(options_, symbols_).run(condition, state)[0].get_int(0) != 0) {
      Tensors next = Interpreter(options_, symbols_).run(body, state);
      for (std::size_t k = 0; k < carried; ++k) {
        state[k] = std::make_shared<const HostTensor>(std::move(next[k]));
      }
    }
    Tensors results;
    for (std::size_t k = 0; k < carried; ++k) results.push_back(*state[k]);
    return results;
  }

  Tensors run_call(const Node& node) {
    const auto call = node.as<ops::Call>();
    if (!options_.call) {
      fail(ErrorCode::unsupported, "call of '", call.name,
           "' needs the host program; set InterpOptions::call");
    }
    Tensors operands;
    for (const Value* v : ops::call_operands(node)) operands.push_back(*values_.at(v));
    std::vector<std::int64_t> integers;
    for (Dim d : call.integers) integers.push_back(evaluate(d, symbols_));
    Tensors results = options_.call(node, operands, integers);
    learn_sizes(ops::result_types(call), results);
    if (node.op().has(Trait::effect)) {
      results.insert(results.begin(), HostTensor(DType::boolean, {}));
    }
    return results;
  }

  // Binds sizes that only the results of a call define.
  void learn_sizes(std::span<const Type> types, std::span<const HostTensor> results) {
    for (std::size_t k = 0; k < types.size(); ++k) {
      for (std::size_t d = 0; d < types[k].shape.size(); ++d) {
        if (types[k].shape[d].is_symbol())
          symbols_.try_emplace(types[k].shape[d], results[k].shape()[d]);
      }
    }
  }

  Tensors run_bind(const Node& node) {
    const TensorHandle x = values_.at(node.input(0));
    const std::int64_t value = x->get_int(0);
    symbols_[node.as<ops::Bind>().symbol] = value;
    HostTensor result(DType::i64, {});
    result.set_int(0, value);
    return {result};
  }

  const InterpOptions& options_;
  InterpOptions quiet_;
  SymbolValues symbols_;
  std::unordered_map<const Value*, TensorHandle> values_;
};

}  // namespace

std::vector<HostTensor> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                  const InterpOptions& options) {
  SymbolValues symbols(options.symbols.begin(), options.symbols.end());
  bind_symbols(graph, inputs, symbols);
  std::vector<TensorHandle> handles;
  for (const HostTensor& t : inputs) handles.push_back(std::make_shared<const HostTensor>(t));
  return Interpreter(options, std::move(symbols)).run(graph, handles);
}

}  // namespace gex::interp
