#include "frontend/python/interpreted_graph.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/strided_copy.hpp"
#include "interp/bind_symbols.hpp"
#include "interp/interp.hpp"
#include "ops/call.hpp"

namespace gex::python {
namespace {

using runtime::Host;
using runtime::InputArg;
using runtime::TensorRef;
using Numbers = std::vector<std::int64_t>;

// Calls visit(element number in dense order, element number in the strided memory).
template <class Visit>
void for_each_element(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                      const Visit& visit) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  Numbers index(shape.size(), 0);
  std::int64_t position = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, position);
    for (std::size_t d = shape.size(); d-- > 0;) {
      position += strides[d];
      if (++index[d] < shape[d]) break;
      position -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

HostTensor read(const TensorRef& ref) {
  HostTensor out(ref.dtype, {ref.shape.begin(), ref.shape.end()});
  const std::size_t size = size_of(ref.dtype);
  const auto* from = static_cast<const std::byte*>(ref.data);
  for_each_element(ref.shape, ref.strides, [&](std::int64_t i, std::int64_t at) {
    std::memcpy(out.data() + static_cast<std::size_t>(i) * size,
                from + at * static_cast<std::int64_t>(size), size);
  });
  return out;
}

void write(const HostTensor& tensor, void* data, std::span<const std::int64_t> strides) {
  const std::size_t size = size_of(tensor.dtype());
  auto* to = static_cast<std::byte*>(data);
  for_each_element(tensor.shape(), strides, [&](std::int64_t i, std::int64_t at) {
    std::memcpy(to + at * static_cast<std::int64_t>(size),
                tensor.data() + static_cast<std::size_t>(i) * size, size);
  });
}

// One run.
class Interpretation {
 public:
  Interpretation(const Graph& graph, std::span<const Dim> integers,
                 std::span<const InputArg> inputs, Host& host)
      : graph_(graph), inputs_(inputs), host_(host) {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      tensors_.push_back(read(inputs[i].tensor));
    for (std::size_t i = 0; i < integers.size(); ++i)
      options_.symbols.emplace_back(integers[i], inputs[tensors_.size() + i].integer);
    symbols_.insert(options_.symbols.begin(), options_.symbols.end());
    interp::bind_symbols(graph, tensors_, symbols_);
  }

  void run() {
    options_.call = [&](const Node& node, std::span<const HostTensor> operands,
                        std::span<const std::int64_t> integers) {
      return run_call(node, operands, integers);
    };
    const std::vector<HostTensor> results = interp::interpret(graph_, tensors_, options_);
    for (std::size_t k = 0; k < results.size(); ++k)
      learn_sizes(graph_.outputs()[k]->type().shape, results[k].shape());
    for (std::size_t k = 0; k < results.size(); ++k) deliver(k, results[k]);
  }

 private:
  // Unknown sizes are -1.
  std::int64_t value_or_unknown(Dim dim) const {
    std::vector<Dim> used;
    dim.collect_symbols(used);
    for (Dim symbol : used)
      if (!symbols_.contains(symbol)) return -1;
    return interp::evaluate(dim, symbols_);
  }

  // Binds sizes that the run has determined, from the shape of a result.
  void learn_sizes(const Shape& shape, std::span<const std::int64_t> sizes) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d].is_symbol()) symbols_.emplace(shape[d], sizes[d]);
  }

  Numbers evaluate_all(std::span<const Dim> dims) const {
    Numbers values;
    for (Dim d : dims) values.push_back(value_or_unknown(d));
    return values;
  }

  // The input that this operand of a call is, if the call may use the caller's own tensor.
  std::optional<std::size_t> input_of(const Node& node, std::size_t operand) const {
    const auto written = node.as<ops::Call>().written;
    if (std::ranges::find(written, static_cast<std::int64_t>(operand)) != written.end())
      return std::nullopt;
    const auto found = std::ranges::find(graph_.inputs(), ops::call_operands(node)[operand],
                                         &std::unique_ptr<Value>::get);
    if (found == graph_.inputs().end()) return std::nullopt;
    return static_cast<std::size_t>(found - graph_.inputs().begin());
  }

  std::vector<HostTensor> run_call(const Node& node, std::span<const HostTensor> operands,
                                   std::span<const std::int64_t> integers) {
    const auto attrs = node.as<ops::Call>();
    program::Call call;
    call.name = attrs.name;
    call.callee = static_cast<int>(attrs.callee);
    // Operands in the memory layout that the call requires.
    std::vector<std::vector<std::byte>> memory(operands.size());
    std::vector<Numbers> operand_strides(operands.size());
    const auto asked = ops::operand_strides(node);
    std::vector<TensorRef> refs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::vector<std::int64_t>& shape = operands[i].shape();
      const auto input = input_of(node, i);
      if (input && (!asked[i] ||
                    std::ranges::equal(evaluate_all(*asked[i]), inputs_[*input].tensor.strides))) {
        refs.push_back(inputs_[*input].tensor);
        refs.back().input = static_cast<int>(*input);
        continue;
      }
      operand_strides[i] = asked[i] ? evaluate_all(*asked[i]) : dense_strides_of(shape);
      const auto elements = static_cast<std::size_t>(extent_of(shape, operand_strides[i]));
      // Not empty, so that data() is not null.
      memory[i].resize(std::max<std::size_t>(elements, 1) * size_of(operands[i].dtype()));
      write(operands[i], memory[i].data(), operand_strides[i]);
      refs.push_back({memory[i].data(), operands[i].dtype(), shape, operand_strides[i]});
    }
    // Operands that the call writes are copies here: their new contents are read from those.
    std::vector<Type> types = ops::result_types(attrs);
    types.resize(types.size() - attrs.written.size());
    std::vector<Numbers> shapes, strides;
    for (const Type& type : types) {
      shapes.push_back(evaluate_all(type.shape));
      strides.push_back(evaluate_all(type.strides ? *type.strides : dense_strides(type.shape)));
    }
    std::vector<TensorRef> expected;
    for (std::size_t i = 0; i < types.size(); ++i)
      expected.push_back({nullptr, types[i].dtype, shapes[i], strides[i]});
    std::vector<Host::CallResult> results(types.size());
    host_.call(call, refs, integers, expected, results);
    for (std::size_t i = 0; i < types.size(); ++i)
      for (std::size_t d = 0; d < types[i].shape.size(); ++d)
        if (types[i].shape[d].is_symbol())
          symbols_.try_emplace(types[i].shape[d], results[i].shape[d]);
    std::vector<HostTensor> tensors;
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Numbers actual =
          evaluate_all(types[i].strides ? *types[i].strides : dense_strides(types[i].shape));
      tensors.push_back(read({results[i].data, types[i].dtype, results[i].shape, actual}));
      host_.release(results[i].handle);
    }
    for (std::int64_t k : attrs.written) tensors.push_back(read(refs[static_cast<std::size_t>(k)]));
    return tensors;
  }

  void deliver(std::size_t k, const HostTensor& result) {
    for (const Tie& tie : graph_.ties()) {
      if (tie.output != static_cast<int>(k)) continue;
      const TensorRef& input = inputs_[static_cast<std::size_t>(tie.input)].tensor;
      write(result, input.data, input.strides);
      return;
    }
    const Type& type = graph_.outputs()[k]->type();
    Numbers strides = dense_strides_of(result.shape());
    if (type.strides) {
      Numbers promised = evaluate_all(*type.strides);
      if (std::ranges::find(promised, -1) == promised.end()) strides = std::move(promised);
    }
    void* data =
        host_.allocate_output(static_cast<int>(k), result.dtype(), result.shape(), strides);
    write(result, data, strides);
  }

  const Graph& graph_;
  const std::span<const InputArg> inputs_;
  Host& host_;
  std::vector<HostTensor> tensors_;
  interp::InterpOptions options_;
  interp::SymbolValues symbols_;
};

}  // namespace

InterpretedGraph::InterpretedGraph(std::unique_ptr<Graph> graph, std::span<const Dim> integers)
    : graph_(std::move(graph)) {
  verify(*graph_);
  const std::vector<Dim> from_shapes = symbols_told_by_inputs(*graph_);
  for (Dim symbol : integers)
    if (symbol.is_symbol() && std::ranges::find(from_shapes, symbol) == from_shapes.end())
      integers_.push_back(symbol);
}

void InterpretedGraph::run(std::span<const InputArg> inputs, Host& host) const {
  Interpretation(*graph_, integers_, inputs, host).run();
}

}  // namespace gex::python
