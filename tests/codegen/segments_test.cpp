// Kernels whose indices and conditions change along the lanes: they are compiled in segments of the
// last axis if its size is constant. Sizes around the width of vectors, and accesses across tiles.

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "harness.hpp"

namespace gex::codegen {
namespace {

TEST(Segments, MirroredAxes) {
  for (int n : {5, 16, 40}) {
    auto k = loop::parse_kernel(
        str("kernel k(x: in f32[9, ", n, "], y: out f32[14, ", n + 7, "]) grid(i < 14, j < ", n + 7,
            ") { stage { v = load x[min(max(i - 2, 2 - i), 16 - max(i - 2, 2 - i)), "
            "min(max(j - 3, 3 - j), ",
            2 * n - 2, " - max(j - 3, 3 - j))]\n store y[i, j] = v } }"));
    check(random_case(k, {}), 0);
  }
}

TEST(Segments, RepeatedAndWrappedAxes) {
  auto edges = loop::parse_kernel(
      "kernel k(x: in i16[20], y: out i16[6, 41]) grid(i < 6, j < 41) { stage {"
      "v = load x[min(max(j - 10, 0), 19)]\n store y[i, j] = v } }");
  check(random_case(edges, {}), 0);
  auto around = loop::parse_kernel(
      "kernel k(x: in f64[33], y: out f64[4, 70]) grid(i < 4, j < 70) { stage {"
      "v = load x[(j + 29) % 33]\n store y[i, j] = v } }");
  check(random_case(around, {}), 0);
}

TEST(Segments, OneAxis) {
  for (int n : {3, 16, 50}) {
    auto k = loop::parse_kernel(
        str("kernel k(x: in f32[", n, "], y: out f32[", n + 9, "]) grid(j < ", n + 9,
            ") { stage { v = load x[min(max(j - 4, 0), ", n - 1, ")]\n store y[j] = v } }"));
    check(random_case(k, {}), 0);
  }
}

TEST(Segments, PartsUnderConditions) {
  auto k = loop::parse_kernel(
      "kernel k(a: in f32[3, 20], b: in f32[3, 1], c: in f32[3, 30], y: out f32[3, 51])"
      "grid(i < 3, j < 51) { stage {"
      "p = index j\n e = const 20 : i64\n f = const 21 : i64\n z = const 0.0 : f32\n"
      "in_a = lt p, e\n before_c = lt p, f\n in_c = ge p, f\n is_b = eq p, e\n"
      "x = load a[i, j] if in_a else z\n u = load b[i, 0] if is_b else z\n"
      "v = load c[i, j - 21] if in_c else z\n"
      "w = select is_b, u, x\n r = select before_c, w, v\n store y[i, j] = r } }");
  check(random_case(k, {}), 0);
}

TEST(Segments, ConditionsOfRowsAreOneForAllLanes) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f64[3, 37], y: out f64[7, 37]) grid(i < 7, j < 37) { stage {"
      "p = index i\n a = const 2 : i64\n b = const 5 : i64\n z = const 7.5 : f64\n"
      "above = ge p, a\n below = lt p, b\n inside = bit_and above, below\n"
      "v = load x[i - 2, j] if inside else z\n store y[i, j] = v } }");
  check(random_case(k, {}), 0);
}

TEST(Segments, ReductionsReadWithinTheirSegment) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[30], y: out f32[5, 34]) grid(i < 5, j < 34) { stage reduce(r < 3) {"
      "acc a: f32 = 0 <- v\n combine sum\n"
      "v = load x[min(max(j + r - 3, 0), 29)]\n w = acc a : f32\n store y[i, j] = w } }");
  check(random_case(k, {}), 4);
}

TEST(Segments, ComparedWithTheLargestNumbers) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[40], y: out f32[3, 40]) grid(i < 3, j < 40) { stage {"
      "p = index j\n m = const -9223372036854775808 : i64\n ten = const 10 : i64\n"
      "z = const 1.0 : f32\n always = gt p, m\n some = lt p, ten\n"
      "both = bit_and always, some\n v = load x[j] if both else z\n store y[i, j] = v } }");
  check(random_case(k, {}), 0);
}

TEST(Repeats, NothingIsReadOfBuffersWithoutElements) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n]{0}, y: out f32[n]) { stage domain(i < n) {"
      "v = load x[i]\n store y[i] = v } }");
  for (std::int64_t n : {0, 20}) check(random_case(k, {n}), 0);
  auto none = loop::parse_kernel(
      "kernel k(x: in f32[0]{0}, y: out f32[0]) { stage domain(i < 0) {"
      "v = load x[i]\n store y[i] = v } }");
  check(random_case(none, {}), 0);
}

TEST(Tiles, TurnedByAQuarter) {
  for (const char* dtype : {"f32", "f64", "bf16", "u8", "bool"}) {
    SCOPED_TRACE(dtype);
    auto k = loop::parse_kernel(str("kernel k(x: in ", dtype, "[3, n, m], y: out ", dtype,
                                    "[3, m, n]) grid(b < 3, i < m, j < n) { stage {"
                                    "v = load x[b, j, m - i - 1]\n store y[b, i, j] = v } }"));
    for (std::int64_t n : {1, 16, 37})
      for (std::int64_t m : {3, 16, 50}) check(random_case(k, {n, m}), 0);
  }
}

TEST(Prims, RemaindersOfExtremeNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = {0.0F,    -0.0F, 1.0F, -4.0F, 2.5F, 1e30F, -1e30F, 1e-40F,
                                      -1e-40F, inf,   -inf, NAN,   3e9F, -7.0F, 0.7F,   1e38F};
  const auto count = static_cast<std::int64_t>(numbers.size());
  auto k = loop::parse_kernel(
      "kernel k(a: in f32[n], b: in f32[n], y: out f32[n, n]) grid(i < n, j < n) { stage {"
      "u = load a[i]\n v = load b[j]\n r = fmod u, v\n store y[i, j] = r } }");
  Case c = random_case(k, {count});
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (const char* name : {"a", "b"}) buffer(c, name).as<float>()[i] = numbers[i];
  check(c, 0);
}

}  // namespace
}  // namespace gex::codegen
