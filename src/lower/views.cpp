#include "lower/views.hpp"

#include <algorithm>

#include "loop/view_index.hpp"

namespace gex::lower {

std::vector<Dim> index_variables(const Shape& shape, std::string_view prefix) {
  std::vector<Dim> index;
  index.reserve(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    index.push_back(Dim::index(str(prefix, d), shape[d]));
  }
  return index;
}

Dim linearise(std::span<const Dim> index, std::span<const Dim> strides) {
  GEX_CHECK(index.size() == strides.size(), "index of rank ", index.size(), " with ",
            strides.size(), " strides");
  Dim offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

std::vector<Dim> reindex(const Shape& from, std::span<const Dim> index, const Shape& to) {
  Dim linear = linearise(index, dense_strides(from));
  std::vector<Dim> strides = dense_strides(to);
  std::vector<Dim> result(to.size());
  if (std::find(to.begin(), to.end(), Dim(0)) != to.end()) return result;  // there are no elements
  for (std::size_t d = 0; d < to.size(); ++d) {
    Dim at = floordiv(linear, strides[d]);
    result[d] = d == 0 ? at : mod(at, to[d]);
    if (to[d] == Dim(1)) result[d] = 0;
  }
  return result;
}

namespace {

bool has_division(Dim e) {
  switch (e.kind()) {
    case Dim::Kind::constant:
    case Dim::Kind::symbol:
      return false;
    case Dim::Kind::floordiv:
    case Dim::Kind::mod: {
      // A quotient of sizes is computed once for each call, one of indices for each element.
      std::vector<Dim> symbols;
      e.collect_symbols(symbols);
      for (Dim s : symbols) {
        if (s.extent()) return true;
      }
      return false;
    }
    default:
      for (Dim operand : e.operands()) {
        if (has_division(operand)) return true;
      }
      return false;
  }
}

}  // namespace

bool is_clean(std::span<const Dim> index) {
  for (Dim e : index) {
    if (has_division(e)) return false;
  }
  return true;
}

std::vector<Dim> memory_strides(const Value& value) {
  const Type& type = value.type();
  return type.strides ? *type.strides : dense_strides(type.shape);
}

std::optional<StridedView> resolve_view(Value* value) {
  std::vector<Dim> variables = index_variables(value->type().shape, "r");
  std::vector<Dim> index = variables;
  Value* base = value;
  while (base->producer() != nullptr) {
    auto up = loop::view_operand_index(*base->producer(), index);
    if (!up) break;
    index = std::move(*up);
    base = base->producer()->input(0);
  }
  StridedView view{base, {}, linearise(index, memory_strides(*base))};
  for (Dim variable : variables) {
    auto parts = affine_in(view.offset, variable);
    if (!parts) return std::nullopt;
    view.strides.push_back(parts->coefficient);
    view.offset = parts->rest;
  }
  for (Dim stride : view.strides) {
    for (Dim v : variables) {
      if (stride.depends_on(v)) return std::nullopt;
    }
  }
  return view;
}

}  // namespace gex::lower
