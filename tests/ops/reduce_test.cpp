#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "run.hpp"

namespace gex {
namespace {

using namespace test;
using Values = std::vector<double>;
using Sizes = std::vector<std::int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

HostTensor reduce(const char* op, const HostTensor& x, ops::Ints axes, bool keepdim = false) {
  return run_one([&](Graph& g, auto& v) { return ops::reduce(g, op, v[0], axes, keepdim); }, {x});
}

TEST(Reduce, SumsOverAnyAxes) {
  const auto x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values(reduce("reduce_sum", x, {1})), (Values{6, 15}));
  EXPECT_EQ(values(reduce("reduce_sum", x, {0})), (Values{5, 7, 9}));
  EXPECT_EQ(values(reduce("reduce_sum", x, {0, 1})), (Values{21}));
  EXPECT_EQ(values(reduce("reduce_sum", x, {-1})), (Values{6, 15}));
}

TEST(Reduce, KeepdimLeavesUnitAxes) {
  const auto r = reduce("reduce_sum", f32({2, 3}, {1, 2, 3, 4, 5, 6}), {0}, true);
  EXPECT_EQ(r.shape(), (Sizes{1, 3}));
}

TEST(Reduce, AcceptsZeroDimensionalInput) {
  EXPECT_EQ(values(reduce("reduce_sum", f32({}, {7}), {})), (Values{7}));
  EXPECT_EQ(values(reduce("argmax", f32({}, {7}), {})), (Values{0}));
}

TEST(Reduce, OfNothingGivesTheNeutralElement) {
  EXPECT_EQ(values(reduce("reduce_sum", f32({2, 0}, {}), {1})), (Values{0, 0}));
  EXPECT_EQ(values(reduce("reduce_prod", f32({2, 0}, {}), {1})), (Values{1, 1}));
  EXPECT_EQ(values(reduce("reduce_all", tensor(DType::boolean, {0}, {}), {0})), (Values{1}));
  EXPECT_EQ(values(reduce("reduce_max", f32({2, 0}, {}), {1})), (Values{-kInf, -kInf}));
  EXPECT_THROW(reduce("argmax", f32({2, 0}, {}), {1}), UserError);
  EXPECT_EQ(reduce("argmax", f32({0, 0}, {}), {1}).numel(), 0);
}

TEST(Reduce, SmallIntegersAndBoolSumInI64) {
  const auto r = reduce("reduce_sum", tensor(DType::i8, {3}, {100, 100, 100}), {0});
  EXPECT_EQ(r.dtype(), DType::i64);
  EXPECT_EQ(values(r), (Values{300}));
  EXPECT_EQ(values(reduce("reduce_sum", tensor(DType::boolean, {3}, {1, 0, 1}), {0})), (Values{2}));
}

TEST(Reduce, LowFloatsAccumulateInF32) {
  // In f16 itself the sum would stop growing at 2048.
  const auto r = reduce("reduce_sum", tensor(DType::f16, {4000}, Values(4000, 1)), {0});
  EXPECT_EQ(values(r), (Values{4000}));
  EXPECT_EQ(values(reduce("reduce_mean", tensor(DType::f16, {4000}, Values(4000, 1)), {0})),
            (Values{1}));
}

TEST(Reduce, MaxAndMinPropagateNanAndInfinity) {
  EXPECT_EQ(values(reduce("reduce_max", f32({2}, {-kInf, -kInf}), {0})), (Values{-kInf}));
  EXPECT_TRUE(std::isnan(reduce("reduce_max", f32({3}, {1, kNan, 3}), {0}).get(0)));
  EXPECT_EQ(values(reduce("reduce_min", tensor(DType::i32, {3}, {4, -2, 3}), {0})), (Values{-2}));
  HostTensor big(DType::i64, {1});
  big.set_int(0, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(reduce("reduce_min", big, {0}).get_int(0), std::numeric_limits<std::int64_t>::max());
}

TEST(Reduce, ArgmaxTakesTheFirstAndNanWins) {
  EXPECT_EQ(values(reduce("argmax", f32({4}, {1, 5, 5, 2}), {0})), (Values{1}));
  EXPECT_EQ(values(reduce("argmax", f32({4}, {1, kNan, 5, kNan}), {0})), (Values{1}));
  EXPECT_EQ(values(reduce("argmin", f32({4}, {1, -5, -5, 2}), {0})), (Values{1}));
  EXPECT_EQ(values(reduce("argmax", f32({2}, {-kInf, -kInf}), {0})), (Values{0}));
  EXPECT_EQ(values(reduce("argmax", f32({2, 3}, {0, 1, 2, 9, 1, 0}), {0, 1})), (Values{3}));
}

TEST(Reduce, RejectsBadAxes) {
  EXPECT_THROW(reduce("reduce_sum", f32({2, 2}, {1, 2, 3, 4}), {2}), UserError);
  EXPECT_THROW(reduce("reduce_sum", f32({2, 2}, {1, 2, 3, 4}), {1, 1}), UserError);
}

TEST(AtenRows, MaxDimGivesValuesAndIndices) {
  const auto r = run_aten("aten.max.dim", [](auto& v) { return args(v[0], -1, false); },
                          {Type::tensor(DType::f32, {Dim(2)}), Type::tensor(DType::i64, {Dim(2)})},
                          {f32({2, 3}, {1, 3, 2, 9, 8, 7})});
  ASSERT_EQ(r.size(), 2u);
  EXPECT_EQ(values(r[0]), (Values{3, 9}));
  EXPECT_EQ(values(r[1]), (Values{1, 0}));
}

TEST(AtenRows, EmptyAxisListMeansAll) {
  const auto r =
      run_aten("aten.sum.dim_IntList",
               [](auto& v) { return args(v[0], std::vector<AtenArg>{}, false, nullptr); },
               {Type::tensor(DType::f32, {})}, {f32({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values(r.at(0)), (Values{10}));
}

}  // namespace
}  // namespace gex
