#include "interp/bind_symbols.hpp"

#include "base/error.hpp"

namespace gex::interp {

namespace {

std::string describe(const Graph& graph, std::size_t k) {
  const std::string& name = graph.inputs()[k]->name();
  return name.empty() ? str("input ", k) : str("input ", k, " ('", name, "')");
}

std::string shape_text(const HostTensor& t) {
  return text_of(Shape(t.shape().begin(), t.shape().end()));
}

std::vector<Dim> unbound_in(Dim dim, const SymbolValues& values) {
  std::vector<Dim> symbols, unbound;
  dim.collect_symbols(symbols);
  for (Dim s : symbols) {
    if (!values.contains(s)) unbound.push_back(s);
  }
  return unbound;
}

// Solves c*s + rest for its only unbound symbol; false if there is not exactly one.
bool solve(Dim dim, std::int64_t actual, SymbolValues& values) {
  const auto unbound = unbound_in(dim, values);
  if (unbound.size() != 1) return false;
  const auto parts = affine_in(dim, unbound[0]);
  if (!parts || !unbound_in(parts->coefficient, values).empty()) return false;
  const std::int64_t c = evaluate(parts->coefficient, values);
  const std::int64_t rest = evaluate(parts->rest, values);
  if (c == 0 || (actual - rest) % c != 0) return false;
  const std::int64_t value = (actual - rest) / c;
  const DimRange range = unbound[0].range();
  if (value < range.lo || value > range.hi) {
    fail(ErrorCode::shape_mismatch, unbound[0], " would be ", value, ", outside its range [",
         range.lo, ", ", range.hi, "]");
  }
  values.emplace(unbound[0], value);
  return true;
}

void check_kind(const Graph& graph, std::size_t k, const HostTensor& actual) {
  const Type& type = graph.inputs()[k]->type();
  if (type.dtype != actual.dtype() || type.shape.size() != actual.shape().size()) {
    fail(ErrorCode::type_mismatch, "graph '", graph.name(), "': ", describe(graph, k), " is ", type,
         ", got ", actual.dtype(), shape_text(actual));
  }
}

}  // namespace

std::int64_t evaluate(Dim dim, const SymbolValues& values) {
  return dim.eval([&](Dim symbol) -> std::int64_t {
    auto it = values.find(symbol);
    if (it == values.end()) {
      fail(ErrorCode::not_found, "symbol ", symbol,
           " has no value: no input shape defines it. Set it in InterpOptions::symbols");
    }
    return it->second;
  });
}

void bind_symbols(const Graph& graph, std::span<const HostTensor> inputs, SymbolValues& values) {
  if (inputs.size() != graph.inputs().size()) {
    fail(ErrorCode::invalid_argument, "graph '", graph.name(), "' takes ", graph.inputs().size(),
         " inputs, got ", inputs.size());
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) check_kind(graph, k, inputs[k]);
  // Bare symbols first, then whatever they determine, until nothing new is found.
  for (bool learnt = true; learnt;) {
    learnt = false;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const Shape& shape = graph.inputs()[k]->type().shape;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        learnt |= solve(shape[i], inputs[k].shape()[i], values);
      }
    }
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Shape& shape = graph.inputs()[k]->type().shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (!unbound_in(shape[i], values).empty()) continue;  // an error only if it is needed
      const std::int64_t expected = evaluate(shape[i], values);
      if (expected != inputs[k].shape()[i]) {
        fail(ErrorCode::shape_mismatch, "graph '", graph.name(), "': ", describe(graph, k), " is ",
             graph.inputs()[k]->type(), ", got ", shape_text(inputs[k]), ": axis ", i, " is ",
             inputs[k].shape()[i], ", expected ", shape[i], shape[i].is_const() ? "" : " = ",
             shape[i].is_const() ? "" : std::to_string(expected));
      }
    }
  }
}

}  // namespace gex::interp
