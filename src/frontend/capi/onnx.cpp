// Graphs from ONNX files through gex.h.

#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"
#include "frontend/onnx/importer.hpp"

using namespace gex;
using namespace gex::capi;

extern "C" {

gex_status gex_import_onnx(const char* path, gex_graph** graph) {
  return guarded([&] {
    required(path, "path");
    required(graph, "graph");
    *graph = new gex_graph(onnx::import_graph(onnx::read_model(path)));
  });
}

}  // extern "C"
