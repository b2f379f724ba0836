#pragma once
// What people call a step, in reports and drawings.

#include <string>
#include <string_view>

#include "program/program.hpp"

namespace gex::program {

std::string_view kind_of(const Step& step);  // launch, copy, call, while, ...
std::string name_of(const Step& step);       // of a launch or call: its own; else the kind

}  // namespace gex::program
