// Ops under GE's names that take sizes as tensors, and layers of networks.

#include <es_ReduceSum.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace {

using namespace ge;
using namespace ge::es;
using gex::es::Tensor;
using Floats = std::vector<float>;
using Function = std::function<EsTensorHolder(EsGraphBuilder&, const EsTensorHolder&)>;

// Of x [2, 3] = {-1, 0, 1, 2, 3, 8}; the first axis is determined at run time.
Tensor result_of(const Function& function) {
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_ND, {-1, 3});
  return builder.BuildAndReset({function(builder, x)})
      ->Run({Tensor::Of<float>({2, 3}, {-1, 0, 1, 2, 3, 8})})[0];
}
Floats values_of(const Function& function) { return result_of(function).ToVector<float>(); }

const Axes kFlat = {-1};

TEST(GeOps, SizesAsTensors) {
  EXPECT_EQ(result_of([](auto&, auto& x) { return es::Shape(x); }).ToVector<std::int32_t>(),
            (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(result_of([](auto&, auto& x) { return Size(x, DT_INT64); }).ToVector<std::int64_t>(),
            std::vector<std::int64_t>{6});
  EXPECT_EQ(result_of([](auto&, auto& x) { return Rank(x); }).ToVector<std::int32_t>(),
            std::vector<std::int32_t>{2});
  EXPECT_EQ(result_of([](auto&, auto& x) { return Reshape(x, kFlat); }).text(), "f32[6]");
  EXPECT_EQ(result_of([](auto& b, auto& x) {
              const auto sizes = es::Shape(x, DT_INT64);
              const auto rows = Slice(sizes, Axes{0}, Axes{1}), three = b.CreateVector({3});
              const auto scalar = b.CreateScalar(0);
              return Reshape(x, Concat(scalar, {three, rows}, 2));
            }).text(),
            "f32[3, 2]");
  EXPECT_EQ(
      result_of([](auto& b, auto& x) { return Fill(es::Shape(x), b.CreateScalar(2.5F)); }).text(),
      "f32[2, 3]");
}

TEST(GeOps, Parts) {
  EXPECT_EQ(values_of([](auto&, auto& x) { return Slice(x, Axes{0, 1}, Axes{-1, 2}); }),
            (Floats{0, 1, 3, 8}));
  EXPECT_EQ(
      values_of([](auto&, auto& x) { return StridedSlice(x, Axes{0, 0}, Axes{2, 3}, Axes{1, 2}); }),
      (Floats{-1, 1, 2, 8}));
  EXPECT_EQ(values_of([](auto&, auto& x) {
              return StridedSlice(x, Axes{-1, 0}, Axes{0, 2}, Axes{1, 1}, 2, 0, 0, 0, 1);
            }),
            (Floats{2, 3}));
  EXPECT_EQ(values_of([](auto&, auto& x) { return SplitV(x, Axes{1, 2}, 1, 2)[1]; }),
            (Floats{0, 1, 3, 8}));
  EXPECT_EQ(values_of([](auto&, auto& x) { return Tile(x, Axes{1, 2}); }),
            (Floats{-1, 0, 1, -1, 0, 1, 2, 3, 8, 2, 3, 8}));
  EXPECT_EQ(values_of([](auto& b, auto& x) {
              return Pad(x, b.CreateConst(std::vector<std::int32_t>{0, 0, 1, 0}, {2, 2}));
            }),
            (Floats{0, -1, 0, 1, 0, 2, 3, 8}));
  EXPECT_EQ(values_of([](auto&, auto& x) { return ReverseV2(x, Axes{1}); }),
            (Floats{1, 0, -1, 8, 3, 2}));
}

TEST(GeOps, ReductionsAndGathers) {
  EXPECT_EQ(values_of([](auto&, auto& x) { return ReduceSum(x, Axes{-1}); }), (Floats{0, 13}));
  EXPECT_EQ(values_of([](auto& b, auto& x) { return ReduceMax(x, b.CreateVector({0}), true); }),
            (Floats{2, 3, 8}));
  EXPECT_EQ(values_of([](auto& b, auto& x) { return Cumsum(x, b.CreateScalar(1), true); }),
            (Floats{0, -1, -1, 0, 2, 5}));
  EXPECT_EQ(values_of([](auto& b, auto& x) { return Cumsum(x, b.CreateScalar(1), false, true); }),
            (Floats{0, 1, 1, 13, 11, 8}));
  EXPECT_EQ(result_of([](auto& b, auto& x) {
              return ArgMaxV2(x, b.CreateScalar(1), DT_INT32);
            }).template ToVector<std::int32_t>(),
            (std::vector<std::int32_t>{2, 2}));
  EXPECT_EQ(values_of([](auto& b, auto& x) { return TopKV2(x, b.CreateScalar(2)).values; }),
            (Floats{1, 0, 8, 3}));
  EXPECT_EQ(values_of([](auto& b, auto& x) {
              return GatherV2(x, b.CreateVector({2, 0}), b.CreateScalar(1));
            }),
            (Floats{1, -1, 8, 2}));
  EXPECT_EQ(values_of([](auto& b, auto& x) {
              return GatherNd(x, b.CreateConst(std::vector<std::int64_t>{1, 2, 0, 0}, {2, 2}));
            }),
            (Floats{8, -1}));
  EXPECT_EQ(values_of([](auto& b, auto& x) {
              return OneHot(Cast(Slice(x, Axes{1, 0}, Axes{1, 2}), DT_INT32), 4,
                            b.CreateScalar(1.0F), b.CreateScalar(0.0F));
            }),
            (Floats{0, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(values_of([](auto&, auto& x) { return MaskedFill(x, Less(x, 1.0), 5.0); }),
            (Floats{5, 5, 1, 2, 3, 8}));
}

TEST(GeOps, Norms) {
  const Floats normed = values_of([](auto& b, auto& x) {
    return LayerNorm(x, b.CreateVector({1.0F, 1.0F, 1.0F}), b.CreateVector({0.0F, 0.0F, 0.0F}), 1,
                     1)
        .y;
  });
  EXPECT_NEAR(normed[0], -1.2247F, 1e-3);
  const Floats variance = values_of([](auto& b, auto& x) {
    return LayerNorm(x, b.CreateVector({1.0F, 1.0F, 1.0F}), b.CreateVector({0.0F, 0.0F, 0.0F}), 1,
                     1)
        .variance;
  });
  EXPECT_NEAR(variance[0], 2.0F / 3, 1e-4);
  EXPECT_NEAR(values_of([](auto& b, auto& x) {
                return RmsNorm(x, b.CreateVector({1.0F, 1.0F, 1.0F})).y;
              })[2],
              1.2247F, 1e-3);
  EXPECT_NEAR(values_of([](auto&, auto& x) { return L2Normalize(x, {1}); })[2], 0.7071F, 1e-3);
  const auto per_channel = [](auto& b) { return b.CreateVector({1.0F, 2.0F, 3.0F}); };
  EXPECT_NEAR(values_of([&](auto& b, auto& x) {
                const auto c = per_channel(b);
                return BatchNorm(x, c, c, c, c, 0.0F, "NCHW", false).y;
              })[5],
              3 + 5 * 3 / std::sqrt(3.0F), 1e-4);
  EXPECT_NEAR(values_of([&](auto& b, auto& x) {
                const auto c = per_channel(b);
                return BatchNorm(x, c, c, EsTensorHolder(), EsTensorHolder(), 0.0F).y;
              })[3],
              2.0F, 1e-4);
}

// Of an image [1, 1, 3, 3] with 1 to 9.
Floats of_image(
    const std::function<EsTensorHolder(EsGraphBuilder&, const EsTensorHolder&)>& function) {
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_NCHW, {1, 1, 3, 3});
  return builder.BuildAndReset({function(builder, x)})
      ->Run({Tensor::Of<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})})[0]
      .ToVector<float>();
}

TEST(GeOps, Windows) {
  EXPECT_EQ(of_image([](auto&, auto& x) { return MaxPool(x, {2, 2}, {2, 2}, "SAME"); }),
            (Floats{5, 6, 8, 9}));
  EXPECT_EQ(
      of_image([](auto&, auto& x) { return AvgPool(x, {1, 1, 2, 2}, {1, 1, 1, 1}, "VALID"); }),
      (Floats{3, 4, 6, 7}));
  EXPECT_EQ(of_image([](auto&, auto& x) { return GlobalAveragePool(x); }), (Floats{5}));
  EXPECT_EQ(of_image([](auto& b, auto& x) {
              const auto filter = b.CreateConst(Floats{1, 1, 1, 1}, {1, 1, 2, 2});
              return DepthwiseConv2D(x, filter, nullptr, nullptr, {1, 1, 1, 1}, {0, 0, 0, 0});
            }),
            (Floats{12, 16, 24, 28}));
  EXPECT_EQ(of_image([](auto&, auto& x) { return ResizeNearestNeighborV2(x, Axes{1, 3}); }),
            (Floats{1, 2, 3}));
}

TEST(GeOps, WhatIsUnknownOrUnsupportedIsNamed) {
  const auto error = [](const Function& function) {
    try {
      result_of(function);
    } catch (const gex::es::Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error([](auto&, auto& x) {
              return Reshape(x, Cast(ReduceSum(x, Axes{0}), DT_INT64));
            }).find("'reduce_sum'"),
            std::string::npos);
  EXPECT_NE(error([](auto&, auto& x) { return Reshape(x, Axes{-1, -1}); }).find("only one size"),
            std::string::npos);
  EXPECT_NE(error([](auto&, auto& x) {
              return MaxPool(Reshape(x, Axes{1, 1, 2, 3}), {2, 2}, {1, 1}, "FULL");
            }).find("'FULL'"),
            std::string::npos);
}

}  // namespace
