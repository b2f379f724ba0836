#pragma once
// Values of a graph's size symbols, found by matching the input types with actual tensors.

#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace gex::interp {

using SymbolValues = std::unordered_map<Dim, std::int64_t>;

// Adds to `values`. UserError names the input, its axis, the expected and the actual size.
void bind_symbols(const Graph& graph, std::span<const HostTensor> inputs, SymbolValues& values);

// UserError(not_found) if a symbol has no value.
std::int64_t evaluate(Dim dim, const SymbolValues& values);

}  // namespace gex::interp
