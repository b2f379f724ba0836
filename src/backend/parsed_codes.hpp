#pragma once
// The codes of a Program as values: its kernel and problem texts, parsed and checked.

#include <optional>
#include <string>
#include <vector>

#include "loop/kernel.hpp"
#include "problems/problem.hpp"
#include "program/program.hpp"

namespace gex::backend {

struct ParsedCode {
  std::string name, algorithm;
  std::optional<problems::Problem> problem;
  int kernel = -1;  // the loop kernel, or the epilogue of the problem
  int extra_buffers = 0;
  std::vector<program::Code::Prologue> prologues;
};

struct ParsedCodes {
  std::vector<loop::Kernel> kernels;
  std::vector<ParsedCode> codes;
};

// The codes alone, for a Program whose kernels have functions already.
std::vector<ParsedCode> parse_problems(const program::Program& program);

// UserError(parse_error) names the code and what is wrong with it.
ParsedCodes parse_codes(const program::Program& program);

}  // namespace gex::backend
