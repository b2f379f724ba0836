// Building graphs through gex.h.

#include <algorithm>

#include "base/log.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/convert.hpp"
#include "frontend/capi/handles.hpp"
#include "ir/check_node.hpp"
#include "ir/text/onnx_text.hpp"
#include "ir/text/text.hpp"

using namespace gex;
using namespace gex::capi;

namespace {

std::size_t checked_index(std::size_t index, std::size_t count, const char* what) {
  if (index >= count)
    fail(ErrorCode::invalid_argument, what, " ", index, " of ", count, " does not exist");
  return index;
}

void retype(Value& value, Type type) {
  if (type == value.type()) return;
  if (!value.is_input())
    fail(ErrorCode::invalid_argument, "the value is the result of ", value.producer()->op().name,
         " with type ", value.type(),
         ", determined by its op; only the type of inputs can be set (", type, ")");
  if (!value.uses().empty())
    fail(ErrorCode::invalid_argument, "the input is already used as ", value.type(),
         "; set the type ", type, " before its first use");
  value.set_type(std::move(type));
}

std::string describe(const OpDef& op) {
  std::string line = signature_of(op);
  std::string attrs;
  for (const AttrField& field : op.attrs) {
    attrs += str(attrs.empty() ? "" : ", ", field.name, " = ", attr_text(field.default_value));
  }
  if (!attrs.empty()) line += str(" {", attrs, "}");
  return str(line, "  ", op.doc, "\n");
}

}  // namespace

extern "C" {

gex_status gex_graph_create(const char* name, gex_graph** graph) {
  return guarded([&] {
    required(graph, "graph");
    *graph = new gex_graph(std::make_unique<Graph>(name == nullptr ? "graph" : name));
  });
}

void gex_graph_destroy(gex_graph* graph) {
  if (graph == nullptr) return;
  const gex_status status = guarded([&] {
    if (required(graph, "graph").is_lent)
      fail(ErrorCode::invalid_argument,
           "the graph is borrowed by a callback and can't be destroyed");
  });
  if (status == GEX_OK)
    delete graph;
  else
    log(LogArea::run, LogLevel::error, "gex_graph_destroy: ", gex_last_error(),
        "; nothing was destroyed");
}

gex_status gex_graph_clone(const gex_graph* graph, gex_graph** clone) {
  return guarded([&] {
    const gex_graph& from = required(graph, "graph");
    required(clone, "clone");
    auto copy = std::make_unique<gex_graph>(from.graph->clone());
    copy->continue_from(from);
    *clone = copy.release();
  });
}

gex_status gex_graph_parse(const char* text, size_t length, gex_graph** graph) {
  return guarded([&] {
    required(graph, "graph");
    require_list(text, length, "text");
    std::unique_ptr<Graph> parsed = parse_graph(std::string_view(text, length));
    verify(*parsed);
    *graph = new gex_graph(std::move(parsed));
  });
}

gex_status gex_graph_print(const gex_graph* graph, char** text) {
  return guarded([&] { give_text(print(*required(graph, "graph").graph), text); });
}

gex_status gex_graph_print_abbreviated(const gex_graph* graph, char** text) {
  return guarded([&] { give_text(print_abbreviated(*required(graph, "graph").graph), text); });
}

gex_status gex_graph_print_onnx(const gex_graph* graph, char** text) {
  return guarded([&] { give_text(print_onnx(*required(graph, "graph").graph), text); });
}

gex_status gex_graph_verify(const gex_graph* graph) {
  return guarded([&] { verify(*required(graph, "graph").graph); });
}

gex_status gex_graph_symbol(gex_graph* graph, const char* name, int64_t lowest, int64_t highest) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const std::string symbol = &required(name, "name");
    if (!is_identifier(symbol))
      fail(ErrorCode::invalid_argument, "'", symbol,
           "' can't name a size: letters, digits, '_' and '.', a letter or '_' first");
    if (lowest < 0 || lowest > highest)
      fail(ErrorCode::invalid_argument, "symbol ", symbol, " has the range [", lowest, ", ",
           highest, "]; sizes start at 0 and the upper bound must not be below the lower");
    const Dim dim =
        Dim::symbol(symbol, {std::min(lowest, DimRange::kInf), std::min(highest, DimRange::kInf)});
    auto [at, is_new] = g.symbols.try_emplace(symbol, dim);
    if (!is_new && !(at->second == dim))
      fail(ErrorCode::invalid_argument, "symbol ", symbol, " already has the range [",
           at->second.range().lo, ", ", at->second.range().hi,
           "]; declare it before its first use");
  });
}

gex_status gex_graph_input(gex_graph* graph, const char* name, gex_dtype dtype,
                           const gex_size* shape, size_t rank, gex_value* input) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    required(input, "input");
    const std::string_view wanted = name == nullptr ? "" : name;
    for (const auto& known : g.graph->inputs())
      if (!wanted.empty() && known->name() == wanted)
        fail(ErrorCode::invalid_argument, "graph '", g.graph->name(), "' already has an input '",
             wanted, "'; input names must be unique");
    Type type = to_type(dtype, shape, rank, g.symbols);
    *input = g.handle(g.graph->add_input(std::move(type), name == nullptr ? "" : name));
  });
}

gex_status gex_graph_input_like(gex_graph* graph, const char* name, const gex_graph* other,
                                gex_value value, gex_value* input) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    required(input, "input");
    const gex_graph& from = required(other, "other");
    const Type& type = from.value(value, "value")->type();
    if (type.is_token()) fail(ErrorCode::type_mismatch, "the value is a token, not a tensor");
    for (Dim size : type.shape) {
      std::vector<Dim> symbols;
      size.collect_symbols(symbols);
      for (Dim symbol : symbols) g.symbols.emplace(symbol.name(), symbol);
    }
    *input = g.handle(
        g.graph->add_input(Type::tensor(type.dtype, type.shape), name == nullptr ? "" : name));
  });
}

gex_status gex_graph_set_input_dtype(gex_graph* graph, gex_value input, gex_dtype dtype) {
  return guarded([&] {
    Value* value = required(graph, "graph").value(input, "input");
    Type type = value->type();
    type.dtype = to_dtype(dtype, "dtype");
    check_bytes(type);
    retype(*value, std::move(type));
  });
}

gex_status gex_graph_set_input_shape(gex_graph* graph, gex_value input, const gex_size* shape,
                                     size_t rank) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    Value* value = g.value(input, "input");
    retype(*value, to_type(from_dtype(value->type().dtype), shape, rank, g.symbols));
  });
}

gex_status gex_graph_order_inputs(gex_graph* graph, const size_t* order, size_t count) {
  return guarded([&] {
    Graph& g = *required(graph, "graph").graph;
    require_list(order, count, "order");
    if (count != g.inputs().size())
      fail(ErrorCode::invalid_argument, "an order of ", count, " for ", g.inputs().size(),
           " inputs");
    std::vector<int> permutation;
    std::vector<bool> seen(count, false);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t from = checked_index(order[k], count, "input");
      if (seen[from]) fail(ErrorCode::invalid_argument, "input ", from, " is listed twice");
      seen[from] = true;
      permutation.push_back(static_cast<int>(from));
    }
    g.reorder_inputs(permutation);
  });
}

gex_status gex_graph_set_outputs(gex_graph* graph, const gex_value* outputs, size_t count) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    require_list(outputs, count, "outputs");
    std::vector<Value*> values;
    for (std::size_t k = 0; k < count; ++k)
      values.push_back(g.value(outputs[k], str("output ", k).c_str()));
    g.remove_assigned_outputs();
    const auto fits = [&](const Tie& tie) {
      return static_cast<std::size_t>(tie.output) < count &&
             values[static_cast<std::size_t>(tie.output)]->type() ==
                 g.graph->inputs()[static_cast<std::size_t>(tie.input)]->type();
    };
    for (const Tie& tie : g.graph->ties()) {
      if (fits(tie)) continue;
      g.append_assigned_outputs();
      fail(ErrorCode::invalid_argument, "output ", tie.output, " is tied to input ", tie.input,
           ", but the new outputs do not keep the tie");
    }
    g.graph->set_outputs(std::move(values));
    g.append_assigned_outputs();
  });
}

gex_status gex_graph_tie(gex_graph* graph, size_t output, size_t input) {
  return guarded([&] {
    Graph& g = *required(graph, "graph").graph;
    const Tie tie{static_cast<int>(checked_index(output, g.outputs().size(), "output")),
                  static_cast<int>(checked_index(input, g.inputs().size(), "input"))};
    for (const Tie& known : g.ties())
      if (known.output == tie.output || known.input == tie.input)
        fail(ErrorCode::invalid_argument, "output ", known.output, " is tied to input ",
             known.input, " already");
    if (std::string problem = tie_problem(g, tie); !problem.empty())
      fail(ErrorCode::type_mismatch, problem);
    g.ties().push_back(tie);
  });
}

gex_status gex_graph_name(const gex_graph* graph, char** name) {
  return guarded([&] { give_text(required(graph, "graph").graph->name(), name); });
}

gex_status gex_graph_input_count(const gex_graph* graph, size_t* count) {
  return guarded(
      [&] { required(count, "count") = required(graph, "graph").graph->inputs().size(); });
}

gex_status gex_graph_output_count(const gex_graph* graph, size_t* count) {
  return guarded(
      [&] { required(count, "count") = required(graph, "graph").graph->outputs().size(); });
}

gex_status gex_graph_get_input(gex_graph* graph, size_t index, gex_value* input) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const auto inputs = g.graph->inputs();
    required(input, "input") = g.handle(inputs[checked_index(index, inputs.size(), "input")].get());
  });
}

gex_status gex_graph_get_output(gex_graph* graph, size_t index, gex_value* output) {
  return guarded([&] {
    gex_graph& g = required(graph, "graph");
    const auto& outputs = g.graph->outputs();
    required(output, "output") = g.handle(outputs[checked_index(index, outputs.size(), "output")]);
  });
}

gex_status gex_value_name(const gex_graph* graph, gex_value value, char** name) {
  return guarded([&] { give_text(required(graph, "graph").value(value, "value")->name(), name); });
}

gex_status gex_value_type(const gex_graph* graph, gex_value value, gex_dtype* dtype, size_t* rank,
                          int64_t* shape, size_t capacity, char** text) {
  return guarded([&] {
    const Type& type = required(graph, "graph").value(value, "value")->type();
    if (type.is_token() && (dtype != nullptr || rank != nullptr || shape != nullptr))
      fail(ErrorCode::type_mismatch, "the value is a token, which has no elements");
    if (shape != nullptr && capacity < type.shape.size())
      fail(ErrorCode::invalid_argument, "the value is ", type, ", but there is room for ", capacity,
           " sizes");
    if (text != nullptr) give_text(type.text(), text);
    if (dtype != nullptr) *dtype = from_dtype(type.dtype);
    if (rank != nullptr) *rank = type.shape.size();
    for (std::size_t k = 0; shape != nullptr && k < type.shape.size(); ++k)
      shape[k] = type.shape[k].as_const().value_or(-1);
  });
}

gex_status gex_list_ops(char** text) {
  return guarded([&] {
    std::string list;
    for (const OpDef* op : all_ops()) list += describe(*op);
    give_text(list, text);
  });
}

}  // extern "C"
