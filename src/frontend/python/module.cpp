#include <nanobind/nanobind.h>

#include "base/error.hpp"
#include "frontend/python/bindings.hpp"

NB_MODULE(_gex, m) {
  using namespace gex;
  m.doc() = "The C++ side of gex.";
  // Compiled functions that PyTorch keeps until exit are not leaks.
  nanobind::set_leak_warnings(false);
  // Both kinds of errors have one base class, so that callers can tell their own errors from bugs.
  nanobind::exception<Error> base(m, "Error", PyExc_RuntimeError);
  nanobind::exception<UserError>(m, "UserError", base.ptr());
  nanobind::exception<InternalError>(m, "InternalError", base.ptr());
  python::bind_ir(m);
  python::bind_importer(m);
  python::bind_captures(m);
  python::bind_runner(m);
  python::bind_es(m);
  python::bind_passes(m);
  python::bind_onnx(m);
  python::bind_report(m);
  python::bind_model(m);
}
