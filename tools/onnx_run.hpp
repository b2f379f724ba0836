#pragma once
// ONNX models for `gex run`: unlike a graph, a model may depend on the values of its inputs.

#include <string>
#include <vector>

#include "arguments.hpp"
#include "base/tensor.hpp"

namespace gex::tool {

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

// Runs the model once on inputs made as for a graph.
std::vector<NamedTensor> run_onnx(const Arguments& arguments);

}  // namespace gex::tool
