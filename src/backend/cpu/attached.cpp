#include "backend/cpu/attached.hpp"

#include "backend/cpu/kernels/make.hpp"
#include "base/error.hpp"

namespace gex::backend::cpu {

std::vector<program::Callable> functions_of_codes(std::span<const ParsedCode> codes,
                                                  std::span<const program::Callable> kernels) {
  const auto function_of = [&](int kernel) {
    if (kernel < 0 || static_cast<std::size_t>(kernel) >= kernels.size())
      fail(ErrorCode::parse_error, "a code names kernel ", kernel, " of ", kernels.size());
    return kernels[static_cast<std::size_t>(kernel)];
  };
  std::vector<program::Callable> functions;
  for (const ParsedCode& code : codes)
    functions.push_back(code.problem ? kernels::make(*code.problem, attached_to(code, function_of))
                                     : function_of(code.kernel));
  return functions;
}

}  // namespace gex::backend::cpu
