// The kernels of tests/loop/kernels, each against a plain C++ reference.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "kernel_test.hpp"
#include "loop/philox.hpp"

namespace gex::loop {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;

TEST(HandWritten, SoftmaxSumsToOneAndMatchesTheDefinition) {
  std::int64_t rows = 5, cols = 37;
  Floats x = random_floats(rows * cols), y(x.size()), want(x.size());
  x[3] = 90;  // far above the rest: e^x alone would overflow
  run(read_kernel("softmax"), {x.data(), y.data()}, {rows, cols});
  for (int i = 0; i < rows; ++i) {
    double top = *std::max_element(&x[i * cols], &x[i * cols] + cols), total = 0;
    for (int j = 0; j < cols; ++j) total += std::exp(x[i * cols + j] - top);
    for (int j = 0; j < cols; ++j) want[i * cols + j] = std::exp(x[i * cols + j] - top) / total;
  }
  expect_near(y, want, 1e-6);
}

TEST(HandWritten, SoftmaxOfARowThatStartsWithMinusInfinity) {
  Floats x = {-INFINITY, -INFINITY, 1, 1}, y(4);
  run(read_kernel("softmax"), {x.data(), y.data()}, {1, 4});
  EXPECT_EQ(y, (Floats{0, 0, 0.5, 0.5}));
}

TEST(HandWritten, LayerNorm) {
  std::int64_t rows = 4, cols = 50;
  Floats x = random_floats(rows * cols), g = random_floats(cols, 2), b = random_floats(cols, 3);
  Floats y(x.size()), want(x.size());
  run(read_kernel("layer_norm"), {x.data(), g.data(), b.data(), y.data()}, {rows, cols});
  for (int i = 0; i < rows; ++i) {
    double mean = 0, var = 0;
    for (int j = 0; j < cols; ++j) mean += x[i * cols + j] / double(cols);
    for (int j = 0; j < cols; ++j) var += std::pow(x[i * cols + j] - mean, 2) / double(cols);
    for (int j = 0; j < cols; ++j)
      want[i * cols + j] = (x[i * cols + j] - mean) / std::sqrt(var + 1e-5) * g[j] + b[j];
  }
  expect_near(y, want);
}

TEST(HandWritten, ArgmaxTakesTheFirstOfEqualValuesAndNaN) {
  float nan = NAN;
  Floats x = {1, 5, 5, 2, /**/ 1, nan, 7, nan, /**/ -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  Floats values(3);
  Ints at(3);
  run(read_kernel("argmax"), {x.data(), values.data(), at.data()}, {3, 4});
  EXPECT_EQ(at, (Ints{1, 1, 0}));
  EXPECT_EQ(values[0], 5);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], -INFINITY);
}

TEST(HandWritten, CumsumStoresEveryPrefixAndTheTotal) {
  Floats x = {1, 2, 3, 4, 5, 6}, y(6), total(2);
  run(read_kernel("cumsum"), {x.data(), y.data(), total.data()}, {2, 3});
  EXPECT_EQ(y, (Floats{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(total, (Floats{6, 15}));
}

TEST(HandWritten, CatWithAnEmptyOperandToo) {
  Floats a = {1, 2, 3, 4}, b = {5, 6}, y(6);
  run(read_kernel("cat"), {a.data(), b.data(), y.data()}, {2, 2, 1});
  EXPECT_EQ(y, (Floats{1, 2, 5, 3, 4, 6}));
  Floats z(4);
  run(read_kernel("cat"), {a.data(), nullptr, z.data()}, {2, 2, 0});
  EXPECT_EQ(z, a);
}

TEST(HandWritten, PaddedMaxPoolWithIndices) {
  std::int64_t planes = 2, h = 5, w = 6, oh = 3, ow = 3;
  Floats x = random_floats(planes * h * w), y(planes * oh * ow), want_y;
  Ints at(y.size()), want_at;
  run(read_kernel("max_pool"), {x.data(), y.data(), at.data()}, {planes, h, w});
  for (int c = 0; c < planes; ++c)
    for (int i = 0; i < oh; ++i)
      for (int j = 0; j < ow; ++j) {
        float best = -INFINITY;
        std::int64_t where = -1;
        for (int a = std::max(0, 2 * i - 1); a < std::min<int>(h, 2 * i + 2); ++a)
          for (int b = std::max(0, 2 * j - 1); b < std::min<int>(w, 2 * j + 2); ++b)
            if (float v = x[(c * h + a) * w + b]; v > best) best = v, where = a * w + b;
        want_y.push_back(best);
        want_at.push_back(where);
      }
  EXPECT_EQ(y, want_y);
  EXPECT_EQ(at, want_at);
}

TEST(HandWritten, BilinearResize) {
  std::int64_t planes = 2, h = 4, w = 3, oh = 7, ow = 8;
  Floats x = random_floats(planes * h * w), y(planes * oh * ow), want;
  run(read_kernel("bilinear"), {x.data(), y.data()}, {planes, h, w, oh, ow});
  auto source = [](int i, double in, double out) {
    return std::max((i + 0.5) * in / out - 0.5, 0.0);
  };
  for (int c = 0; c < planes; ++c)
    for (int i = 0; i < oh; ++i)
      for (int j = 0; j < ow; ++j) {
        double sy = source(i, h, oh), sx = source(j, w, ow);
        int y0 = int(sy), x0 = int(sx);
        int y1 = std::min<int>(y0 + 1, h - 1), x1 = std::min<int>(x0 + 1, w - 1);
        auto at = [&](int a, int b) { return double(x[(c * h + a) * w + b]); };
        double fy = sy - y0, fx = sx - x0;
        want.push_back((at(y0, x0) * (1 - fx) + at(y0, x1) * fx) * (1 - fy) +
                       (at(y1, x0) * (1 - fx) + at(y1, x1) * fx) * fy);
      }
  expect_near(y, want);
}

TEST(HandWritten, EmbeddingGradientAddsRepeatedTokensInOrderAndSkipsPadding) {
  std::int64_t tokens = 9, rows = 4, width = 3;
  Ints ids = {1, 3, 1, 0, 2, 1, 0, 3, 1};
  Floats grad = random_floats(tokens * width), table(rows * width, 99), want(rows * width, 0);
  run(read_kernel("embedding_gradient"), {ids.data(), grad.data(), table.data()},
      {tokens, width, rows});
  for (int t = 0; t < tokens; ++t)
    for (int j = 0; j < width; ++j)
      if (ids[t] != 0) want[ids[t] * width + j] += grad[t * width + j];
  EXPECT_EQ(table, want);  // the same order of additions: the same bits
}

TEST(HandWritten, RotaryAndCacheUpdateInPlaceTouchNothingElse) {
  std::int64_t batch = 2, heads = 2, steps = 3, half = 2, length = 8, width = 2 * half;
  Floats k = random_floats(batch * heads * steps * width), c = random_floats(length * half, 2),
         s = random_floats(length * half, 3);
  Ints position = {4, 5, 6, 0, 7, 1};
  Floats cache = random_floats(batch * heads * length * width, 4), want = cache;
  run(read_kernel("rotary_kv"), {k.data(), c.data(), s.data(), position.data(), cache.data()},
      {batch, heads, steps, half, length});
  for (int b = 0; b < batch; ++b)
    for (int h = 0; h < heads; ++h)
      for (int t = 0; t < steps; ++t)
        for (int d = 0; d < half; ++d) {
          std::int64_t p = position[b * steps + t];
          const float* row = &k[((b * heads + h) * steps + t) * width];
          float* out = &want[((b * heads + h) * length + p) * width];
          float co = c[p * half + d], si = s[p * half + d];
          out[d] = row[d] * co - row[d + half] * si;
          out[d + half] = row[d + half] * co + row[d] * si;
        }
  expect_near(cache, want, 1e-6);
}

TEST(HandWritten, DropoutDrawsPhiloxWordsInElementOrder) {
  std::int64_t n = 4001, key = 0x123456789abcdefLL;
  Floats x(n, 3.0f), y(n);
  std::vector<std::uint8_t> mask(n);
  run(read_kernel("dropout"), {x.data(), &key, y.data(), mask.data()}, {n});
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    auto words =
        philox4x32_10({static_cast<std::uint32_t>(i / 4), 0, 0, 0}, {0x89abcdef, 0x1234567});
    bool keep = (words[i % 4] >> 8) * 0x1p-24 < 0.75;
    EXPECT_EQ(mask[i] != 0, keep) << i;
    EXPECT_FLOAT_EQ(y[i], keep ? 4.0f : 0.0f) << i;
    kept += keep;
  }
  EXPECT_NEAR(double(kept) / double(n), 0.75, 0.03);
}

TEST(HandWritten, WelfordVarianceIsStableFarFromZero) {
  std::int64_t rows = 2, cols = 64;
  Floats x = random_floats(rows * cols), y(rows), want;
  for (float& v : x) v += 4096;  // sum of squares in f32 would lose everything
  run(read_kernel("variance"), {x.data(), y.data()}, {rows, cols});
  for (int i = 0; i < rows; ++i) {
    double mean = std::accumulate(&x[i * cols], &x[i * cols] + cols, 0.0) / double(cols), m2 = 0;
    for (int j = 0; j < cols; ++j) m2 += std::pow(x[i * cols + j] - mean, 2);
    want.push_back(m2 / double(cols - 1));
  }
  expect_near(y, want, 1e-3);
}

TEST(HandWritten, SumOverTheFirstAxis) {
  Floats x = {1, 2, 3, 4, 5, 6}, y(3);
  run(read_kernel("sum_axis0"), {x.data(), y.data()}, {2, 3});
  EXPECT_EQ(y, (Floats{5, 7, 9}));
}

TEST(HandWritten, SumOverAnEmptyAxisIsTheInitialValue) {
  Floats y(3, 99);
  run(read_kernel("sum_axis0"), {nullptr, y.data()}, {0, 3});
  EXPECT_EQ(y, (Floats{0, 0, 0}));
}

TEST(HandWritten, TiledMatmulWithRaggedEdgesAndTransposedOperand) {
  std::int64_t m = 6, k = 5, n = 11;
  Floats a = random_floats(m * k), b = random_floats(k * n, 2), bias = random_floats(n, 3);
  Floats y(m * n), want;
  run(read_kernel("matmul"), {a.data(), b.data(), bias.data(), y.data()}, {m, k, n});
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = bias[j];
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
      want.push_back(std::max(sum, 0.0));
    }
  expect_near(y, want);
}

TEST(HandWritten, EveryTextRoundTripsAndItsCanonicalFormToo) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GEX_TEST_DATA) + "/kernels")) {
    SCOPED_TRACE(entry.path().stem());
    Kernel kernel = read_kernel(entry.path().stem());
    std::string text = print(kernel);
    Kernel again = parse_kernel(text);
    EXPECT_EQ(again, kernel) << text;
    EXPECT_EQ(print(again), text);
    std::vector<Dim> symbols;
    Kernel canon = canonical(kernel, symbols);
    verify(canon);
    EXPECT_EQ(symbols.size(), kernel.symbols().size());
    EXPECT_EQ(parse_kernel(print(canon)), canon) << print(canon);
    EXPECT_EQ(structural_hash(canon), structural_hash(kernel));
    ++count;
  }
  EXPECT_GE(count, 13);
}

}  // namespace
}  // namespace gex::loop
