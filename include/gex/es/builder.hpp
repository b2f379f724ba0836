#pragma once
// EsGraphBuilder: builds a graph by function calls.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/es/graph.hpp"
#include "gex/es/node.hpp"

namespace gex::es {

namespace detail {

// There are no unsigned tensors of more than 8 bits: values become i64, which must hold them.
template <class T>
inline constexpr bool kIsWideUnsigned =
    std::is_unsigned_v<T> && !std::is_same_v<T, bool> && (sizeof(T) > 1);

template <class T>
std::vector<std::int64_t> ToSigned(const std::vector<T>& values) {
  std::vector<std::int64_t> converted;
  for (T value : values) {
    converted.push_back(static_cast<std::int64_t>(value));
    if (converted.back() < 0)
      throw Error(GEX_UNSUPPORTED,
                  std::to_string(value) + " does not fit i64; there are no u64 tensors");
  }
  return converted;
}

}  // namespace detail

class EsGraphBuilder {
 public:
  explicit EsGraphBuilder(const char* name = "graph")
      : building_(std::make_shared<detail::Building>(name)) {}
  explicit EsGraphBuilder(const std::string& name) : EsGraphBuilder(name.c_str()) {}

  // Extends a graph that another owner is building.
  static EsGraphBuilder Continue(const char* name, gex_graph* graph) {
    EsGraphBuilder builder;
    builder.building_ = std::make_shared<detail::Building>(name, graph);
    return builder;
  }
  // A value of the existing graph.
  EsTensorHolder Hold(gex_value value) const { return detail::Access::Holder(building_, value); }

  // Indices may be created in any order; Build() requires all of them from 0 on.
  EsTensorHolder CreateInput(std::int64_t index) {
    return CreateInput(index, nullptr, DType::f32, {});
  }
  EsTensorHolder CreateInput(std::int64_t index, const char* name) {
    return CreateInput(index, name, DType::f32, {});
  }
  EsTensorHolder CreateInput(std::int64_t index, const char* name, DType dtype,
                             const Shape& shape) {
    gex_graph* graph = building_->open();
    CheckNewIndex("input", index, HasInput(index));
    const std::string given = name == nullptr ? "input_" + std::to_string(index) : name;
    const std::vector<gex_size> sizes = detail::ToC(shape);
    gex_value value = GEX_NO_VALUE;
    detail::Check(gex_graph_input(graph, given.c_str(), static_cast<gex_dtype>(dtype), sizes.data(),
                                  sizes.size(), &value));
    building_->input_index.push_back(index);
    return detail::Access::Holder(building_, value);
  }
  // With the dtype and sizes of a value of another builder: the input of a subgraph.
  EsTensorHolder CreateInputLike(std::int64_t index, const EsTensorHolder& other) {
    gex_graph* graph = building_->open();
    CheckNewIndex("input", index, HasInput(index));
    gex_value value = GEX_NO_VALUE;
    detail::Check(gex_graph_input_like(graph, ("input_" + std::to_string(index)).c_str(),
                                       detail::Access::BuildingOf(other)->open(), other.value(),
                                       &value));
    building_->input_index.push_back(index);
    return detail::Access::Holder(building_, value);
  }
  // An input whose memory Assign() writes. The same name is the same variable.
  EsTensorHolder CreateVariable(std::int64_t index, const char* name, DType dtype = DType::f32,
                                const Shape& shape = {}) {
    const std::string given = name == nullptr ? "variable_" + std::to_string(index) : name;
    building_->open();
    if (const auto known = building_->variables.find(given); known != building_->variables.end())
      return detail::Access::Holder(building_, known->second);
    const EsTensorHolder made = CreateInput(index, given.c_str(), dtype, shape);
    building_->variables[given] = made.value();
    return made;
  }
  template <std::size_t N>
  std::array<EsTensorHolder, N> CreateInputs(std::int64_t start = 0) {
    std::array<EsTensorHolder, N> inputs;
    for (std::size_t k = 0; k < N; ++k)
      inputs[k] = CreateInput(start + static_cast<std::int64_t>(k));
    return inputs;
  }
  std::vector<EsTensorHolder> CreateInputs(std::int64_t count, std::int64_t start = 0) {
    std::vector<EsTensorHolder> inputs;
    for (std::int64_t k = 0; k < count; ++k) inputs.push_back(CreateInput(start + k));
    return inputs;
  }
  // The range of a size symbol; must precede its first use.
  void DeclareSize(const std::string& name, std::int64_t lowest,
                   std::int64_t highest = GEX_NO_LIMIT) {
    detail::Check(gex_graph_symbol(building_->open(), name.c_str(), lowest, highest));
  }

  // Brace lists: integers are int64, others float. Vectors keep their element type.
  template <class T>
  EsTensorHolder CreateConst(const std::vector<T>& values, const std::vector<std::int64_t>& dims) {
    if constexpr (detail::kIsWideUnsigned<T>) {
      return CreateConst(values, dims, DType::i64);
    } else {
      return CreateConst(values, dims, DTypeOf<T>());
    }
  }
  template <class T>
  EsTensorHolder CreateConst(std::initializer_list<T> values,
                             const std::vector<std::int64_t>& dims) {
    using Element = std::conditional_t<std::is_same_v<T, bool>, bool, Wide<T>>;
    return CreateConst(std::vector<Element>(values.begin(), values.end()), dims);
  }
  // Lists of mixed numbers: {1.5, 2}.
  EsTensorHolder CreateConst(std::initializer_list<double> values,
                             const std::vector<std::int64_t>& dims) {
    return CreateConst(std::vector<float>(values.begin(), values.end()), dims);
  }
  // Values converted to `dtype`, exactly if it is an integer.
  template <class T>
  EsTensorHolder CreateConst(const std::vector<T>& values, const std::vector<std::int64_t>& dims,
                             DType dtype) {
    detail::CheckCount(values, dims);
    if constexpr (detail::kIsWideUnsigned<T>) {
      return CreateConst(detail::ToSigned(values), dims, dtype);
    } else {
      return detail::AddConstant(building_, Tensor::Of<T>(dims, values), dtype);
    }
  }
  EsTensorHolder CreateConst(const Tensor& tensor) {
    return detail::AddConstant(building_, tensor, tensor.dtype());
  }
  // Reads the first bytes of a file of raw little-endian numbers.
  EsTensorHolder CreateConstFromFile(const std::string& path, DType dtype,
                                     const std::vector<std::int64_t>& dims) {
    gex_value value = GEX_NO_VALUE;
    detail::Check(gex_graph_constant_from_file(building_->open(), path.c_str(),
                                               static_cast<gex_dtype>(dtype), dims.data(),
                                               dims.size(), &value));
    EsTensorHolder made = detail::Access::Holder(building_, value);
    detail::Scopes::OfThisThread().ApplyTo(made);
    return made;
  }
  template <class T>
  EsTensorHolder CreateVector(const std::vector<T>& values) {
    return CreateConst(values, {static_cast<std::int64_t>(values.size())});
  }
  template <class T>
  EsTensorHolder CreateVector(std::initializer_list<T> values) {
    return CreateConst(values, {static_cast<std::int64_t>(values.size())});
  }
  EsTensorHolder CreateVector(std::initializer_list<double> values) {
    return CreateConst(values, {static_cast<std::int64_t>(values.size())});
  }
  template <class T>
  EsTensorHolder CreateScalar(T value) {
    using Element = std::conditional_t<std::is_same_v<T, double>, float, T>;
    return CreateConst(std::vector<Element>{static_cast<Element>(value)}, {});
  }
  template <class T>
  EsTensorHolder CreateScalar(T value, DType dtype) {
    return CreateConst(std::vector<T>{value}, {}, dtype);
  }

  // Adds a node of any op by name; an empty holder is an absent optional input.
  EsTensorHolder Apply(const std::string& op, const std::vector<EsTensorHolder>& inputs,
                       const Attrs& attrs = {}) {
    return ApplyMany(op, inputs, attrs, 1)[0];
  }
  std::vector<EsTensorHolder> ApplyMany(const std::string& op,
                                        const std::vector<EsTensorHolder>& inputs,
                                        const Attrs& attrs, std::size_t result_count) {
    return detail::AddNode(building_, op, inputs, attrs, result_count);
  }
  // Returns all results of the op.
  std::vector<EsTensorHolder> ApplyAll(const std::string& op,
                                       const std::vector<EsTensorHolder>& inputs,
                                       const Attrs& attrs = {}) {
    return detail::AddNode(building_, op, inputs, attrs, std::nullopt);
  }

  // A label of the graph: a bool, an integer or a string.
  template <class T>
  void SetAttr(const std::string& name, T value) {
    SetLabel(Attr(name, value));
  }
  void SetLabel(const Attr& label) {
    Attr::Backing backing;
    const gex_attr c = label.c(backing);
    detail::Check(gex_graph_set_label(building_->open(), &c));
  }

  // Returns GEX_OK; errors are thrown.
  static gex_status SetOutput(const EsTensorHolder& tensor, std::int64_t index) {
    auto& outputs = detail::Access::BuildingOf(tensor)->outputs;
    CheckNewIndex("output", index, outputs.count(index) != 0);
    outputs[index] = tensor.value();
    return GEX_OK;
  }

  // Returns the graph; afterwards this builder and its holders can't be used to extend it.
  std::unique_ptr<Graph> Build() { return BuildGraph(true); }
  // For a graph that is verified when it becomes part of a node.
  std::unique_ptr<Graph> BuildBranch(const std::vector<EsTensorHolder>& outputs) {
    SetOutputs(outputs);
    return BuildGraph(false);
  }
  const std::string& name() const { return building_->name; }
  std::unique_ptr<Graph> BuildAndReset() { return Build(); }
  std::unique_ptr<Graph> BuildAndReset(const std::vector<EsTensorHolder>& outputs) {
    SetOutputs(outputs);
    return Build();
  }

 private:
  template <class T>
  using Wide =
      std::conditional_t<std::is_integral_v<T>,
                         std::conditional_t<std::is_same_v<T, std::uint64_t>, T, std::int64_t>,
                         std::conditional_t<std::is_same_v<T, double>, float, T>>;

  std::unique_ptr<Graph> BuildGraph(bool verified) {
    gex_graph* graph = building_->open();
    std::vector<gex_value> outputs;
    for (const auto& [index, value] : building_->outputs) {
      if (index != static_cast<std::int64_t>(outputs.size())) Gap("output", outputs.size(), index);
      outputs.push_back(value);
    }
    OrderInputs(graph);
    detail::Check(gex_graph_set_outputs(graph, outputs.data(), outputs.size()));
    if (verified) detail::Check(gex_graph_verify(graph));
    auto built = std::make_unique<Graph>(graph);
    building_->graph.release();
    return built;
  }
  void SetOutputs(const std::vector<EsTensorHolder>& outputs) {
    building_->open();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const detail::BuildingPtr& owner = detail::Access::BuildingOf(outputs[k]);
      if (owner != building_)
        throw Error(GEX_INVALID_ARGUMENT, "output " + std::to_string(k) + " of '" +
                                              building_->name + "' is a tensor of builder '" +
                                              owner->name + "'; pass it in as an input");
      SetOutput(outputs[k], static_cast<std::int64_t>(k));
    }
  }
  bool HasInput(std::int64_t index) const {
    for (std::int64_t taken : building_->input_index)
      if (taken == index) return true;
    return false;
  }
  static void CheckNewIndex(const char* what, std::int64_t index, bool taken) {
    const std::string name = std::string(what) + " " + std::to_string(index);
    if (index < 0) throw Error(GEX_INVALID_ARGUMENT, name + ": an index can't be negative");
    if (taken) throw Error(GEX_INVALID_ARGUMENT, name + " already exists");
  }
  [[noreturn]] void Gap(const char* what, std::size_t missing, std::int64_t index) const {
    throw Error(GEX_INVALID_GRAPH, "graph '" + building_->name + "' has " + what + " " +
                                       std::to_string(index) + " but no " + what + " " +
                                       std::to_string(missing));
  }
  void OrderInputs(gex_graph* graph) {
    std::map<std::int64_t, std::size_t> position;
    for (std::size_t k = 0; k < building_->input_index.size(); ++k)
      position[building_->input_index[k]] = k;
    std::vector<std::size_t> order;
    for (const auto& [index, at] : position) {
      if (index != static_cast<std::int64_t>(order.size())) Gap("input", order.size(), index);
      order.push_back(at);
    }
    detail::Check(gex_graph_order_inputs(graph, order.data(), order.size()));
    for (std::size_t k = 0; k < order.size(); ++k)
      building_->input_index[k] = static_cast<std::int64_t>(k);
  }

  detail::BuildingPtr building_;
};

}  // namespace gex::es
