// Stores that combine, scatter, meet each other, or run in order.

#include <thread>

#include "base/error.hpp"
#include "harness.hpp"

namespace gex::codegen {
namespace {

TEST(Stores, ScatterWithEachModeAndDtype) {
  for (const char* mode : {"", " mode add", " mode mul", " mode max", " mode min"})
    for (const char* dtype : {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"}) {
      SCOPED_TRACE(str(dtype, mode));
      // Distinct targets: a permutation by reversal.
      auto k = loop::parse_kernel(str("kernel k(at: in i64[n], x: in ", dtype, "[n], y: inout ",
                                      dtype, "[n]) grid(i < n) { stage { j = load at[i]\n",
                                      "v = load x[i]\n store y[j] = v", mode, " } }"));
      Case c = random_case(k, {53});
      for (int i = 0; i < 53; ++i) buffer(c, "at").set_int(i, 52 - i);
      check(c, 0);
    }
}

TEST(Stores, OrderedUpdatesOfOneElementRunInOrder) {
  // Ten targets for many points; f32 sums show any change of order.
  auto k = loop::parse_kernel(
      "kernel k(at: in i64[n], x: in f32[n], y: inout f32[10]) grid(i < n) { stage {"
      "j = load at[i] in [0, 9]\n v = load x[i]\n store y[j] = v mode add shared ordered } }");
  ASSERT_TRUE(k.ordered());
  Case c = random_case(k, {1000});
  auto code = generator().compile({&c.kernel, 1}, {})[0];
  std::vector<float> want(c.buffers[2].as<float>(), c.buffers[2].as<float>() + 10);
  for (int i = 0; i < 1000; ++i)
    want[static_cast<std::size_t>(c.buffers[0].get_int(i))] += c.buffers[1].as<float>()[i];
  auto got = run(c, code, {1, 17, 500});
  for (int j = 0; j < 10; ++j) EXPECT_EQ(got[2].as<float>()[j], want[static_cast<std::size_t>(j)]);
}

TEST(Stores, OrderedDomainPointsThatWriteOneElement) {
  auto k = loop::parse_kernel(
      "kernel k(at: in i64[m], x: in f32[n, m], y: inout f32[n, 10]) grid(i < n) {"
      "stage domain(j < m) { t = load at[j] in [0, 9]\n v = load x[i, j]\n"
      "store y[i, t] = v mode add ordered } }");
  for (std::int64_t m : {1, 16, 77}) check(random_case(k, {m, 20}), 16);
}

TEST(Stores, LastOfOrderedPlainStoresWins) {
  auto k = loop::parse_kernel(
      "kernel k(at: in i64[m], x: in f32[m], y: inout f32[10]) {"
      "stage domain(j < m) { t = load at[j] in [0, 9]\n v = load x[j]\n"
      "store y[t] = v ordered } }");
  for (std::int64_t m : {1, 16, 77}) check(random_case(k, {m}), 0);
}

TEST(Stores, SharedUpdatesFromManyThreadsAreAtomic) {
  for (const char* dtype : {"i64", "i32", "i16", "u8", "f32", "f64"}) {
    SCOPED_TRACE(dtype);
    auto k = loop::parse_kernel(str("kernel k(x: in ", dtype, "[n], y: inout ", dtype,
                                    "[3]) grid(i < n) { stage { v = load x[i]\n",
                                    "store y[i % 3] = v mode add shared } }"));
    Case c = random_case(k, {30000});
    for (int i = 0; i < 30000; ++i) buffer(c, "x").set(i, 1);
    for (int i = 0; i < 3; ++i) buffer(c, "y").set(i, 0);
    auto code = generator().compile({&c.kernel, 1}, {})[0];
    std::vector<void*> pointers = {c.buffers[0].data(), c.buffers[1].data()};
    std::vector<std::thread> threads;
    for (std::int64_t t = 0; t < 3; ++t)
      threads.emplace_back(
          [&, t] { code(pointers.data(), c.dims.data(), t * 10000, (t + 1) * 10000, nullptr); });
    for (auto& t : threads) t.join();
    HostTensor want(c.buffers[1].dtype(), {3});
    for (int i = 0; i < 3; ++i) want.set_int(i, 10000);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.buffers[1].get(i), want.get(i));
  }
}

TEST(Stores, ExtremesKeepNaNWhenShared) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n], y: inout f32[2]) grid(i < n) { stage { v = load x[i]\n"
      "store y[i % 2] = v mode max shared } }");
  Case c = random_case(k, {40});
  buffer(c, "x").set(7, NAN);
  check(c, 0);
}

TEST(Stores, PredicatesGuardMemoryNotJustValues) {
  // Indices beyond the end are only reached where the predicate is false.
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n], y: out f32[n]) grid(i < n) { stage {"
      "p = index i\n q = index n\n ok = lt(add(p, 5), q)\n zero = const 0 : f32\n"
      "v = load x[i + 5] if ok else zero\n store y[i] = v\n } }");
  for (std::int64_t n : {1, 5, 6, 16, 33}) check(random_case(k, {n}), 0);
  auto s = loop::parse_kernel(
      "kernel k(x: in f32[n], y: inout f32[n]) grid(i < n) { stage {"
      "p = index i\n q = index n\n ok = lt(add(p, 5), q)\n v = load x[i]\n"
      "store y[i + 5] = v if ok } }");
  for (std::int64_t n : {1, 5, 6, 16, 33}) check(random_case(s, {n}), 0);
}

TEST(Stores, ElementStoresOfAReductionRunForEveryElement) {
  auto k = loop::parse_kernel(
      "kernel k(x: in f32[n, m], y: out f32[n, m], z: out f32[n]) grid(i < n) {"
      "stage reduce(j < m) { v = load x[i, j]\n e = exp(v)\n acc s: f32 = 0 <- e\n combine sum\n"
      "store y[i, j] = e\n t = acc s\n store z[i] = t } }");
  for (std::int64_t m : {1, 15, 64, 67}) check(random_case(k, {7, m}), 32);
}

TEST(Stores, BoolsAreStoredAsZeroAndOne) {
  auto k = loop::parse_kernel(
      "kernel k(a: in bool[n], x: in f32[n], y: out bool[n]) grid(i < n) { stage {"
      "p = load a[i]\n v = load x[i]\n q = gt(v, 0.5)\n r = bit_or(bit_not(p), q)\n"
      "store y[i] = r } }");
  for (std::int64_t n : {1, 16, 50}) check(random_case(k, {n}), 0);
}

TEST(Stores, AnyAndAllOverBools) {
  auto k = loop::parse_kernel(
      "kernel k(a: in bool[n, m], any: out bool[n], all: out bool[n]) grid(i < n) {"
      "stage reduce(j < m) { p = load a[i, j]\n acc x: bool = false <- p\n"
      "acc y: bool = true <- p\n combine any, all\n"
      "b = acc x\n c = acc y\n store any[i] = b\n store all[i] = c } }");
  for (std::int64_t m : {0, 1, 2, 17, 70}) check(random_case(k, {9, m}), 0);
}

}  // namespace
}  // namespace gex::codegen
