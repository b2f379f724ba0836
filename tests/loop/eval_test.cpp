#include <thread>

#include "kernel_test.hpp"

namespace gex::loop {
namespace {

using Floats = std::vector<float>;

TEST(Eval, AnIndexOutsideTheShapeIsAnErrorThatNamesTheAccess) {
  Kernel k = parse_kernel(R"(
kernel gather(x: in f32[rows, 2], ids: in i64[n], y: out f32[n]) grid(i < n) {
  stage { id = load ids[i]  v = load x[id, 1]  store y[i] = v } })");
  Floats x(8), y(3);
  std::vector<std::int64_t> ids = {0, 4, 1};
  try {
    run(k, {x.data(), ids.data(), y.data()}, {4, 3});
    ADD_FAILURE() << "no error";
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "kernel 'gather', stage 0: load x[4, 1] is outside f32[4, 2]");
  }
  ids[1] = INT64_MIN;
  EXPECT_THROW(run(k, {x.data(), ids.data(), y.data()}, {4, 3}), UserError);
}

TEST(Eval, WrongNumbersOfArgumentsAreAnError) {
  Kernel k = read_kernel("cumsum");
  EXPECT_THROW(run(k, {nullptr}, {1, 1}), UserError);
  EXPECT_THROW(run(k, {nullptr, nullptr, nullptr}, {1}), UserError);
}

TEST(Eval, ALoadIsNotTouchedWhereNoPointNeedsIt) {
  // x[0] depends on no loop; with m = 0 there is nothing to read it for.
  Kernel k = parse_kernel(R"(
kernel k(x: in f32[m], y: out f32[n, m]) grid(i < n) {
  stage domain(j < m) { v = load x[0]  store y[i, j] = v } })");
  EXPECT_NO_THROW(run(k, {nullptr, nullptr}, {0, 3}));
  Kernel r = parse_kernel(R"(
kernel r(x: in f32[m], y: out f32[n]) grid(i < n) {
  stage reduce(j < m) { v = load x[0]  acc a: f32 = 7 <- v  combine sum  s = acc a  store y[i] = s } })");
  Floats y(3);
  run(r, {nullptr, y.data()}, {0, 3});
  EXPECT_EQ(y, (Floats{7, 7, 7}));
}

TEST(Eval, AFalsePredicateGuardsAStoreAndALoad) {
  Kernel k = parse_kernel(R"(
kernel k(x: in f32[3], y: out f32[4]) grid(i < 5) {
  stage {
    ok = lt(index(i), 3)
    v = load x[i] if ok else 9
    writable = ne(index(i), 4)
    store y[i] = v if writable
  } })");
  Floats x = {1, 2, 3}, y(4);
  run(k, {x.data(), y.data()}, {});
  EXPECT_EQ(y, (Floats{1, 2, 3, 9}));
}

TEST(Eval, LoopsMayDependOnLoopsAroundThem) {
  Kernel k = parse_kernel(R"(
kernel triangle(y: out i64[n]) grid(i < n) {
  stage reduce(j < i + 1, k < j + 1) {
    one = const 1 : i64
    acc c: i64 = 0 <- one
    combine sum
    r = acc c
    store y[i] = r
  } })");
  std::vector<std::int64_t> y(4);
  run(k, {y.data()}, {4});
  EXPECT_EQ(y, (std::vector<std::int64_t>{1, 3, 6, 10}));
}

TEST(Eval, AScanOverTwoLoopsRunsInIndexOrderAndMayMixElementAndAccumulator) {
  Kernel k = parse_kernel(R"(
kernel k(x: in f32[2, 3], y: out f32[2, 3], last: out f32[]) {
  stage scan(a < 2, b < 3) {
    v = load x[a, b]
    acc s: f32 = 0 <- v
    combine sum
    sum = acc s
    before = sub sum, v
    store y[a, b] = before
    store last[] = sum
  } })");
  Floats x = {1, 2, 3, 4, 5, 6}, y(6), last(1);
  run(k, {x.data(), y.data(), last.data()}, {});
  EXPECT_EQ(y, (Floats{0, 1, 3, 6, 10, 15}));
  EXPECT_EQ(last[0], 21);
}

TEST(Eval, AccumulatorsAreAssignedTogether) {
  Kernel k = parse_kernel(R"(
kernel fibonacci(y: out i64[]) {
  stage reduce(i < 10) {
    zero = const 0 : i64
    acc a: i64 = 0 <- zero
    acc b: i64 = 1 <- zero
    combine {
      la = lhs a
      lb = lhs b
      n = add la, lb
      yield lb, n
    }
    r = acc a
    store y[] = r
  } })");
  std::int64_t y = 0;
  run(k, {&y}, {});
  EXPECT_EQ(y, 55);
}

TEST(Eval, StridesAddressTransposedAndExpandedMemory) {
  Kernel k = parse_kernel(R"(
kernel k(x: in f32[3, 2]{1, 3}, e: in f32[3, 2]{0, 1}, y: out f32[3, 2]) grid(i < 3, j < 2) {
  stage { a = load x[i, j]  b = load e[i, j]  c = add a, b  store y[i, j] = c } })");
  Floats x = {1, 2, 3, 4, 5, 6}, e = {10, 20}, y(6);
  run(k, {x.data(), e.data(), y.data()}, {});
  EXPECT_EQ(y, (Floats{11, 24, 12, 25, 13, 26}));
}

TEST(Eval, LowFloatsRoundAfterEveryPrimitive) {
  Kernel k = parse_kernel(R"(
kernel k(y: out f16[]) {
  stage {
    big = const 2048 : f16
    one = const 1 : f16
    a = add big, one
    b = sub a, big
    store y[] = b
  } })");
  std::uint16_t y = 1;
  run(k, {&y}, {});
  EXPECT_EQ(y, 0);
}

TEST(Eval, StoreModesCombineWithWhatIsThere) {
  for (auto [mode, want] : {std::pair{"add", 7.f}, {"mul", 10.f}, {"max", 5.f}, {"min", 2.f}}) {
    Kernel k = parse_kernel(str(
        "kernel k(y: inout f32[]) { stage { v = const 5 : f32  store y[] = v mode ", mode, " } }"));
    float y = 2;
    run(k, {&y}, {});
    EXPECT_EQ(y, want) << mode;
  }
}

TEST(Interpreted, RangesOfTheGridOnSeveralThreadsGiveTheWholeResult) {
  std::int64_t rows = 40, cols = 33;
  Kernel k = read_kernel("layer_norm");
  Floats x = random_floats(rows * cols), g = random_floats(cols), b = random_floats(cols);
  Floats whole(x.size()), parts(x.size());
  run(k, {x.data(), g.data(), b.data(), whole.data()}, {rows, cols});
  program::Callable callable = interp::interpreted(k);
  void* buffers[] = {x.data(), g.data(), b.data(), parts.data()};
  std::int64_t dims[] = {rows, cols};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      alignas(64) std::byte scratch[128];
      callable(buffers, dims, t * 10, t * 10 + 10, scratch);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(parts, whole);
}

TEST(Interpreted, SharedStoresOfSeveralThreadsLoseNoUpdate) {
  Kernel k = parse_kernel(R"(
kernel histogram(ids: in i64[n], y: inout i64[4]) grid(i < n) {
  stage {
    id = load ids[i] : i64 in [0, 3]
    one = const 1 : i64
    store y[id] = one mode add shared
  } })");
  std::vector<std::int64_t> ids(20000), y(4);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i % 4);
  program::Callable callable = interp::interpreted(k);
  void* buffers[] = {ids.data(), y.data()};
  std::int64_t dims[] = {20000};
  std::thread other([&] { callable(buffers, dims, 0, 10000, nullptr); });
  callable(buffers, dims, 10000, 20000, nullptr);
  other.join();
  EXPECT_EQ(y, (std::vector<std::int64_t>{5000, 5000, 5000, 5000}));
}

TEST(Kernel, ScratchHoldsEveryLocalRoundedUpToACacheLine) {
  Kernel k = read_kernel("layer_norm");
  EXPECT_EQ(k.scratch_bytes(), Dim(128));
  EXPECT_EQ(k.grid_size().name(), "rows");
  EXPECT_EQ(k.num_params(), 4);
  EXPECT_FALSE(k.ordered());
}

}  // namespace
}  // namespace gex::loop
