#include "compile/program_text.hpp"

#include "backend/backend.hpp"
#include "program/program.hpp"

namespace gex {

std::shared_ptr<const program::Executable> compile_program_text(std::string_view text) {
  auto program = std::make_shared<program::Program>(program::parse_program(text));
  program::verify(*program);
  const Target target = parse_target(program->target);
  backend::CompiledCode code = backend::backend_for(target.kind).compile(std::move(program), {});
  return std::make_shared<const program::Executable>(std::move(code.executable));
}

}  // namespace gex
