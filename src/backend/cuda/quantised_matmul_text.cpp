#include "backend/cuda/problem_text.hpp"
#include "base/error.hpp"
namespace gex::backend::cuda {
KernelText quantised_text(const problems::QuantisedMatmulProblem&, const AttachedKernels&,
                          std::span<const Dim>, const DeviceLimits&) {
  fail(ErrorCode::unsupported, "todo");
}
}
