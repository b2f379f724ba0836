#include "program/control.hpp"

#include <algorithm>

namespace gex::program {

bool is_control(const Step& step) {
  return std::holds_alternative<If>(step.op) || std::holds_alternative<While>(step.op);
}

bool has_control(const Program& program) {
  return std::ranges::any_of(program.segments, [](const Segment& segment) {
    return std::ranges::any_of(segment.steps, is_control);
  });
}

std::array<int, 2> segments_of(const Step& control) {
  if (const auto* branch = std::get_if<If>(&control.op))
    return {branch->then_segment, branch->else_segment};
  const auto& loop = std::get<While>(control.op);
  return {loop.condition_segment, loop.body_segment};
}

BufferId condition_of(const Step& control) {
  if (const auto* branch = std::get_if<If>(&control.op)) return branch->condition;
  return std::get<While>(control.op).condition;
}

}  // namespace gex::program
