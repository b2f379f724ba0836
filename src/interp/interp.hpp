#pragma once
// The reference executor of graphs: runs node by node, each op by its own body or expansion. The
// oracle of every test, the constant folder and a debugging aid; not optimised.

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
  // Receives the results of every node, without tokens.
  std::function<void(const Node& node, std::span<const HostTensor> results)> observe;
  // Values of symbols that no input shape defines.
  std::vector<std::pair<Dim, std::int64_t>> symbols;
};

// UserError names the mismatched input, the expected and the actual type.
std::vector<HostTensor> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                  const InterpOptions& options = {});

}  // namespace gex::interp
