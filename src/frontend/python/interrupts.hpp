#pragma once
// Ctrl-C in the middle of a loop that runs without Python's lock.

#include "runtime/session/run_control.hpp"

namespace gex::python {

// For runs whose exceptions reach Python: throws nb::python_error.
runtime::RunControl& raising_interrupts();
// For runs through the C interface, which no exception crosses: keeps the exception for
// take_raised() and stops the run.
runtime::RunControl& kept_interrupts();

}  // namespace gex::python
