// User-defined ops through gex.h, composed of other ops.

#include <algorithm>
#include <cstddef>

#include "frontend/capi/attr_views.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"
#include "ir/text/text.hpp"
#include "ops/core/loop_text_op.hpp"

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

// A user-defined op: its callbacks and declaration.
struct CustomOp {
  gex_op op;
  std::string name;
  AttrSchema schema;
};

gex_status call_expand(const CustomOp& custom, gex_graph& graph,
                       const std::vector<gex_value>& inputs, const AttrList& attrs,
                       std::vector<gex_value>& outputs, std::size_t& count) {
  const gex_op& op = custom.op;
  if (op.expand_with == nullptr)
    return op.expand(op.user, &graph, inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                     &count);
  const AttrViews views(custom.schema, attrs);
  return op.expand_with(op.user, &graph, inputs.data(), inputs.size(), views.attrs().data(),
                        views.attrs().size(), outputs.data(), outputs.size(), &count);
}

void add_symbols(const AttrValue& value, std::vector<Dim>& symbols) {
  if (const auto* dim = std::get_if<Dim>(&value)) dim->collect_symbols(symbols);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&value))
    for (Dim dim : *dims) dim.collect_symbols(symbols);
}

// The expansions in progress on this thread: a recursive expansion would not end.
class Expanding {
 public:
  Expanding(const std::string& name, const std::vector<const Type*>& types, const AttrList& attrs)
      : key_(name) {
    for (const Type* type : types) key_ += type == nullptr ? ", none" : str(", ", *type);
    for (const AttrValue& value : attrs) key_ += str(", ", attr_text(value));
    const bool repeats = std::ranges::find(open(), key_) != open().end();
    if (repeats || open().size() >= kDeepest)
      fail(ErrorCode::invalid_argument, name, " expands to itself",
           repeats ? "" : str(": the expansion is nested ", kDeepest, " deep"),
           "; an op must expand to other ops");
    open().push_back(key_);
  }
  ~Expanding() { open().pop_back(); }
  Expanding(const Expanding&) = delete;
  Expanding& operator=(const Expanding&) = delete;

 private:
  static constexpr std::size_t kDeepest = 32;
  static std::vector<std::string>& open() {
    thread_local std::vector<std::string> keys;
    return keys;
  }
  std::string key_;
};

// The expansion of the op for operands of these types.
std::unique_ptr<Graph> expanded(const CustomOp& custom, const std::vector<const Type*>& types,
                                const AttrList& attrs) {
  const std::string& name = custom.name;
  const Expanding expanding(name, types, attrs);
  gex_graph scratch(std::make_unique<Graph>(name));
  scratch.is_lent = true;
  std::vector<gex_value> inputs;
  for (const Type* type : types)
    inputs.push_back(type == nullptr ? GEX_NO_VALUE
                                     : scratch.handle(scratch.graph->add_input(
                                           Type::tensor(type->dtype, type->shape))));
  std::vector<Dim> symbols = all_symbols_of(*scratch.graph);
  for (const AttrValue& value : attrs) add_symbols(value, symbols);
  for (Dim symbol : symbols) scratch.symbols.emplace(symbol.name(), symbol);
  std::vector<gex_value> outputs(kMostResults);
  std::size_t count = 0;
  const gex_status status = call_expand(custom, scratch, inputs, attrs, outputs, count);
  if (status != GEX_OK) {
    const bool known = status > GEX_OK && status <= GEX_INTERNAL;
    const std::string message = gex_last_error();
    fail(known ? static_cast<ErrorCode>(status - 1) : ErrorCode::invalid_argument,
         message.starts_with(name) ? "" : name + ": ", message);
  }
  if (count > kMostResults)
    fail(ErrorCode::invalid_argument, name, " declares ", count, " results");
  std::vector<Value*> results;
  for (std::size_t k = 0; k < count; ++k)
    results.push_back(scratch.value(outputs[k], str("result ", k, " of ", name).c_str()));
  scratch.graph->set_outputs(std::move(results));
  return std::move(scratch.graph);
}

std::vector<Value*> expand_node(const CustomOp& custom, Graph& graph, const Node& node) {
  std::vector<const Type*> types;
  std::vector<Value*> present;
  for (Value* input : node.inputs()) {
    types.push_back(input == nullptr ? nullptr : &input->type());
    if (input != nullptr) present.push_back(input);
  }
  return graph.inline_graph(*expanded(custom, types, node.attrs()), present);
}

// Attributes with their defaults, which determine the types.
AttrSchema to_schema(const gex_op& op, const OpDef& def) {
  require_list(op.attrs, op.attr_count, "op.attrs");
  if (op.attr_count != 0 && op.expand_with == nullptr)
    fail(ErrorCode::invalid_argument, def.name, " has attributes: they are passed to ",
         "op.expand_with, which is NULL");
  AttrSchema schema;
  Symbols none;
  for (std::size_t k = 0; k < op.attr_count; ++k) {
    auto [name, value] = to_attr(op.attrs[k], def, none);
    if (std::holds_alternative<TensorPtr>(value))
      fail(ErrorCode::invalid_argument, "attribute '", name, "' of ", def.name,
           " is a tensor: make it an input");
    for (const AttrField& field : schema)
      if (field.name == name)
        fail(ErrorCode::invalid_argument, def.name, " declares attribute '", name, "' twice");
    schema.push_back({std::move(name), std::move(value)});
  }
  return schema;
}

}  // namespace

extern "C" gex_status gex_register_op(const gex_op* given) {
  return guarded([&] {
    const gex_op defaults = GEX_OP_INIT;
    const gex_op op = read_versioned(given, defaults, offsetof(gex_op, attrs), "op");
    OpDef def;
    def.name = &required(op.name, "op.name");
    if (!is_identifier(def.name))
      fail(ErrorCode::invalid_argument, "'", def.name,
           "' can't name an op: letters, digits, '_' and '.', a letter or '_' first");
    if (op.expand == nullptr && op.expand_with == nullptr)
      fail(ErrorCode::invalid_argument, "op.expand is NULL");
    if (op.doc != nullptr) def.doc = op.doc;
    require_list(op.inputs, op.input_count, "op.inputs");
    for (std::size_t k = 0; k < op.input_count; ++k)
      def.inputs.push_back(
          to_input(&required(op.inputs[k], "an input's name"), k + 1 == op.input_count));
    for (std::size_t k = 0; k < def.inputs.size(); ++k)
      for (std::size_t earlier = 0; earlier < k; ++earlier)
        if (def.inputs[earlier].name == def.inputs[k].name)
          fail(ErrorCode::invalid_argument, def.name, " declares input '", def.inputs[k].name,
               "' twice");
    def.traits = static_cast<std::uint32_t>(Trait::pure);
    def.attrs = to_schema(op, def);
    const CustomOp custom{op, def.name, def.attrs};
    def.infer = [custom](const InferContext& c) {
      const auto made = expanded(custom, {c.inputs.begin(), c.inputs.end()}, c.attrs);
      std::vector<Type> types;
      for (const Value* output : made->outputs()) types.push_back(output->type());
      return types;
    };
    def.expand = [custom](Graph& graph, const Node& node) {
      return expand_node(custom, graph, node);
    };
    register_op(std::move(def));
  });
}

extern "C" gex_status gex_register_loop_op(const char* name, const char* doc, const char* text) {
  return guarded([&] {
    const std::string op = &required(name, "name");
    if (!is_identifier(op))
      fail(ErrorCode::invalid_argument, "'", op,
           "' can't name an op: letters, digits, '_' and '.', a letter or '_' first");
    ops::register_loop_text_op(op, doc == nullptr ? "" : doc, &required(text, "text"));
  });
}
