#pragma once
// EsGraphBuilder: a graph by function calls and operators.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gex/es/attr.hpp"
#include "gex/es/graph.hpp"
#include "gex/es/tensor.hpp"

namespace gex::es {

// Customisation point: another library's enum of dtypes becomes ours by an overload beside it (and
// its layouts are accepted by a CheckFormat beside them).
inline DType ToDType(DType dtype) { return dtype; }

namespace detail {

// The graph while it is being built; holders share it, so a holder outlives its builder safely.
struct Building {
  explicit Building(const char* graph_name) : name(graph_name == nullptr ? "graph" : graph_name) {
    gex_graph* created = nullptr;
    Check(gex_graph_create(name.c_str(), &created));
    graph.reset(created);
  }
  gex_graph* open() const {
    if (!graph)
      throw Error(GEX_INVALID_ARGUMENT, "graph '" + name + "' is built already; use a new builder");
    return graph.get();
  }

  std::string name;
  std::unique_ptr<gex_graph, void (*)(gex_graph*)> graph{nullptr, gex_graph_destroy};
  std::vector<std::int64_t> input_index;      // by position in the graph
  std::map<std::int64_t, gex_value> outputs;  // by index
};

}  // namespace detail

// A value of the graph under construction.
class EsTensorHolder {
 public:
  EsTensorHolder() = default;  // holds nothing until it is assigned: an absent optional input

  // For inputs that nothing uses yet; a result has the type its op gives it.
  template <class D>
  EsTensorHolder& SetDataType(D dtype) {
    detail::Check(
        gex_graph_set_input_dtype(open(), value_, static_cast<gex_dtype>(ToDType(dtype))));
    return *this;
  }
  EsTensorHolder& SetShape(const Shape& shape) {
    const std::vector<gex_size> sizes = detail::ToC(shape);
    detail::Check(gex_graph_set_input_shape(open(), value_, sizes.data(), sizes.size()));
    return *this;
  }
  // A label: sizes are in memory order whatever it says.
  template <class F>
  EsTensorHolder& SetFormat(F format) {
    open();
    CheckFormat(format);
    return *this;
  }

  DType dtype() const {
    gex_dtype dtype = GEX_F32;
    detail::Check(gex_value_type(open(), value_, &dtype, nullptr, nullptr, 0, nullptr));
    return static_cast<DType>(dtype);
  }
  std::size_t rank() const {
    std::size_t rank = 0;
    detail::Check(gex_value_type(open(), value_, nullptr, &rank, nullptr, 0, nullptr));
    return rank;
  }
  // -1 where the size is no plain number.
  std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> sizes(rank());
    detail::Check(
        gex_value_type(open(), value_, nullptr, nullptr, sizes.data(), sizes.size(), nullptr));
    return sizes;
  }
  std::string type() const {  // "f32[s0, 4]"
    char* text = nullptr;
    detail::Check(gex_value_type(open(), value_, nullptr, nullptr, nullptr, 0, &text));
    return detail::Take(text);
  }
  gex_value value() const { return value_; }

 private:
  friend class EsGraphBuilder;
  EsTensorHolder(std::shared_ptr<detail::Building> building, gex_value value)
      : building_(std::move(building)), value_(value) {}

  gex_graph* open() const {
    if (!building_) throw Error(GEX_INVALID_ARGUMENT, "the tensor holder holds nothing");
    return building_->open();
  }

  std::shared_ptr<detail::Building> building_;
  gex_value value_ = GEX_NO_VALUE;
};

class EsGraphBuilder {
 public:
  explicit EsGraphBuilder(const char* name = "graph")
      : building_(std::make_shared<detail::Building>(name)) {}
  explicit EsGraphBuilder(const std::string& name) : EsGraphBuilder(name.c_str()) {}

  // Indices may come in any order; Build() wants them all from 0 on.
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
    return {building_, value};
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
  // The range a size symbol may take; before its first use.
  void DeclareSize(const std::string& name, std::int64_t lowest,
                   std::int64_t highest = GEX_NO_LIMIT) {
    detail::Check(gex_graph_symbol(building_->open(), name.c_str(), lowest, highest));
  }

  // Bare lists: whole numbers are int64, others float. Vectors keep their element type.
  template <class T>
  EsTensorHolder CreateConst(const std::vector<T>& values, const std::vector<std::int64_t>& dims) {
    return CreateConst(values, dims, DTypeOf<T>());
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
  // Values converted to `dtype`, exactly where it is an integer.
  template <class T>
  EsTensorHolder CreateConst(const std::vector<T>& values, const std::vector<std::int64_t>& dims,
                             DType dtype) {
    detail::CheckCount(values, dims);
    const Tensor tensor = Tensor::Of<T>(dims, values);
    const gex_tensor elements = tensor.c();
    gex_value value = GEX_NO_VALUE;
    detail::Check(
        gex_graph_constant(building_->open(), &elements, static_cast<gex_dtype>(dtype), &value));
    return {building_, value};
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

  // One node of any op, by name; a holder that holds nothing is an absent optional input.
  EsTensorHolder Apply(const std::string& op, const std::vector<EsTensorHolder>& inputs,
                       const Attrs& attrs = {}) {
    return ApplyMany(op, inputs, attrs, 1)[0];
  }
  std::vector<EsTensorHolder> ApplyMany(const std::string& op,
                                        const std::vector<EsTensorHolder>& inputs,
                                        const Attrs& attrs, std::size_t result_count) {
    return AddNode(building_, op, inputs, attrs, result_count);
  }

  // Returns GEX_OK; what goes wrong is thrown.
  static gex_status SetOutput(const EsTensorHolder& tensor, std::int64_t index) {
    tensor.open();
    auto& outputs = tensor.building_->outputs;
    CheckNewIndex("output", index, outputs.count(index) != 0);
    outputs[index] = tensor.value_;
    return GEX_OK;
  }

  // Hands the graph out; this builder and its holders make no more of it.
  std::unique_ptr<Graph> Build() {
    gex_graph* graph = building_->open();
    std::vector<gex_value> outputs;
    for (const auto& [index, value] : building_->outputs) {
      if (index != static_cast<std::int64_t>(outputs.size())) Gap("output", outputs.size(), index);
      outputs.push_back(value);
    }
    OrderInputs(graph);
    detail::Check(gex_graph_set_outputs(graph, outputs.data(), outputs.size()));
    detail::Check(gex_graph_verify(graph));
    auto built = std::make_unique<Graph>(graph);
    building_->graph.release();
    return built;
  }
  std::unique_ptr<Graph> BuildAndReset() { return Build(); }
  std::unique_ptr<Graph> BuildAndReset(const std::vector<EsTensorHolder>& outputs) {
    for (std::size_t k = 0; k < outputs.size(); ++k)
      SetOutput(outputs[k], static_cast<std::int64_t>(k));
    return Build();
  }

  // A node in the graph of its operands: what the operators do.
  static EsTensorHolder Binary(const char* op, const EsTensorHolder& a, const EsTensorHolder& b) {
    a.open();
    b.open();
    return AddNode(a.building_, op, {a, b}, {}, 1)[0];
  }
  static EsTensorHolder Unary(const char* op, const EsTensorHolder& x) {
    x.open();
    return AddNode(x.building_, op, {x}, {}, 1)[0];
  }
  // A plain number beside a tensor: of the tensor's dtype if that can hold its kind.
  template <class T>
  static EsTensorHolder NumberLike(const EsTensorHolder& tensor, T number) {
    const DType dtype = tensor.dtype();
    EsGraphBuilder builder(tensor.building_);
    if constexpr (std::is_same_v<T, bool>) {
      return builder.CreateScalar(number);
    } else if constexpr (std::is_floating_point_v<T>) {
      return builder.CreateScalar(static_cast<double>(number), IsFloat(dtype) ? dtype : DType::f32);
    } else {
      return builder.CreateScalar(static_cast<std::int64_t>(number),
                                  dtype == DType::boolean ? DType::i64 : dtype);
    }
  }

 private:
  template <class T>
  using Wide =
      std::conditional_t<std::is_integral_v<T>,
                         std::conditional_t<std::is_same_v<T, std::uint64_t>, T, std::int64_t>,
                         std::conditional_t<std::is_same_v<T, double>, float, T>>;

  explicit EsGraphBuilder(std::shared_ptr<detail::Building> building)
      : building_(std::move(building)) {}

  static std::vector<EsTensorHolder> AddNode(const std::shared_ptr<detail::Building>& building,
                                             const std::string& op,
                                             const std::vector<EsTensorHolder>& inputs,
                                             const Attrs& attrs, std::size_t result_count) {
    gex_graph* graph = building->open();
    std::vector<gex_value> operands;
    for (const EsTensorHolder& input : inputs) {
      if (input.building_ && input.building_ != building)
        throw Error(GEX_INVALID_ARGUMENT, op + ": operands of two builders, '" + building->name +
                                              "' and '" + input.building_->name + "'");
      operands.push_back(input.value_);
    }
    std::vector<Attr::Backing> backing(attrs.size());
    std::vector<gex_attr> c_attrs;
    for (std::size_t k = 0; k < attrs.size(); ++k) c_attrs.push_back(attrs[k].c(backing[k]));
    std::vector<gex_value> values(result_count);
    detail::Check(gex_graph_add(graph, op.c_str(), operands.data(), operands.size(), c_attrs.data(),
                                c_attrs.size(), values.data(), values.size()));
    std::vector<EsTensorHolder> results;
    for (gex_value value : values) results.push_back({building, value});
    return results;
  }

  bool HasInput(std::int64_t index) const {
    for (std::int64_t taken : building_->input_index)
      if (taken == index) return true;
    return false;
  }
  static void CheckNewIndex(const char* what, std::int64_t index, bool taken) {
    const std::string name = std::string(what) + " " + std::to_string(index);
    if (index < 0) throw Error(GEX_INVALID_ARGUMENT, name + ": an index can't be negative");
    if (taken) throw Error(GEX_INVALID_ARGUMENT, name + " is there already");
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

  std::shared_ptr<detail::Building> building_;
};

namespace detail {

// Whole numbers divide as in C++: towards zero.
inline EsTensorHolder Divide(const EsTensorHolder& a, const EsTensorHolder& b) {
  const bool whole = !IsFloat(a.dtype()) && !IsFloat(b.dtype());
  return EsGraphBuilder::Binary(whole ? "trunc_div" : "div", a, b);
}

template <class T>
using IfNumber = std::enable_if_t<std::is_arithmetic_v<T>, int>;

}  // namespace detail

// Shapes broadcast; operands of two dtypes are cast to the wider one. Either side may be a number.
#define GEX_ES_OPERATOR(symbol, expression)                                                 \
  inline EsTensorHolder operator symbol(const EsTensorHolder& a, const EsTensorHolder& b) { \
    return expression;                                                                      \
  }                                                                                         \
  template <class T, detail::IfNumber<T> = 0>                                               \
  EsTensorHolder operator symbol(const EsTensorHolder& a, T b) {                            \
    return a symbol EsGraphBuilder::NumberLike(a, b);                                       \
  }                                                                                         \
  template <class T, detail::IfNumber<T> = 0>                                               \
  EsTensorHolder operator symbol(T a, const EsTensorHolder& b) {                            \
    return EsGraphBuilder::NumberLike(b, a) symbol b;                                       \
  }
GEX_ES_OPERATOR(+, EsGraphBuilder::Binary("add", a, b))
GEX_ES_OPERATOR(-, EsGraphBuilder::Binary("sub", a, b))
GEX_ES_OPERATOR(*, EsGraphBuilder::Binary("mul", a, b))
GEX_ES_OPERATOR(/, detail::Divide(a, b))
#undef GEX_ES_OPERATOR

inline EsTensorHolder operator-(const EsTensorHolder& x) { return EsGraphBuilder::Unary("neg", x); }

}  // namespace gex::es
