#pragma once
// Index maps of views, resolved symbolically. Used to pass strided operands to contractions and
// calls without copying, and to map indices through reshapes.

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace gex::lower {

// Fresh loop indices named prefix0, prefix1, ... over a shape.
std::vector<Dim> index_variables(const Shape& shape, std::string_view prefix);

Dim linearise(std::span<const Dim> index, std::span<const Dim> strides);

// The index of the same element after a dense reshape from one shape to another.
std::vector<Dim> reindex(const Shape& from, std::span<const Dim> index, const Shape& to);
// Without floor-div or mod of indices: cheap to compute and easy to vectorise.
bool is_clean(std::span<const Dim> index);

// A value as a strided window of another value's memory.
struct StridedView {
  Value* base = nullptr;
  std::vector<Dim>
      strides;  // one for each axis of the viewed value, in elements of the base's memory
  Dim offset;   // in elements
};

// Follows views up to the first value that is not a view; nothing if the composed map is not
// affine.
std::optional<StridedView> resolve_view(Value* value);

// The strides of a value that owns memory: those of its type, else dense.
std::vector<Dim> memory_strides(const Value& value);

}  // namespace gex::lower
