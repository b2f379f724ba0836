#include <gtest/gtest.h>

#include "base/error.hpp"
#include "problems/problem.hpp"

namespace gex::problems {
namespace {

TEST(ProblemText, parses_back_to_the_same_problem) {
  AttentionProblem attention;
  attention.scale = 0.1 + 0.2;
  attention.causal = Causal::top_left;
  Conv2dProblem conv;
  conv.stride = {2, 3};
  conv.groups = 4;
  conv.w_packed = conv.winograd = true;
  const Problem all[] = {MatmulProblem{DType::bf16, DType::f32, DType::f16, true},
                         conv,
                         Conv2dWeightGradProblem{conv},
                         Conv2dInputGradProblem{conv},
                         attention,
                         SortProblem{DType::i32, true, Ties::as_sort, 3, false, true},
                         GroupedMatmulProblem{{}, DType::i32},
                         GroupedWeightGradProblem{{{}, DType::i32}},
                         QuantisedMatmulProblem{DType::bf16, DType::u8, 4, 32, -8, true, DType::f16,
                                                true, DType::bf16, true, true}};
  for (const Problem& problem : all)
    EXPECT_EQ(parse_problem(print(problem)), problem) << print(problem);
  AttentionProblem near = attention;
  near.scale = 0.3;
  EXPECT_NE(print(near), print(attention));
  EXPECT_THROW(parse_problem("matmul f32 f32"), UserError);
  EXPECT_THROW(parse_problem("matmul f32 f32 f32 2"), UserError);
  EXPECT_THROW(parse_problem("nothing"), UserError);
}

}  // namespace
}  // namespace gex::problems
