#pragma once
// A Python error in one line, for messages that cross the C interface.

#include <nanobind/nanobind.h>

#include <string>

namespace gex::python {

// "ValueError: no parts (model.py:12)": the error, and the line that raised it. Needs the GIL.
std::string one_line(const nanobind::python_error& error);

}  // namespace gex::python
