#pragma once
// Tensors for `gex run`: made from what the command line says, and printed for people.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace gex::tool {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// One tensor for each graph input. `sources` says where from by name or number: an .npy file or
// random, ones, zeros, iota (0, 1, 2, ...); random where nothing is said. `dims` gives size symbols
// that no file tells.
std::vector<HostTensor> make_inputs(const Graph& graph, const Pairs& sources, const Pairs& dims,
                                    std::uint64_t seed);

// "f32[2, 3]" and nested brackets; long axes are shortened in the middle.
std::string text_of(const HostTensor& tensor);

}  // namespace gex::tool
