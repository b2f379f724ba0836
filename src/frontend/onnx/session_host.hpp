#pragma once
// One run of a runtime::Session on tensors of an ONNX model, host functions included.

#include <span>
#include <vector>

#include "base/tensor.hpp"
#include "runtime/session/session.hpp"

namespace gex::onnx {

struct HostValue;

// The leaves of the inputs in order. Returns the outputs, dense.
std::vector<HostTensor> run_session(runtime::Session& session,
                                    std::span<const HostValue* const> inputs);

}  // namespace gex::onnx
