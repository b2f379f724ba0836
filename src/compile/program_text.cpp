#include "compile/program_text.hpp"

#include "program/program.hpp"

namespace gex {

backend::CompiledCode compile_program(program::Program program,
                                      const backend::CodeOptions& options) {
  program::verify(program);
  const Target target = parse_target(program.target);
  return backend::backend_for(target.kind)
      .compile(std::make_shared<const program::Program>(std::move(program)), options);
}

std::shared_ptr<const program::Executable> compile_program_text(std::string_view text) {
  backend::CompiledCode code = compile_program(program::parse_program(text));
  return std::make_shared<const program::Executable>(std::move(code.executable));
}

}  // namespace gex
