// Layouts and shapes that the planner treats differently: transposes, permutations, short rows,
// columns, broadcasts, reshapes that do not merge.

#include "base/error.hpp"
#include "harness.hpp"

namespace gex::codegen {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(Layouts, TransposeWithABiasOnEachAxis) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n, m], a: in f32[n], b: in f32[m], y: out f32[m, n])"
      "grid(j < m, i < n) { stage { v = load x[i, j]\n p = load a[i]\n q = load b[j]\n"
      "r = add(mul(v, p), q)\n store y[j, i] = r } }");
  for (Sizes s : {Sizes{1, 1}, Sizes{16, 16}, Sizes{17, 33}, Sizes{40, 3}, Sizes{3, 40}})
    check(random_case(k, s), 1);
}

TEST(Layouts, BatchedTransposeInEveryDtype) {
  for (const char* dtype : {"f64", "f32", "f16", "i64", "i16", "u8", "bool"}) {
    auto k =
        loop::parse_kernel(std::string("kernel k(x: in ") + dtype + "[b, n, m], y: out " + dtype +
                           "[b, m, n]) grid(c < b, j < m, i < n) { stage {"
                           "v = load x[c, i, j]\n store y[c, j, i] = v } }");
    check(random_case(k, {3, 19, 35}), 0);
  }
}

TEST(Layouts, StoresTransposedRelativeToLoads) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n, m], y: out f32[m, n]) grid(i < n, j < m) { stage {"
      "v = load x[i, j]\n store y[j, i] = v } }");
  for (Sizes s : {Sizes{1, 5}, Sizes{30, 21}, Sizes{16, 64}}) check(random_case(k, s), 0);
}

TEST(Layouts, ReversedAndStridedAndBroadcastReads) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n], s: in f32[], w: in f32[2*n], y: out f32[n]) grid(i < n) { stage {"
      "a = load x[n - 1 - i]\n b = load s[]\n c = load w[2*i + 1]\n r = add(mul(a, b), c)\n"
      "store y[i] = r } }");
  for (std::int64_t n : {1, 15, 16, 50}) check(random_case(k, {n}), 1);
}

TEST(Layouts, EverySecondToFifthElementInEveryDtype) {
  for (const char* dtype : {"f64", "f32", "bf16", "i64", "i16", "u8", "bool"}) {
    for (const char* step : {"2", "3", "4", "5"}) {
      // The last read is the last element there is.
      auto k = loop::parse_kernel(str("kernel k(x: in ", dtype, "[(n - 1)*", step, " + 1], y: out ",
                                      dtype, "[n]) grid(i < n) { stage {", "v = load x[i*", step,
                                      "]\n store y[i] = v } }"));
      for (std::int64_t n : {1, 7, 16, 33, 70}) check(random_case(k, {n}), 0);
    }
  }
}

TEST(Layouts, SteppedReadsThatStopAtBothEdges) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n], y: out f32[(n + 1)//2]) grid(i < (n + 1)//2) { stage {"
      "p = index 2*i - 1\n zero = const 0 : i64\n end = index n\n"
      "above = ge(p, zero)\n below = lt(p, end)\n inside = bit_and(above, below)\n"
      "fill = const -1 : f32\n v = load x[2*i - 1] if inside else fill\n"
      "store y[i] = v } }");
  for (std::int64_t n : {1, 2, 15, 31, 32, 33, 112}) check(random_case(k, {n}), 0);
}

TEST(Layouts, ReversedReadsInEveryDtype) {
  for (const char* dtype : {"f64", "f32", "bf16", "f16", "i64", "i16", "u8", "bool"}) {
    auto k = loop::parse_kernel(str("kernel k(x: in ", dtype, "[m, n], y: out ", dtype,
                                    "[m, n]) grid(r < m, i < n) { stage {"
                                    "v = load x[r, n - 1 - i]\n store y[r, i] = v } }"));
    for (std::int64_t n : {1, 7, 16, 33, 70}) check(random_case(k, {3, n}), 0);
  }
}

TEST(Layouts, ReversedReadsThatStopAtBothEdges) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n], y: out f32[n + 6]) grid(i < n + 6) { stage {"
      "p = index n + 2 - i\n zero = const 0 : i64\n end = index n\n"
      "above = ge(p, zero)\n below = lt(p, end)\n inside = bit_and(above, below)\n"
      "fill = const -1 : f32\n v = load x[n + 2 - i] if inside else fill\n"
      "store y[i] = v } }");
  for (std::int64_t n : {1, 2, 15, 31, 32, 33, 112}) check(random_case(k, {n}), 0);
}

TEST(Layouts, ReshapeThatDoesNotMerge) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n, m], y: out f32[m, n]) grid(i < m, j < n) { stage {"
      "v = load x[(i*n + j)//m, (i*n + j) % m]\n store y[i, j] = v } }");
  for (Sizes s : {Sizes{7, 5}, Sizes{20, 33}, Sizes{1, 1}}) check(random_case(k, s), 0);
}

// As a whole the offset is i*3 + j, so the loops merge; its parts need i and j.
TEST(Layouts, ReshapeWhosePartsNeedBothLoops) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[5, 3, 4], y: out f32[20, 3]) grid(i < 20, j < 3) { stage {"
      "v = load x[i//4, ((i*3 + j)//4) % 3, (i*3 + j) % 4]\n store y[i, j] = v } }");
  check(random_case(k, {}), 0);
}

TEST(Layouts, ColumnStatisticsWithSeveralAccumulators) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n, m], top: out f32[m], total: out f32[m]) grid(j < m) {"
      "stage reduce(i < n) { v = load x[i, j]\n acc a: f32 = -inf <- v\n acc b: f32 = 0 <- v\n"
      "combine max, sum\n p = acc a\n q = acc b\n store top[j] = p\n store total[j] = q } }");
  for (Sizes s : {Sizes{0, 5}, Sizes{1, 1}, Sizes{100, 63}, Sizes{9, 64}, Sizes{9, 130}})
    check(random_case(k, s), 32);
}

TEST(Layouts, SumOverTheMiddleAxis) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[a, b, c], y: out f32[a, c]) grid(i < a, k < c) {"
      "stage reduce(j < b) { v = load x[i, j, k]\n acc s: f32 = 0 <- v\n combine sum\n"
      "t = acc s\n store y[i, k] = t } }");
  for (Sizes s : {Sizes{3, 40, 5}, Sizes{2, 7, 100}, Sizes{1, 1, 1}}) check(random_case(k, s), 32);
}

TEST(Layouts, SumOverTwoMergedAndTwoApartAxes) {
  auto merged = loop::parse_kernel(
      "kernel k(x: in f32[a, b, c], y: out f32[a]) grid(i < a) {"
      "stage reduce(j < b, k < c) { v = load x[i, j, k]\n acc s: f32 = 0 <- v\n combine sum\n"
      "t = acc s\n store y[i] = t } }");
  auto apart = loop::parse_kernel(
      "kernel k(x: in f32[b, a, c], y: out f32[a]) grid(i < a) {"
      "stage reduce(j < b, k < c) { v = load x[j, i, k]\n acc s: f32 = 0 <- v\n combine sum\n"
      "t = acc s\n store y[i] = t } }");
  for (Sizes s : {Sizes{3, 4, 5}, Sizes{2, 33, 17}, Sizes{5, 1, 64}}) {
    check(random_case(merged, s), 64);
    check(random_case(apart, s), 64);
  }
}

TEST(Layouts, ShortRowsOfAConstantLength) {
  for (int m : {1, 2, 3, 4, 8, 20}) {
    auto k =
        loop::parse_kernel("kernel k(x: in f32[n, " + std::to_string(m) +
                           "], y: out f32[n]) grid(i < n) { stage reduce(j < " + std::to_string(m) +
                           ") { v = load x[i, j]\n acc s: f32 = 0 <- v\n combine sum\n"
                           "t = acc s\n store y[i] = t } }");
    for (std::int64_t n : {1, 16, 100}) check(random_case(k, {n}), 8);
  }
}

TEST(Layouts, DomainInsideAPointWithLocalTiles) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n, a, b], y: out f32[n, b, a]) grid(i < n) {\n local t: f32[b, a]\n"
      "stage turn domain(p < a, q < b) { v = load x[i, p, q]\n store t[q, p] = v }\n"
      "stage out domain(q < b, p < a) { v = load t[q, p]\n w = mul(v, 2)\n store y[i, q, p] = w } "
      "}");
  for (Sizes s : {Sizes{2, 3, 4}, Sizes{3, 16, 17}, Sizes{1, 40, 1}}) check(random_case(k, s), 0);
}

}  // namespace
}  // namespace gex::codegen
