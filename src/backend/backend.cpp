#include "backend/backend.hpp"

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "base/error.hpp"

namespace gex::backend {

void Backend::pack(const problems::Problem& problem, std::span<const std::int64_t>, std::int64_t,
                   const void*, void*) const {
  GEX_CHECK(false, problems::print(problem), " has no packed operands on this target");
}

const Backend& backend_for(Target::Kind kind) {
  return kind == Target::Kind::cpu ? cpu::backend() : cuda::backend();
}

Target find_target(std::string_view text) {
  Target target = parse_target(text);
  const Backend& backend = backend_for(target.kind);
  return backend.describe(std::move(target));
}

}  // namespace gex::backend
