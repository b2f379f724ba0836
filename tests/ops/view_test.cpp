#include <gtest/gtest.h>

#include "run.hpp"

namespace gex {
namespace {

using namespace test;
using Values = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

HostTensor counting(Sizes shape) {
  HostTensor t(DType::f32, shape);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<double>(i));
  return t;
}

TEST(View, ReshapeKeepsRowMajorOrder) {
  for (const auto& [from, to] : std::vector<std::pair<Sizes, Sizes>>{{{2, 3, 4}, {6, 4}},
                                                                     {{2, 3, 4}, {2, 12}},
                                                                     {{24}, {2, 3, 4}},
                                                                     {{6, 4}, {4, 6}},
                                                                     {{2, 1, 3}, {2, 3}},
                                                                     {{1}, {}},
                                                                     {{}, {1, 1}},
                                                                     {{2, 0}, {0, 5}}}) {
    const HostTensor x = counting(from);
    const auto y = run_one(
        [&](Graph& g, auto& v) { return ops::reshape(g, v[0], Shape(to.begin(), to.end())); }, {x});
    EXPECT_EQ(y.shape(), to);
    EXPECT_EQ(values(y), values(x));
  }
}

TEST(View, ReshapeRejectsOtherElementCounts) {
  EXPECT_THROW(run_one([](Graph& g, auto& v) { return ops::reshape(g, v[0], {Dim(5)}); },
                       {counting({2, 3})}),
               UserError);
}

TEST(View, ReshapeIndexLeavesUntouchedAxesAlone) {
  // [s, 8] -> [s, 2, 4]: the leading axis must not be divided.
  Graph g;
  const Dim s = Dim::symbol("s");
  Value* x = g.add_input(Type::tensor(DType::f32, {s, Dim(8)}));
  Value* y = ops::reshape(g, x, {s, Dim(2), Dim(4)});
  EXPECT_EQ(y->type().shape, (Shape{s, Dim(2), Dim(4)}));
}

TEST(View, TransposeMovesAxes) {
  const auto y = run_one([](Graph& g, auto& v) { return ops::transpose(g, v[0], {2, 0, 1}); },
                         {counting({2, 3, 2})});
  EXPECT_EQ(y.shape(), (Sizes{2, 2, 3}));
  EXPECT_EQ(values(y), (Values{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
}

TEST(View, SliceStartsAndSteps) {
  const auto y =
      run_one([](Graph& g, auto& v) { return ops::slice(g, v[0], 0, 1, 3, 2); }, {counting({7})});
  EXPECT_EQ(values(y), (Values{1, 3, 5}));
  EXPECT_THROW(
      run_one([](Graph& g, auto& v) { return ops::slice(g, v[0], 0, 1, 4, 2); }, {counting({7})}),
      UserError);
}

TEST(View, ExpandFlipAndSelect) {
  EXPECT_EQ(values(run_one([](Graph& g, auto& v) { return ops::expand(g, v[0], {Dim(2), Dim(3)}); },
                           {f32({1, 3}, {1, 2, 3})})),
            (Values{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(values(run_one([](Graph& g, auto& v) { return ops::flip(g, v[0], {1}); },
                           {counting({2, 3})})),
            (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(values(run_one([](Graph& g, auto& v) { return ops::select(g, v[0], 1, 2); },
                           {counting({2, 3})})),
            (Values{2, 5}));
}

TEST(View, CatJoinsIncludingEmptyParts) {
  const auto y = run_one([](Graph& g, auto& v) { return ops::cat(g, {v[0], v[1], v[2]}, 1); },
                         {f32({2, 1}, {1, 2}), f32({2, 0}, {}), f32({2, 2}, {3, 4, 5, 6})});
  EXPECT_EQ(y.shape(), (Sizes{2, 3}));
  EXPECT_EQ(values(y), (Values{1, 3, 4, 2, 5, 6}));
}

TEST(View, PadFillsAndCrops) {
  const auto y = run_one([](Graph& g, auto& v) { return ops::pad(g, v[0], {Dim(1)}, {Dim(2)}, 9); },
                         {f32({2}, {1, 2})});
  EXPECT_EQ(values(y), (Values{9, 1, 2, 9, 9}));
  const auto z = run_one([](Graph& g, auto& v) { return ops::pad(g, v[0], {Dim(-1)}, {Dim(-1)}); },
                         {f32({4}, {1, 2, 3, 4})});
  EXPECT_EQ(values(z), (Values{2, 3}));
}

TEST(AtenRows, SliceCountsNegativePositionsFromTheEnd) {
  const auto r = run_aten("aten.slice.Tensor",
                          [](auto& v) { return args(v[0], 0, -3, 9223372036854775807, 1); },
                          {Type::tensor(DType::f32, {Dim(3)})}, {counting({7})});
  EXPECT_EQ(values(r.at(0)), (Values{4, 5, 6}));
}

TEST(AtenRows, RollShiftsAround) {
  const auto r = run_aten("aten.roll.default", [](auto& v) { return args(v[0], args(2), args(0)); },
                          {Type::tensor(DType::f32, {Dim(5)})}, {counting({5})});
  EXPECT_EQ(values(r.at(0)), (Values{3, 4, 0, 1, 2}));
}

TEST(AtenRows, RepeatTilesEachAxis) {
  const auto r = run_aten("aten.repeat.default", [](auto& v) { return args(v[0], args(2, 2)); },
                          {Type::tensor(DType::f32, {Dim(2), Dim(4)})}, {counting({2})});
  EXPECT_EQ(values(r.at(0)), (Values{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(AtenRows, TrilKeepsTheLowerTriangle) {
  const auto r =
      run_aten("aten.tril.default", [](auto& v) { return args(v[0], 0); },
               {Type::tensor(DType::f32, {Dim(2), Dim(2)})}, {f32({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values(r.at(0)), (Values{1, 0, 3, 4}));
}

TEST(AtenRows, SliceBackwardPutsTheGradientBack) {
  for (std::int64_t step : {1, 2}) {
    const auto r = run_aten("aten.slice_backward.default",
                            [&](auto& v) { return args(v[0], args(6), 0, 1, 6, step); },
                            {Type::tensor(DType::f32, {Dim(6)})}, {f32({2}, {7, 8})});
    EXPECT_EQ(values(r.at(0)), step == 1 ? (Values{0, 7, 8, 0, 0, 0}) : (Values{0, 7, 0, 8, 0, 0}));
  }
}

}  // namespace
}  // namespace gex
