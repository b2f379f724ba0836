#pragma once
// Writes a graph as the bytes of an ONNX file. Ops that ONNX has become its operators, so that
// other engines can run the file if all of them are; the others keep their names in the domain
// "gex", for viewers.

#include <string>

#include "ir/graph.hpp"

namespace gex::onnx {

struct Exported {
  std::string bytes;
  std::vector<std::string> foreign;  // names of ops that only gex has
};

Exported export_graph(const Graph& graph);

}  // namespace gex::onnx
