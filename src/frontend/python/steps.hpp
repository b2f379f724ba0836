#pragma once
// The steps of a Program as Python dicts, for traces of captures.

#include <nanobind/nanobind.h>
#include <cstdint>
#include <span>

#include "frontend/python/bindings.hpp"
#include "program/program.hpp"

namespace gex::python {

// A dict for each step in order: kind, name, stream, line and, if applicable, grid, bytes, event.
// Branches and loop bodies follow their step. `key`: values of the input symbols.
nb::list steps_of(const program::Program& program, std::span<const std::int64_t> key);

}  // namespace gex::python
