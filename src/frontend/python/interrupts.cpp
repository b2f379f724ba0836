#include "frontend/python/interrupts.hpp"

#include <nanobind/nanobind.h>

#include "frontend/python/es_resources.hpp"

namespace nb = nanobind;

namespace gex::python {

namespace {

using runtime::RunControl;
using runtime::RunStopped;

RunControl polling(void (*poll)()) {
  RunControl control;
  control.poll = poll;
  return control;
}

// Signal handlers run in the main thread only; elsewhere this does nothing.
void raise_signals() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void keep_signals() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() == 0) return;
  nb::python_error error;
  keep_raised(error);
  throw RunStopped(RunStopped::Why::cancelled, "a signal handler raised an exception");
}

}  // namespace

RunControl& raising_interrupts() {
  thread_local RunControl control = polling(raise_signals);
  return control;
}

RunControl& kept_interrupts() {
  thread_local RunControl control = polling(keep_signals);
  return control;
}

}  // namespace gex::python
