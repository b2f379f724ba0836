#pragma once
// Call steps implemented by host functions, for the Host of a run.

#include <cstdint>
#include <map>
#include <span>

#include "base/tensor.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime {

// Runs the call steps of one run of a Session with registered host functions.
class HostCalls {
 public:
  // As Host::call; UserError if the callee is not a host function.
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
