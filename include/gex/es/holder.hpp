#pragma once
// EsTensorHolder: a value of a graph under construction.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/es/attr.hpp"
#include "gex/es/tensor.hpp"

namespace gex::es {

// Customisation point: an overload beside another library's dtype enum converts it to ours (and a
// CheckFormat overload accepts its layouts).
inline DType ToDType(DType dtype) { return dtype; }

class EsTensorHolder;

namespace detail {

// The graph under construction; holders share it, so a holder may outlive its builder.
struct Building {
  explicit Building(const char* graph_name) : name(graph_name == nullptr ? "graph" : graph_name) {
    gex_graph* created = nullptr;
    Check(gex_graph_create(name.c_str(), &created));
    graph.reset(created);
  }
  // A graph that another owner has started.
  Building(const char* graph_name, gex_graph* borrowed)
      : name(graph_name), graph(borrowed, [](gex_graph*) {}) {}
  gex_graph* open() const {
    if (!graph)
      throw Error(GEX_INVALID_ARGUMENT, "graph '" + name + "' is already built; use a new builder");
    return graph.get();
  }

  std::string name;
  std::unique_ptr<gex_graph, void (*)(gex_graph*)> graph{nullptr, gex_graph_destroy};
  std::vector<std::int64_t> input_index;       // by position in the graph
  std::map<std::int64_t, gex_value> outputs;   // by index
  std::map<std::string, gex_value> variables;  // by name
  // Of If and While, for the names of their branches; a branch counts in that of the outermost
  // graph, so that names stay short.
  std::string outermost = name;
  std::shared_ptr<int> regions = std::make_shared<int>(0);
};
using BuildingPtr = std::shared_ptr<Building>;

// Access to a holder for other parts of this library.
struct Access {
  static EsTensorHolder Holder(BuildingPtr building, gex_value value);
  static const BuildingPtr& BuildingOf(const EsTensorHolder& holder);
};

}  // namespace detail

class EsTensorHolder {
 public:
  EsTensorHolder() = default;  // empty until it is assigned: an absent optional input

  // For inputs that are not used yet; the type of a result is determined by its op.
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
  // A layout name; accepted without effect, since sizes are always in memory order.
  template <class F>
  EsTensorHolder& SetFormat(F format) {
    open();
    CheckFormat(format);
    return *this;
  }
  // Sets a label of the node that makes this value: a bool, an integer or a string.
  EsTensorHolder& SetAttrForNode(const Attr& label) {
    Attr::Backing backing;
    const gex_attr c = label.c(backing);
    detail::Check(gex_value_set_label(open(), value_, &c));
    return *this;
  }
  template <class T>
  EsTensorHolder& SetAttrForNode(const std::string& name, T value) {
    return SetAttrForNode(Attr(name, value));
  }
  template <class T>
  EsTensorHolder& SetAttr(const std::string& name, T value) {
    return SetAttrForNode(Attr(name, value));
  }
  // In text form: 3, true, "a".
  std::string GetAttr(const std::string& name) const {
    char* text = nullptr;
    detail::Check(gex_value_label(open(), value_, name.c_str(), &text));
    return detail::Take(text);
  }
  // Orders the node of this value after the nodes of `sources`, so that it sees what they assign.
  EsTensorHolder& AddControlEdge(const std::vector<EsTensorHolder>& sources) {
    std::vector<gex_value> values;
    for (const EsTensorHolder& source : sources) values.push_back(source.value_);
    detail::Check(gex_graph_order(open(), value_, values.data(), values.size()));
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
  // -1 if the size is not a constant.
  std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> sizes(rank());
    detail::Check(
        gex_value_type(open(), value_, nullptr, nullptr, sizes.data(), sizes.size(), nullptr));
    return sizes;
  }
  // With symbols: can be used as another op's shape.
  Shape sizes() const {
    const std::string text = type();
    Shape shape;
    int depth = 0;
    std::string size;
    for (std::size_t k = text.find('[') + 1; k < text.size(); ++k) {
      const char c = text[k];
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      const bool ends = depth == 0 && (c == ',' || c == ']');
      if (!ends) {
        if (c != ' ' || !size.empty()) size += c;
        continue;
      }
      if (!size.empty()) shape.push_back(size);
      size.clear();
      if (c == ']') break;
    }
    return shape;
  }
  std::string type() const {  // "f32[s0, 4]"
    char* text = nullptr;
    detail::Check(gex_value_type(open(), value_, nullptr, nullptr, nullptr, 0, &text));
    return detail::Take(text);
  }
  std::string name() const {  // "x", "Softmax_3"
    char* text = nullptr;
    detail::Check(gex_value_name(open(), value_, &text));
    return detail::Take(text);
  }
  bool empty() const { return building_ == nullptr; }
  gex_value value() const { return value_; }
  // The node that makes this value, for interfaces that take nodes.
  class Producer;
  Producer GetProducer() const;

 private:
  friend struct detail::Access;
  EsTensorHolder(detail::BuildingPtr building, gex_value value)
      : building_(std::move(building)), value_(value) {}

  gex_graph* open() const {
    if (!building_) throw Error(GEX_INVALID_ARGUMENT, "the tensor holder is empty");
    return building_->open();
  }

  detail::BuildingPtr building_;
  gex_value value_ = GEX_NO_VALUE;
};

// Behaves like a pointer to a node. The types of a node are determined by its op and its operands:
// descriptions that are given to it are accepted without effect.
class EsTensorHolder::Producer {
 public:
  explicit Producer(EsTensorHolder result) : result_(std::move(result)) {}

  const EsTensorHolder& operator*() const { return result_; }
  const Producer* operator->() const { return this; }
  template <class Desc>
  gex_status UpdateInputDesc(std::int32_t /*index*/, const Desc& /*desc*/) const {
    return GEX_OK;
  }
  template <class Desc>
  gex_status UpdateOutputDesc(std::int32_t /*index*/, const Desc& /*desc*/) const {
    return GEX_OK;
  }

 private:
  EsTensorHolder result_;
};

inline EsTensorHolder::Producer EsTensorHolder::GetProducer() const { return Producer(*this); }

inline EsTensorHolder detail::Access::Holder(BuildingPtr building, gex_value value) {
  return {std::move(building), value};
}
inline const detail::BuildingPtr& detail::Access::BuildingOf(const EsTensorHolder& holder) {
  holder.open();
  return holder.building_;
}

}  // namespace gex::es
