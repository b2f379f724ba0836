#include "kernel_test.hpp"

namespace gex::loop {
namespace {

Kernel good() {
  return parse_kernel(R"(
kernel k(x: in f32[n], ids: in i64[n], y: out f32[n], t: out f32[]) grid(i < n) {
  local l: f32[4]
  stage reduce(j < n) {
    v = load x[j]
    id = load ids[i] : i64 in [0, 3]
    acc a: f32 = 0 <- v
    combine sum
    s = acc a
    store l[id] = s
  }
  stage { w = load l[0]  store y[i] = w }
})");
}

void expect_invalid(const Kernel& kernel, const std::string& part) {
  try {
    verify(kernel);
    ADD_FAILURE() << "verified, expected: " << part;
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_graph);
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Verify, AcceptsAGoodKernel) { EXPECT_NO_THROW(verify(good())); }

TEST(Verify, RejectsAStoreToAnInput) {
  Kernel k = good();
  k.stages[1].stores[0].buffer = 0;
  expect_invalid(k, "store to input 'x'");
}

TEST(Verify, RejectsAForwardReference) {
  Kernel k = good();
  k.stages[0].exprs[0].pred = 2;
  k.stages[0].exprs[0].fill = 2;
  expect_invalid(k, "not defined before it");
}

TEST(Verify, RejectsAnIndexOfAnotherLoop) {
  Kernel k = good();
  k.stages[1].exprs[0].index = {k.stages[0].reduce[0].index};
  expect_invalid(k, "reads loop index j");
}

TEST(Verify, RejectsAWrongRankAndAWrongDtype) {
  Kernel k = good();
  k.stages[1].exprs[0].index = {};
  expect_invalid(k, "'l' has rank 1");
  k = good();
  k.buffers[2].dtype = DType::f64;
  expect_invalid(k, "'y' holds f64");
}

TEST(Verify, RejectsAnElementThatReadsTheAccumulator) {
  Kernel k = good();
  k.stages[0].reduction->elements[0] = 2;
  expect_invalid(k, "reads an accumulator");
}

TEST(Verify, RejectsAnAccumulatorAtAnElementOutsideAScan) {
  Kernel k = good();
  k.stages[0].stores[0] = {2, {k.stages[0].reduce[0].index}, 2};
  expect_invalid(k, "use a scan");
  k.stages[0].reduction->scan = true;
  EXPECT_NO_THROW(verify(k));
}

TEST(Verify, RejectsTwoRangesOfOneValueSymbol) {
  Kernel k = good();
  Store again = k.stages[0].stores[0];
  again.index = {value_symbol(1, {0, 2})};
  k.stages[0].stores.push_back(again);
  expect_invalid(k, "two ranges");
}

TEST(Verify, RejectsAnIndexThatIsNotI64) {
  Kernel k = good();
  k.stages[0].stores[0].index = {value_symbol(0)};
  expect_invalid(k, "must be i64");
}

TEST(Verify, RejectsAConstantThatItsDtypeCantHold) {
  Kernel k = good();
  Expr c;
  c.dtype = DType::f32;
  c.imm = 0.1;
  k.stages[1].exprs.push_back(c);
  expect_invalid(k, "constant is not a f32");
}

TEST(Verify, RejectsReduceLoopsWithoutAReduction) {
  Kernel k = good();
  k.stages[0].reduction.reset();
  expect_invalid(k, "or neither");
}

TEST(Verify, RejectsLoopsThatShareAName) {
  Kernel k = good();
  k.stages[1].domain.push_back(k.grid[0]);
  expect_invalid(k, "are named 'i'");
}

TEST(Verify, RejectsAParameterAfterALocal) {
  Kernel k = good();
  std::swap(k.buffers[3], k.buffers[4]);
  expect_invalid(k, "is declared after a local");
}

TEST(Verify, RejectsLhsOutsideACombineAndLoadsInside) {
  Kernel k = good();
  k.stages[0].exprs[2].kind = Expr::Kind::lhs;
  expect_invalid(k, "allowed in a combine");
  k = good();
  k.stages[0].reduction->combine.exprs.push_back(k.stages[0].exprs[0]);
  expect_invalid(k, "combine body: only");
}

}  // namespace
}  // namespace gex::loop
