#include <gtest/gtest.h>

#include "run.hpp"

namespace gex {
namespace {

using namespace test;
using Values = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

HostTensor matmul(const HostTensor& a, const HostTensor& b, bool wide = false) {
  return run_one([&](Graph& g, auto& v) { return ops::matmul(g, v[0], v[1], wide); }, {a, b});
}

TEST(Matmul, MultipliesMatrices) {
  const auto c = matmul(f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({3, 2}, {1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(values(c), (Values{4, 5, 10, 11}));
}

TEST(Matmul, BroadcastsBatchAxes) {
  const auto a = random_tensor(DType::f32, {2, 1, 3, 4}, -1, 1, 1);
  const auto b = random_tensor(DType::f32, {5, 4, 2}, -1, 1, 2);
  const auto c = matmul(a, b);
  ASSERT_EQ(c.shape(), (Sizes{2, 5, 3, 2}));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 5; ++j)
      for (int m = 0; m < 3; ++m)
        for (int n = 0; n < 2; ++n) {
          double expected = 0;
          for (int k = 0; k < 4; ++k)
            expected += a.get((i * 3 + m) * 4 + k) * b.get((j * 4 + k) * 2 + n);
          EXPECT_NEAR(c.get(((i * 5 + j) * 3 + m) * 2 + n), expected, 1e-6);
        }
}

TEST(Matmul, LowFloatsAccumulateWideAndRoundOnce) {
  const auto ones = tensor(DType::bf16, {1, 1000}, Values(1000, 1));
  const auto column = tensor(DType::bf16, {1000, 1}, Values(1000, 1));
  EXPECT_EQ(values(matmul(ones, column)), (Values{1000}));
  const auto wide = matmul(ones, column, true);
  EXPECT_EQ(wide.dtype(), DType::f32);
}

TEST(Matmul, OverAnEmptyAxisIsZero) {
  EXPECT_EQ(values(matmul(f32({2, 0}, {}), f32({0, 2}, {}))), (Values{0, 0, 0, 0}));
}

TEST(Matmul, NamesBothShapesWhenInnerSizesDiffer) {
  try {
    matmul(f32({2, 3}, Values(6)), f32({2, 3}, Values(6)));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("f32[2, 3]"), std::string::npos) << e.what();
  }
}

TEST(AtenRows, AddmmScalesAndAdds) {
  const auto r =
      run_aten("aten.addmm.default", [](auto& v) { return args(v[0], v[1], v[2], 2.0, 0.5); },
               {Type::tensor(DType::f32, {Dim(1), Dim(2)})},
               {f32({2}, {10, 20}), f32({1, 2}, {2, 4}), f32({2, 2}, {1, 0, 0, 1})});
  EXPECT_EQ(values(r.at(0)), (Values{21, 42}));
}

TEST(AtenRows, MatmulOfVectorsDropsTheirAxes) {
  const auto r =
      run_aten("aten.dot.default", [](auto& v) { return args(v[0], v[1]); },
               {Type::tensor(DType::f32, {})}, {f32({3}, {1, 2, 3}), f32({3}, {4, 5, 6})});
  EXPECT_EQ(r.at(0).shape(), Sizes{});
  EXPECT_EQ(values(r.at(0)), (Values{32}));
}

}  // namespace
}  // namespace gex
