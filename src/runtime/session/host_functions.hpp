#pragma once
// Functions that run as `call` steps in any host process, without Python: reference kernels for ops
// without a loop body (strings, decoding, non-maximum suppression).

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"

namespace gex::runtime {

using HostFunction = std::function<std::vector<HostTensor>(std::span<const HostTensor> operands,
                                                           std::span<const std::int64_t> integers)>;

// Callee number of every `call` node that names a host function; the call's name selects it.
inline constexpr std::int64_t kHostCallee = 1 << 24;

// The name includes everything that the function depends on, attributes included, so registering a
// name again has no effect. Functions live as long as the process.
void register_host_function(const std::string& name, HostFunction function);
const HostFunction* find_host_function(const std::string& name);  // null if there is none

}  // namespace gex::runtime
