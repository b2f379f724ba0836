#include "passes/pipeline.hpp"

#include "passes/assign_layouts.hpp"
#include "passes/canonicalise.hpp"
#include "passes/clip_constants.hpp"
#include "passes/convolution_products.hpp"
#include "passes/cse.hpp"
#include "passes/dce.hpp"
#include "passes/expand.hpp"
#include "passes/flatten_matmuls.hpp"
#include "passes/fold.hpp"
#include "passes/fold_batch_norm.hpp"
#include "passes/fold_shapes.hpp"
#include "passes/inline_control.hpp"
#include "passes/integer_products.hpp"
#include "passes/merge_matmuls.hpp"
#include "passes/quantised_products.hpp"
#include "passes/recognise_attention.hpp"
#include "passes/recognise_norm.hpp"
#include "passes/recognise_silu.hpp"
#include "passes/reduced_concatenations.hpp"
#include "passes/separate_axes.hpp"
#include "passes/simplify_views.hpp"
#include "passes/sink_transposes.hpp"
#include "passes/split_reductions.hpp"
#include "passes/transposed_convolutions.hpp"

namespace gex::passes {

// Level 0 is what lowering requires; level 1 folds, but keeps the user's nodes and their order;
// level 2 is what pays everywhere; level 3 what pays on some machines and shapes.
const std::vector<Pass>& builtin_passes() {
  static const std::vector<Pass> passes = {
      // Early: recognise patterns while they still look as the user wrote them.
      {"early-canonicalise", "removes identities that would hide patterns", Stage::early, 1,
       canonicalise},
      {"fold-batch-norm",
       "folds a batch norm with constant statistics into the convolution's weights", Stage::early,
       2, fold_batch_norm},
      // Before constants are folded: weights stay integers.
      {"integer-products",
       "matmuls and convolutions of dequantised tensors become products of "
       "8-bit integers",
       Stage::early, 2, integer_products},
      // After them: weights alone are quantised.
      quantised_products(),
      quantised_products_of_few_rows(),
      recognise_silu(),
      recognise_norm(),
      {"recognise-attention", "matmul, scale, mask, softmax, matmul become attention", Stage::early,
       2, recognise_attention},
      convolution_products(),
      // After attention, which matches the single matmuls.
      {"merge-matmuls", "merges matmuls of one value with several constant matrices", Stage::early,
       3, merge_matmuls},
      flatten_matmuls(),
      // Middle: cheap cleanups that enable each other, to a fixpoint. Dead code last: the others
      // leave replaced nodes behind.
      {"canonicalise", "removes identities and joins chains of views and casts", Stage::middle, 1,
       canonicalise},
      {"simplify-views", "merges slices, casts around views, and slices with concatenations",
       Stage::middle, 2, simplify_views},
      {"reduced-parts", "reduces a stack without making it", Stage::middle, 2, reduced_parts},
      {"sink-transposes", "cancels transposes around elementwise ops", Stage::middle, 2,
       sink_transposes},
      {"fold-shapes", "computes arithmetic on sizes symbolically", Stage::middle, 1, fold_shapes},
      {"clip-constants", "constants beyond a narrower float's range become its largest number",
       Stage::middle, kOnRequest, clip_constants},
      {"fold", "computes what depends only on constants", Stage::middle, 1, fold_constants},
      select_transposed_convolutions(),
      {"inline-control", "replaces if and while with a known condition", Stage::middle, 1,
       inline_control},
      {"cse", "merges nodes that compute the same", Stage::middle, 2, merge_equal_nodes},
      {"dce", "removes unused nodes", Stage::middle, 2, eliminate_dead_code},
      // Late: fusion handles only ops with loop bodies or problems, so composites are expanded, and
      // what their expansions share or leave unused is removed. Level 0: required for lowering.
      {"expand-integer-products", "products of 8-bit integers for targets without kernels for them",
       Stage::late, kOnRequest, expand_integer_products},
      expand_quantised_products(),
      {"expand", "expands composite ops", Stage::late, 0, expand_composites},
      {"late-canonicalise", "removes identities that expansions made", Stage::late, 1,
       canonicalise},
      {"late-cse", "merges common parts of expansions", Stage::late, 2, merge_equal_nodes},
      {"split-reductions", "reduces a large tensor to one number in two steps", Stage::late, 2,
       split_reductions},
      separate_axes(),
      {"late-dce", "removes what expansions left unused", Stage::late, 2, eliminate_dead_code},
      {"assign-layouts",
       "makes contractions write results that are only read transposed in that order", Stage::late,
       2, assign_layouts},
  };
  return passes;
}

}  // namespace gex::passes
