#include "program/step_names.hpp"

namespace gex::program {

std::string_view kind_of(const Step& step) {
  constexpr std::string_view kKinds[] = {"launch", "copy",  "fill",   "call", "bind",
                                         "if",     "while", "record", "wait"};
  return kKinds[step.op.index()];
}

std::string name_of(const Step& step) {
  if (const auto* launch = std::get_if<Launch>(&step.op)) return launch->name;
  if (const auto* call = std::get_if<Call>(&step.op)) return call->name;
  return std::string(kind_of(step));
}

}  // namespace gex::program
