#pragma once
// Functions that run as `call` steps in any host process, without Python: reference kernels for
// what has no loop body (strings, decoding, non-maximum suppression).

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime {

using HostFunction = std::function<std::vector<HostTensor>(std::span<const HostTensor> operands,
                                                           std::span<const std::int64_t> integers)>;

// The callee number of the function; the same for the same key, whoever registers it. The key says
// all that the function depends on (name and attributes). Functions live as long as the process.
std::int64_t register_host_function(const std::string& key, HostFunction function);
const HostFunction* find_host_function(std::int64_t callee);  // null if it is none of these

// Runs the call steps of one run of a Session by these functions, for its Host.
class HostCalls {
 public:
  // As Host::call; UserError if the callee is none of these.
  void run(const program::Call& call, std::span<const TensorRef> inputs,
           std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
           std::span<Host::CallResult> outputs);
  const HostTensor& at(std::uint64_t handle) const;
  void release(std::uint64_t handle);

 private:
  std::map<std::uint64_t, HostTensor> results_;
  std::uint64_t last_ = 0;
};

}  // namespace gex::runtime
