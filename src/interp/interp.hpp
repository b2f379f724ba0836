#pragma once
// The reference executor of graphs: runs node by node, each op by its own body or expansion. It is
// the oracle of every test, the folder of constants and the debugger; it is slow and meant to be.

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace gex::interp {

struct InterpOptions {
  // Runs call and call_effect nodes: operands without the token, and the evaluated integers.
  std::function<std::vector<HostTensor>(const Node& node, std::span<const HostTensor> operands,
                                        std::span<const std::int64_t> integers)>
      call;
  // Sees the results of every node, tokens left out.
  std::function<void(const Node& node, std::span<const HostTensor> results)> observe;
  // Values of symbols that no input's shape tells.
  std::vector<std::pair<Dim, std::int64_t>> symbols;
};

// UserError says which input does not fit, what was expected and what came.
std::vector<HostTensor> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                  const InterpOptions& options = {});

}  // namespace gex::interp
