#include "deploy/text_code.hpp"

#include "backend/backend.hpp"
#include "cache/store.hpp"

namespace gex::deploy {

void check_processor() {}  // libgex has kernels for every processor

TextCode code_of_text(std::shared_ptr<const program::Program> program, bool fast_math,
                      bool autotune) {
  backend::CodeOptions options;
  options.fast_math = fast_math;
  options.autotune = autotune;
  options.cache = Store::from_environment();
  const Target target = backend::find_target(program->target);
  backend::CompiledCode code =
      backend::backend_for(target.kind).compile(std::move(program), options);
  return {std::move(code.executable), std::move(code.specialiser), std::move(code.generator)};
}

}  // namespace gex::deploy
