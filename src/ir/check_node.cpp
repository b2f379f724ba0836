#include "ir/check_node.hpp"

#include "ir/assume.hpp"

namespace gex {

std::string signature_of(const OpDef& op) {
  std::string out = op.name + "(";
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (i) out += ", ";
    out += op.inputs[i].name;
    if (op.inputs[i].arity == InputSpec::Arity::optional) out += '?';
    if (op.inputs[i].arity == InputSpec::Arity::variadic) out += "...";
  }
  return out += ')';
}

void check_inputs(const OpDef& op, std::span<Value* const> inputs) {
  bool variadic = !op.inputs.empty() && op.inputs.back().arity == InputSpec::Arity::variadic;
  std::size_t fixed = op.inputs.size() - (variadic ? 1 : 0);
  if (inputs.size() < fixed || (!variadic && inputs.size() > fixed))
    fail(ErrorCode::invalid_argument, op.name, ": expected ", fixed, variadic ? " or more" : "",
         fixed == 1 && !variadic ? " input" : " inputs", " as ", signature_of(op), ", got ",
         inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& spec = op.inputs[std::min(i, op.inputs.size() - 1)];
    if (inputs[i] == nullptr && spec.arity != InputSpec::Arity::optional)
      fail(ErrorCode::invalid_argument, op.name, ": input ", i, " ('", spec.name,
           "') is not optional but absent; the op is called as ", signature_of(op));
  }
}

void check_attrs(const OpDef& op, const AttrList& attrs) {
  if (attrs.size() != op.attrs.size())
    fail(ErrorCode::invalid_argument, op.name, ": expected ", op.attrs.size(),
         " attributes (one for each in the op's schema), got ", attrs.size());
  for (std::size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i].index() != op.attrs[i].default_value.index())
      fail(ErrorCode::invalid_argument, op.name, ": attribute '", op.attrs[i].name,
           "' is expected to be a ", attr_kind_name(op.attrs[i].default_value), ", got a ",
           attr_kind_name(attrs[i]));
}

namespace {

// Rules compute sizes; that they are valid is checked here for all rules.
void check_result(const OpDef& op, const Type& result) {
  auto elements = static_cast<std::int64_t>(size_of(result.dtype));
  bool empty = false;
  for (Dim size : result.shape) {
    if (size.range().lo < 0 && !assume_le(Dim(0), size))
      fail(ErrorCode::shape_mismatch, op.name, ": the result would be ", result,
           ", and a size can't be negative");
    empty |= size == Dim(0);
  }
  for (Dim size : result.shape) {
    const auto number = size.as_const();
    if (!empty && number && __builtin_mul_overflow(elements, *number, &elements))
      fail(ErrorCode::invalid_argument, op.name, ": the result would be ", result,
           ", whose size in bytes overflows 64 bits");
  }
}

// "matmul(f32[s0, 6], f32[s1, 4])"
std::string call_text(const OpDef& op, std::span<const Type* const> types) {
  std::string text;
  for (const Type* type : types)
    text += str(text.empty() ? "" : ", ", type ? type->text() : std::string("none"));
  return str(op.name, "(", text, ")");
}

}  // namespace

std::vector<Type> infer_types(const OpDef& op, std::span<Value* const> inputs,
                              const AttrList& attrs,
                              std::span<const std::unique_ptr<Graph>> subgraphs) {
  if (!subgraphs.empty() && !op.has(Trait::control))
    fail(ErrorCode::invalid_graph, op.name, ": ", subgraphs.size(),
         subgraphs.size() == 1 ? " subgraph" : " subgraphs",
         ", but only control flow (if, while, for) has any");
  std::vector<const Type*> types;
  types.reserve(inputs.size());
  for (const Value* value : inputs) types.push_back(value ? &value->type() : nullptr);
  AssumptionLog* log = AssumptionLog::current();
  const std::size_t assumed = log ? log->taken().size() : 0;
  std::vector<Type> results = op.infer({op.name, types, attrs, subgraphs});
  GEX_CHECK(op.outputs.empty() || op.outputs.size() == results.size(), op.name, " declares ",
            op.outputs.size(), " results, but its shape rule returns ", results.size());
  for (const Type& result : results) check_result(op, result);
  if (log && log->taken().size() > assumed) log->name_from(assumed, call_text(op, types));
  return results;
}

bool same_data_type(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.shape.size() != b.shape.size()) return false;
  for (std::size_t i = 0; i < a.shape.size(); ++i)
    if (!provably_eq(a.shape[i], b.shape[i])) return false;
  return true;
}

std::string tie_problem(const Graph& graph, const Tie& tie) {
  int outputs = static_cast<int>(graph.outputs().size());
  int inputs = static_cast<int>(graph.inputs().size());
  if (tie.output < 0 || tie.output >= outputs)
    return str("tie of output ", tie.output, ", but there are ", outputs, " outputs");
  if (tie.input < 0 || tie.input >= inputs)
    return str("tie to input ", tie.input, ", but there are ", inputs, " inputs");
  const Type& from = graph.outputs()[static_cast<std::size_t>(tie.output)]->type();
  const Type& into = graph.inputs()[static_cast<std::size_t>(tie.input)]->type();
  if (from.is_token() || into.is_token()) return "a tie is between tensors, not tokens";
  if (!same_data_type(from, into))
    return str("tie of output ", tie.output, " of type ", from, " to input ", tie.input,
               " of a different type ", into);
  return {};
}

}  // namespace gex
