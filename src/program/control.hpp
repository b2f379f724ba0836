#pragma once
// The if and while steps of Programs.

#include <array>

#include "program/program.hpp"

namespace gex::program {

bool is_control(const Step& step);
bool has_control(const Program& program);
// Of an if or while step. The segments: then, else; condition, body.
std::array<int, 2> segments_of(const Step& control);
BufferId condition_of(const Step& control);

}  // namespace gex::program
