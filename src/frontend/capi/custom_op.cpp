// Ops of the caller's through gex.h: defined by the other ops that they are made of.

#include <algorithm>

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"
#include "ir/text.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

constexpr std::size_t kMostResults = 256;

// "x", "bias?" (may be absent), "xs..." (any number, last).
InputSpec to_input(const std::string& text, bool last) {
  InputSpec input{text};
  if (text.ends_with('?')) input = {text.substr(0, text.size() - 1), InputSpec::Arity::optional};
  if (text.ends_with("...")) input = {text.substr(0, text.size() - 3), InputSpec::Arity::variadic};
  if (!is_identifier(input.name))
    fail(ErrorCode::invalid_argument, "'", text,
         "' can't name an input: \"x\", \"x?\" or \"x...\"");
  if (input.arity == InputSpec::Arity::variadic && !last)
    fail(ErrorCode::invalid_argument, "'", text, "' takes any number and must be the last input");
  return input;
}

// What the op is made of, for operands of these types.
std::unique_ptr<Graph> expanded(const gex_op& op, const std::string& name,
                                const std::vector<const Type*>& types) {
  gex_graph scratch(std::make_unique<Graph>(name));
  std::vector<gex_value> inputs;
  for (const Type* type : types)
    inputs.push_back(type == nullptr ? GEX_NO_VALUE
                                     : scratch.handle(scratch.graph->add_input(
                                           Type::tensor(type->dtype, type->shape))));
  for (Dim symbol : all_symbols_of(*scratch.graph)) scratch.symbols.emplace(symbol.name(), symbol);
  std::vector<gex_value> outputs(kMostResults);
  std::size_t count = 0;
  const gex_status status = op.expand(op.user, &scratch, inputs.data(), inputs.size(),
                                      outputs.data(), outputs.size(), &count);
  if (status != GEX_OK) {
    const bool known = status > GEX_OK && status <= GEX_INTERNAL;
    fail(known ? static_cast<ErrorCode>(status - 1) : ErrorCode::invalid_argument, name, ": ",
         std::string(gex_last_error()));
  }
  if (count > kMostResults)
    fail(ErrorCode::invalid_argument, name, " says it has ", count, " results");
  std::vector<Value*> results;
  for (std::size_t k = 0; k < count; ++k)
    results.push_back(scratch.value(outputs[k], str("result ", k, " of ", name).c_str()));
  scratch.graph->set_outputs(std::move(results));
  return std::move(scratch.graph);
}

std::vector<Value*> expand_node(const gex_op& op, const std::string& name, Graph& graph,
                                const Node& node) {
  std::vector<const Type*> types;
  std::vector<Value*> present;
  for (Value* input : node.inputs()) {
    types.push_back(input == nullptr ? nullptr : &input->type());
    if (input != nullptr) present.push_back(input);
  }
  return graph.inline_graph(*expanded(op, name, types), present);
}

}  // namespace

extern "C" gex_status gex_register_op(const gex_op* given) {
  return guarded([&] {
    const gex_op defaults = GEX_OP_INIT;
    const gex_op op = read_versioned(given, defaults, sizeof(gex_op), "op");
    OpDef def;
    def.name = &required(op.name, "op.name");
    if (!is_identifier(def.name))
      fail(ErrorCode::invalid_argument, "'", def.name,
           "' can't name an op: letters, digits, '_' and '.', a letter or '_' first");
    if (op.expand == nullptr) fail(ErrorCode::invalid_argument, "op.expand is NULL");
    if (op.doc != nullptr) def.doc = op.doc;
    require_list(op.inputs, op.input_count, "op.inputs");
    for (std::size_t k = 0; k < op.input_count; ++k)
      def.inputs.push_back(
          to_input(&required(op.inputs[k], "an input's name"), k + 1 == op.input_count));
    def.traits = static_cast<std::uint32_t>(Trait::pure);
    def.infer = [op, name = def.name](const InferContext& c) {
      const auto made = expanded(op, name, {c.inputs.begin(), c.inputs.end()});
      std::vector<Type> types;
      for (const Value* output : made->outputs()) types.push_back(output->type());
      return types;
    };
    def.expand = [op, name = def.name](Graph& graph, const Node& node) {
      return expand_node(op, name, graph, node);
    };
    register_op(std::move(def));
  });
}
