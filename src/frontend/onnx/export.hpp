#pragma once
// A graph as the bytes of an ONNX file. Ops that ONNX has become its operators, so that engines can
// run the file where all of them are; the others keep their names in the domain "gex", for viewers.

#include <string>

#include "ir/graph.hpp"

namespace gex::onnx {

struct Exported {
  std::string bytes;
  std::vector<std::string> foreign;  // ops that only gex knows, by name
};

Exported export_graph(const Graph& graph);

}  // namespace gex::onnx
