#pragma once
// RegisterOp: user-defined ops, composed of others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/es/attr.hpp"
#include "gex/es/control.hpp"

namespace gex::es {

// The attributes of the current node, by name and with the declared type. Valid while the body
// runs.
class OpAttrs {
 public:
  OpAttrs(const gex_attr* attrs, std::size_t count) : attrs_(attrs), count_(count) {}

  bool Bool(const std::string& name) const { return At(name, GEX_ATTR_BOOL).value.integer != 0; }
  std::int64_t Int(const std::string& name) const { return At(name, GEX_ATTR_INT).value.integer; }
  double Float(const std::string& name) const { return At(name, GEX_ATTR_FLOAT).value.real; }
  std::string String(const std::string& name) const {
    return At(name, GEX_ATTR_STRING).value.string;
  }
  es::DType DType(const std::string& name) const {
    return static_cast<es::DType>(At(name, GEX_ATTR_DTYPE).value.integer);
  }
  std::vector<std::int64_t> Ints(const std::string& name) const {
    const gex_attr& attr = At(name, GEX_ATTR_INTS);
    return {attr.value.integers, attr.value.integers + attr.count};
  }
  std::vector<double> Floats(const std::string& name) const {
    const gex_attr& attr = At(name, GEX_ATTR_FLOATS);
    return {attr.value.reals, attr.value.reals + attr.count};
  }
  std::vector<std::string> Strings(const std::string& name) const {
    const gex_attr& attr = At(name, GEX_ATTR_STRINGS);
    return {attr.value.strings, attr.value.strings + attr.count};
  }
  es::Size Size(const std::string& name) const {
    return ToSize(At(name, GEX_ATTR_SIZE).value.sizes[0]);
  }
  Shape Sizes(const std::string& name) const {
    const gex_attr& attr = At(name, GEX_ATTR_SIZES);
    Shape sizes;
    for (std::size_t k = 0; k < attr.count; ++k) sizes.push_back(ToSize(attr.value.sizes[k]));
    return sizes;
  }

  const gex_attr* begin() const { return attrs_; }
  const gex_attr* end() const { return attrs_ + count_; }

  static es::Size ToSize(const gex_size& size) {
    return size.expression == nullptr ? es::Size(size.number) : es::Size(size.expression);
  }

 private:
  const gex_attr& At(const std::string& name, gex_attr_kind kind) const {
    for (const gex_attr& attr : *this) {
      if (name != attr.name) continue;
      if (attr.kind != kind)
        throw Error(GEX_INVALID_ARGUMENT,
                    "attribute '" + name + "' was declared with another type");
      return attr;
    }
    throw Error(GEX_NOT_FOUND, "no attribute '" + name + "' was declared");
  }

  const gex_attr* attrs_;
  std::size_t count_;
};

using OpBody =
    std::function<Holders(EsGraphBuilder& builder, const Holders& inputs, const OpAttrs& attrs)>;

namespace detail {

struct CustomOp {
  std::string name;
  OpBody body;

  static gex_status Expand(void* user, gex_graph* graph, const gex_value* inputs,
                           std::size_t input_count, const gex_attr* attrs, std::size_t attr_count,
                           gex_value* outputs, std::size_t capacity, std::size_t* output_count) {
    const auto& op = *static_cast<const CustomOp*>(user);
    try {
      EsGraphBuilder builder = EsGraphBuilder::Continue(op.name.c_str(), graph);
      Holders operands;
      for (std::size_t k = 0; k < input_count; ++k)
        operands.push_back(inputs[k] == GEX_NO_VALUE ? EsTensorHolder() : builder.Hold(inputs[k]));
      const Holders results = op.body(builder, operands, OpAttrs(attrs, attr_count));
      *output_count = results.size();
      for (std::size_t k = 0; k < std::min(capacity, results.size()); ++k)
        outputs[k] = results[k].value();
      return GEX_OK;
    } catch (const Error& error) {
      return gex_fail(error.status(), error.what());
    } catch (const std::exception& error) {
      return gex_fail(GEX_INVALID_ARGUMENT, error.what());
    }
  }
};

}  // namespace detail

// Registers the op for builder.Apply(name, ...). Inputs: "x", "bias?" (optional), "xs..." (any
// number, last). Attributes with defaults, which determine their types: {{"slope", 0.01}}. The body
// is called for each node, and must return the same for the same types and attributes.
inline void RegisterOp(const std::string& name, const std::string& doc,
                       const std::vector<std::string>& inputs, const Attrs& attrs, OpBody body) {
  auto custom = std::make_unique<detail::CustomOp>(detail::CustomOp{name, std::move(body)});
  std::vector<const char*> names;
  for (const std::string& input : inputs) names.push_back(input.c_str());
  std::vector<Attr::Backing> backing(attrs.size());
  std::vector<gex_attr> c_attrs;
  for (std::size_t k = 0; k < attrs.size(); ++k) c_attrs.push_back(attrs[k].c(backing[k]));
  gex_op op = GEX_OP_INIT;
  op.name = name.c_str();
  op.doc = doc.c_str();
  op.inputs = names.data();
  op.input_count = names.size();
  op.attrs = c_attrs.data();
  op.attr_count = c_attrs.size();
  op.user = custom.get();
  op.expand_with = detail::CustomOp::Expand;
  detail::Check(gex_register_op(&op));
  custom.release();  // ops are never unregistered
}

inline void RegisterOp(const std::string& name, const std::string& doc,
                       const std::vector<std::string>& inputs, Branch body) {
  RegisterOp(name, doc, inputs, Attrs(),
             [body = std::move(body)](EsGraphBuilder& builder, const Holders& operands,
                                      const OpAttrs&) { return body(builder, operands); });
}

// Registers an op whose body is the text of a loop kernel, so that it fuses; see
// gex_register_loop_op.
inline void RegisterLoopOp(const std::string& name, const std::string& doc,
                           const std::string& text) {
  detail::Check(gex_register_loop_op(name.c_str(), doc.c_str(), text.c_str()));
}

}  // namespace gex::es
