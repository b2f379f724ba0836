#include "passes/pipeline.hpp"

#include "passes/dce.hpp"
#include "passes/expand.hpp"

namespace gex::passes {

const std::vector<Pass>& builtin_passes() {
  static const std::vector<Pass> passes = {
      // Middle: cheap clean-ups that feed each other, to a fixpoint.
      {"dce", "removes what nobody uses", Stage::middle, 1, eliminate_dead_code},
      // Late: fusion sees only ops with loop bodies and Choices, so composites go, and what their
      // expansions share or leave unused goes with them. Level 0: without it nothing could be
      // lowered.
      {"expand", "replaces composites by what they are made of", Stage::late, 0, expand_composites},
      {"late-dce", "removes what expansions left unused", Stage::late, 1, eliminate_dead_code},
  };
  return passes;
}

}  // namespace gex::passes
