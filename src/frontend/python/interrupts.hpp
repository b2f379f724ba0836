#pragma once
// Ctrl-C during a loop that runs without the GIL.

#include "runtime/session/run_control.hpp"

namespace gex::python {

// For runs whose exceptions reach Python: throws nb::python_error.
runtime::RunControl& raising_interrupts();
// For runs through the C interface, which exceptions can't cross: keeps the exception for
// take_raised() and stops the run.
runtime::RunControl& kept_interrupts();

}  // namespace gex::python
