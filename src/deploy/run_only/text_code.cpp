#include "deploy/text_code.hpp"

#include <mutex>

#include "backend/cpu/attached.hpp"
#include "backend/parsed_codes.hpp"
#include "base/log.hpp"
#include "interp/eval_kernel.hpp"

namespace gex::deploy {

TextCode code_of_text(std::shared_ptr<const program::Program> program, bool, bool) {
  static std::once_flag once;
  std::call_once(once, [] {
    log(LogArea::code, LogLevel::warning,
        "kernels run in the reference executor, many times slower: libgex_run has no compiler, and "
        "the machine code of the file is not trusted. Load it with trust if you know where it "
        "comes "
        "from, or use libgex");
  });
  const backend::ParsedCodes codes = backend::parse_codes(*program);
  std::vector<program::Callable> functions;
  for (const loop::Kernel& kernel : codes.kernels) functions.push_back(interp::interpreted(kernel));
  TextCode result;
  result.executable.functions = backend::cpu::functions_of_codes(codes.codes, functions);
  result.executable.program = std::move(program);
  result.generator = "interpreter: libgex_run has no compiler";
  return result;
}

}  // namespace gex::deploy
