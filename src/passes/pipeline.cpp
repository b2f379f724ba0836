#include "passes/pipeline.hpp"

#include "passes/assign_layouts.hpp"
#include "passes/canonicalise.hpp"
#include "passes/cse.hpp"
#include "passes/dce.hpp"
#include "passes/expand.hpp"
#include "passes/fold.hpp"
#include "passes/fold_batch_norm.hpp"
#include "passes/recognise_attention.hpp"
#include "passes/recognise_silu.hpp"
#include "passes/split_reductions.hpp"

namespace gex::passes {

const std::vector<Pass>& builtin_passes() {
  static const std::vector<Pass> passes = {
      // Early: what the user meant, while it still looks as they wrote it.
      {"early-canonicalise", "removes identities that would hide patterns", Stage::early, 1,
       canonicalise},
      {"fold-batch-norm",
       "puts a batch norm with constant statistics into the convolution's weights", Stage::early, 2,
       fold_batch_norm},
      recognise_silu(),
      {"recognise-attention", "matmul, scale, mask, softmax, matmul become attention", Stage::early,
       2, recognise_attention},
      // Middle: cheap clean-ups that feed each other, to a fixpoint. Dead code last: the others
      // leave
      // replaced nodes behind.
      {"canonicalise", "removes identities and joins chains of views and casts", Stage::middle, 1,
       canonicalise},
      {"fold", "computes what depends on constants alone", Stage::middle, 1, fold_constants},
      {"cse", "merges nodes that compute the same", Stage::middle, 1, merge_equal_nodes},
      {"dce", "removes what nobody uses", Stage::middle, 1, eliminate_dead_code},
      // Late: fusion sees only ops with loop bodies and Choices, so composites go, and what their
      // expansions share or leave unused goes with them. Level 0: without it nothing could be
      // lowered.
      {"expand", "replaces composites by what they are made of", Stage::late, 0, expand_composites},
      {"late-canonicalise", "removes identities that expansions made", Stage::late, 1,
       canonicalise},
      {"late-cse", "merges what expansions have in common", Stage::late, 1, merge_equal_nodes},
      {"split-reductions", "folds a large tensor to one number in two steps", Stage::late, 2,
       split_reductions},
      {"late-dce", "removes what expansions left unused", Stage::late, 1, eliminate_dead_code},
      {"assign-layouts", "contractions write what is only read transposed in that order",
       Stage::late, 2, assign_layouts},
  };
  return passes;
}

}  // namespace gex::passes
