#pragma once
// Tensors for `gex run`: created according to the command line, and printed.

#include <string>
#include <vector>

#include "arguments.hpp"
#include "base/tensor.hpp"
#include "interp/bind_symbols.hpp"
#include "ir/graph.hpp"

namespace gex::tool {

// The values that --dim gives to size symbols of the graph's inputs.
interp::SymbolValues sizes_given(const Graph& graph, const Arguments& arguments);

// One tensor per graph input. --input gives the source by name or number: an .npy file or random,
// ones, zeros, iota (0, 1, 2, ...); the default is random from --seed. --dim sets size symbols that
// no file defines.
std::vector<HostTensor> make_inputs(const Graph& graph, const Arguments& arguments);

// "f32[2, 3]" and nested brackets; long axes are shortened in the middle.
std::string text_of(const HostTensor& tensor);

// {"name": "y", "dtype": "f32", "shape": [2], "values": [1, 2.5]}: values nested by axes, null
// above 65,536 elements.
std::string json_of(const std::string& name, const HostTensor& tensor);

}  // namespace gex::tool
