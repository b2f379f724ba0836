#pragma once
// RegisterOp: an op of your own, made of others.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/es/control.hpp"

namespace gex::es {

namespace detail {

struct CustomOp {
  std::string name;
  Branch body;

  static gex_status Expand(void* user, gex_graph* graph, const gex_value* inputs,
                           std::size_t input_count, gex_value* outputs, std::size_t capacity,
                           std::size_t* output_count) {
    const auto& op = *static_cast<const CustomOp*>(user);
    try {
      EsGraphBuilder builder = EsGraphBuilder::Continue(op.name.c_str(), graph);
      Holders operands;
      for (std::size_t k = 0; k < input_count; ++k)
        operands.push_back(inputs[k] == GEX_NO_VALUE ? EsTensorHolder() : builder.Hold(inputs[k]));
      const Holders results = op.body(builder, operands);
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

// From here on builder.Apply(name, ...) knows it. Inputs: "x", "bias?" (may be absent), "xs..."
// (any number, last). The body is called for each node, and gives the same for the same types.
inline void RegisterOp(const std::string& name, const std::string& doc,
                       const std::vector<std::string>& inputs, Branch body) {
  auto custom = std::make_unique<detail::CustomOp>(detail::CustomOp{name, std::move(body)});
  std::vector<const char*> names;
  for (const std::string& input : inputs) names.push_back(input.c_str());
  gex_op op = GEX_OP_INIT;
  op.name = name.c_str();
  op.doc = doc.c_str();
  op.inputs = names.data();
  op.input_count = names.size();
  op.user = custom.get();
  op.expand = detail::CustomOp::Expand;
  detail::Check(gex_register_op(&op));
  custom.release();  // ops are never taken back
}

}  // namespace gex::es
