#pragma once
// A graph as an ONNX ModelProto in protobuf's text format, for viewers (Netron) and for tools that
// read ONNX. Ops keep their own names, in the domain "gex": it is to be looked at, not to be run.

#include <string>

#include "ir/graph.hpp"

namespace gex {

std::string print_onnx(const Graph& graph);

}  // namespace gex
