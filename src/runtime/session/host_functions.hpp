#pragma once
// Functions that run as `call` steps in any host process, without Python: reference kernels for
// what has no loop body (strings, decoding, non-maximum suppression).

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"

namespace gex::runtime {

using HostFunction = std::function<std::vector<HostTensor>(std::span<const HostTensor> operands,
                                                           std::span<const std::int64_t> integers)>;

// Callee of every `call` node that is one of these; the name of the call says which.
inline constexpr std::int64_t kHostCallee = 1 << 24;

// The name says all that the function depends on, attributes included: registering a name again
// changes nothing. Functions live as long as the process.
void register_host_function(const std::string& name, HostFunction function);
const HostFunction* find_host_function(const std::string& name);  // null if there is none

}  // namespace gex::runtime
