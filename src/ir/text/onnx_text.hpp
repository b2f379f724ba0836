#pragma once
// A graph as an ONNX ModelProto in protobuf text format, for viewers (Netron) and tools that read
// ONNX. Ops keep their own names in the domain "gex": it is for display, not for execution.

#include <string>

#include "ir/graph.hpp"

namespace gex {

std::string print_onnx(const Graph& graph);

}  // namespace gex
