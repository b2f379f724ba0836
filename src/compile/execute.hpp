#pragma once
// Runs a Session on plain host tensors: for the command line, the C API and tests. Graphs with
// `call` steps need a front end that resolves the callees.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "runtime/session/session.hpp"

namespace gex {

// Tensor inputs in signature order (integer inputs as 0-d i64 tensors). Tied inputs are updated in
// place, which is why they are not const. Returns the outputs, dense.
std::vector<HostTensor> execute(runtime::Session& session, std::span<HostTensor> inputs);

// Opens the device of a target ("cpu", "cuda:N") before anything is compiled for it. UserError that
// names the target if there is no such device.
std::shared_ptr<runtime::DeviceContext> open_target(const std::string& target);

}  // namespace gex
