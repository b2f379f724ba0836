#pragma once
// The parts of the extension module; module.cpp combines them.

#include <nanobind/nanobind.h>

#include "ir/graph.hpp"
#include "ops/rows/aten.hpp"

namespace gex::python {

namespace nb = nanobind;

// A Value as Python holds it: alive as long as the importer or graph that owns it.
struct ValueRef {
  Value* value;
};

void bind_ir(nb::module_& m);        // Dim, DType, Type, Value, Graph
void bind_importer(nb::module_& m);  // Importer, rows
void bind_runner(nb::module_& m);    // PythonSignature parts, compiled callables
void bind_captures(nb::module_& m);  // how they capture
void bind_es(nb::module_& m);        // the builder behind gex.es
void bind_onnx(nb::module_& m);      // ONNX models, behind gex.onnx
void bind_model(nb::module_& m);     // model files of imported graphs
void bind_passes(nb::module_& m);    // users' passes, behind gex.passes
void bind_report(nb::module_& m);    // report models and pages, behind gex.report

}  // namespace gex::python
