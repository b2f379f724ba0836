#pragma once
// User kernels by name: call steps that run in any process that has registered them.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "program/program.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime {

// Reads dense inputs and writes dense outputs, whose memory is already allocated. `parameters`: the
// text after the kernel's name in the graph. Throws UserError on failure. May be called from any
// thread.
using UserKernel =
    std::function<void(std::span<const TensorRef> inputs, std::span<const TensorRef> outputs,
                       const std::string& parameters)>;

// UserError(invalid_argument): the name is taken, or has a space in it.
void register_user_kernel(const std::string& name, UserKernel kernel);
bool has_user_kernel(std::string_view name);

// The name of the call step of a kernel, and back. Callee is kHostCallee.
std::string call_of_kernel(const std::string& name, const std::string& parameters);
struct KernelCall {
  std::string name, parameters;
};
bool is_kernel_call(const program::Call& call);
KernelCall kernel_of_call(const program::Call& call);

// UserError(not_found) if it is not registered.
const UserKernel& user_kernel(const std::string& name);

}  // namespace gex::runtime
