#include "backend/parsed_codes.hpp"

#include "base/error.hpp"

namespace gex::backend {

namespace {

void check_attached(const ParsedCode& code) {
  problems::OperandSet computed = 0;
  for (const program::Code::Prologue& prologue : code.prologues) {
    if (prologue.operand > 3)
      fail(ErrorCode::parse_error, "code \"", code.name, "\" computes operand ", prologue.operand,
           ", which its problem does not have");
    computed |= 1 << prologue.operand;
  }
  if (!code.problem) {
    if (code.kernel < 0 || computed != 0)
      fail(ErrorCode::parse_error, "code \"", code.name,
           "\" has neither a problem nor a loop kernel of its own");
    return;
  }
  if (computed != problems::computed_operands(*code.problem))
    fail(ErrorCode::parse_error, "code \"", code.name,
         "\": its prologues do not match the computed operands of its problem");
  if (!problems::takes_attached_kernels(*code.problem) && (code.kernel >= 0 || computed != 0))
    fail(ErrorCode::parse_error, "code \"", code.name, "\": a ", problems::print(*code.problem),
         " takes no attached kernels");
}

}  // namespace

std::vector<ParsedCode> parse_problems(const program::Program& program) {
  std::vector<ParsedCode> result;
  for (const program::Code& code : program.codes) {
    ParsedCode parsed;
    parsed.name = code.name;
    parsed.algorithm = code.algorithm;
    if (!code.problem.empty()) parsed.problem = problems::parse_problem(code.problem);
    parsed.kernel = code.kernel;
    parsed.extra_buffers = code.extra_buffers;
    parsed.prologues = code.prologues;
    check_attached(parsed);
    result.push_back(std::move(parsed));
  }
  return result;
}

ParsedCodes parse_codes(const program::Program& program) {
  ParsedCodes result;
  for (const std::string& text : program.kernels) {
    result.kernels.push_back(loop::parse_kernel(text));
    loop::verify(result.kernels.back());
  }
  result.codes = parse_problems(program);
  return result;
}

}  // namespace gex::backend
