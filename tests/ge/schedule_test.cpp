// Acceptance cases about scheduling: dynamic sizes, independent branches, loops.

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "interp/interp.hpp"

namespace gex {
namespace {

HostTensor iota(std::vector<std::int64_t> shape) {
  HostTensor tensor(DType::f32, std::move(shape));
  for (std::int64_t k = 0; k < tensor.numel(); ++k)
    tensor.set(k, 0.25 * static_cast<double>(k % 9));
  return tensor;
}

HostTensor number(std::int64_t value) {
  HostTensor tensor(DType::i64, {});
  tensor.set_int(0, value);
  return tensor;
}

struct Ready {
  Compiled compiled;
  std::unique_ptr<runtime::Session> session;
  explicit Ready(const std::string& text, CompileOptions options = {})
      : compiled(compile(parse_graph(text), options)),
        session(std::make_unique<runtime::Session>(compiled.executable, runtime::SessionOptions{},
                                                   compiled.specialiser)) {}
  std::vector<HostTensor> operator()(std::vector<HostTensor> inputs) {
    return execute(*session, inputs);
  }
};

TEST(GeCase, N48_MatmulOfMismatchedSizesIsAnErrorAndNotARecompilation) {
  Ready program(R"(symbols s0, s1, s2, s3
graph g(%a: f32[s0, s1], %b: f32[s2, s3]) -> (f32[s0, s3]) {
  %y = matmul(%a, %b) : f32[s0, s3]
  return %y
})");
  EXPECT_EQ(program({iota({2, 3}), iota({3, 4})})[0].shape(), (std::vector<std::int64_t>{2, 4}));
  for (int attempt = 0; attempt < 5; ++attempt) {
    try {
      program({iota({2, 3}), iota({4, 4})});
      FAIL() << "3 and 4 do not fit";
    } catch (const UserError& error) {
      const std::string words = error.what();
      EXPECT_NE(words.find("matmul"), std::string::npos) << words;
      EXPECT_NE(words.find('3'), std::string::npos) << words;
      EXPECT_NE(words.find('4'), std::string::npos) << words;
    }
  }
  EXPECT_EQ(program({iota({5, 2}), iota({2, 1})})[0].shape(), (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(program.session->counters().captures, 2) << "the refused sizes left nothing behind";
}

TEST(GeCase, N57_ADynamicGraphServesEveryBatchWithOneCompilation) {
  const std::string text = R"(symbols s0 in [1, 4096]
graph g(%x: f32[s0, 16], %w: f32[16, 8], %b: f32[8]) -> (f32[s0, 8]) {
  %m = matmul(%x, %w) : f32[s0, 8]
  %a = add(%m, %b) : f32[s0, 8]
  %r = relu(%a) : f32[s0, 8]
  %y = softmax(%r) {axis = 1} : f32[s0, 8]
  return %y
})";
  Ready program(text);
  const auto graph = parse_graph(text);
  for (std::int64_t batch : {3, 17, 64, 3}) {
    const std::vector<HostTensor> inputs = {iota({batch, 16}), iota({16, 8}), iota({8})};
    const HostTensor want = interp::interpret(*graph, inputs)[0];
    const HostTensor got = program(inputs)[0];
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t k = 0; k < want.numel(); ++k) ASSERT_NEAR(got.get(k), want.get(k), 1e-5);
  }
  const runtime::Counters counters = program.session->counters();
  EXPECT_EQ(counters.captures, 3) << "one for each batch";
  EXPECT_EQ(counters.replays, 1) << "the batch that came again";
  EXPECT_EQ(counters.launches % counters.calls, 0) << "the same steps for every batch";
}

class StaticCluster : public testing::TestWithParam<int> {};

// The reference schedules a cluster of 3 ops one by one and makes a separate graph of one of 10.
// Here neither the number of ops nor their context matters: known sizes are constants of the kernel
// from the start, and it is one launch of the same program.
TEST_P(StaticCluster, N57_InsideADynamicGraphIsOneLaunchThatNoBatchChanges) {
  const int ops = GetParam();
  std::string text = R"(symbols s0 in [1, 4096]
graph g(%x: f32[s0, 16], %c0: f32[16, 24]) -> (f32[s0, 24]) {
)";
  for (int k = 0; k < ops; ++k)
    text +=
        str("  %c", k + 1, " = ", k % 2 == 0 ? "tanh" : "sigmoid", "(%c", k, ") : f32[16, 24]\n");
  text += str("  %m = matmul(%x, %c", ops, ") : f32[s0, 24]\n  %y = relu(%m) : f32[s0, 24]\n",
              "  return %y\n}");
  Ready program(text);
  for (std::int64_t batch : {3, 17, 64}) {
    const std::vector<HostTensor> inputs = {iota({batch, 16}), iota({16, 24})};
    const HostTensor want = interp::interpret(*parse_graph(text), inputs)[0];
    const HostTensor got = program(inputs)[0];
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t k = 0; k < want.numel(); ++k) ASSERT_NEAR(got.get(k), want.get(k), 1e-5);
  }
  const runtime::Counters counters = program.session->counters();
  EXPECT_EQ(counters.captures, 3) << "one for each batch, of one compilation";
  EXPECT_EQ(counters.launches, 3 * 2) << "the cluster, and the product with its epilogue";

  const program::Program& compiled = *program.compiled.program;
  ASSERT_EQ(compiled.main.size(), 1u) << "nothing is split off";
  const auto& steps = compiled.segments[static_cast<std::size_t>(compiled.main[0])].steps;
  ASSERT_EQ(steps.size(), 2u);
  const auto depends_on_batch = [](const program::Step& step) {
    const auto& launch = std::get<program::Launch>(step.op);
    std::vector<Dim> symbols;
    for (Dim d : launch.dims) d.collect_symbols(symbols);
    launch.grid.collect_symbols(symbols);
    return !symbols.empty();
  };
  EXPECT_FALSE(depends_on_batch(steps[0]));
  EXPECT_TRUE(depends_on_batch(steps[1]));
}

INSTANTIATE_TEST_SUITE_P(GeCase, StaticCluster, testing::Values(3, 10));

TEST(GeCase, N59_GearsOneFourAndEightServeEveryBatchUpToEight) {
  const std::string text = R"(symbols s0 in [1, 64]
graph g(%x: f32[s0, 16], %w: f32[16, 8]) -> (f32[s0, 8]) {
  %m = matmul(%x, %w) : f32[s0, 8]
  %y = softmax(%m) {axis = 1} : f32[s0, 8]
  return %y
})";
  const Compiled compiled = compile(parse_graph(text));
  runtime::SessionOptions options;
  options.gears = {.policy = runtime::GearOptions::Policy::listed,
                   .ladders = {{{Dim(0)}, {{1}, {4}, {8}}}}};
  runtime::Session session(compiled.executable, options, compiled.specialiser);
  for (std::int64_t batch : {1, 4, 8, 3, 4}) {
    std::vector<HostTensor> inputs = {iota({batch, 16}), iota({16, 8})};
    const HostTensor want = interp::interpret(*parse_graph(text), inputs)[0];
    const HostTensor got = execute(session, inputs)[0];
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t k = 0; k < want.numel(); ++k) ASSERT_NEAR(got.get(k), want.get(k), 1e-6);
  }
  EXPECT_EQ(session.counters().captures, 3) << "batch 3 runs in the gear of 4";
  options.gears.refuse_others = true;
  runtime::Session strict(compiled.executable, options, compiled.specialiser);
  std::vector<HostTensor> three = {iota({3, 16}), iota({16, 8})};
  EXPECT_THROW(execute(strict, three), UserError);
}

// Four chains of two matmuls, and the concatenation of their results.
std::string four_branches() {
  std::string text = "graph g(%x: f32[64, 64], %w: f32[64, 64]) -> (f32[256]) {\n";
  for (int k = 0; k < 4; ++k)
    text += str("  %s", k, " = full() {value = ", k + 1, ".0} : f32[]\n  %v", k, " = mul(%w, %s", k,
                ") : f32[64, 64]\n  %a", k, " = matmul(%x, %v", k, ") : f32[64, 64]\n  %b", k,
                " = matmul(%a", k, ", %v", k, ") : f32[64, 64]\n  %r", k, " = reduce_max(%b", k,
                ") {axes = [1]} : f32[64]\n");
  return text +
         "  %y = cat(%r0, %r1, %r2, %r3) {axis = 0} : f32[256]\n  %z = softmax(%y) {axis = 0} : "
         "f32[256]\n  return %z\n}\n";
}

TEST(GeCase, N58_FourEqualBranchesAreSpreadOverFourStreamsWithFewEvents) {
  const std::string text = four_branches();
  const std::vector<HostTensor> inputs = {iota({64, 64}), iota({64, 64})};
  const HostTensor want = interp::interpret(*parse_graph(text), inputs)[0];
  for (const int streams : {0, 1, 2, 4}) {
    CompileOptions options;
    options.streams = streams;
    Ready program(text, options);
    const program::Program& made = *program.compiled.program;
    if (streams > 0) {
      EXPECT_EQ(made.num_streams, streams) << print(made);
    }
    if (streams == 0) {  // as is estimated to be faster with the threads of this machine
      EXPECT_LE(made.num_streams, 4) << print(made);
      EXPECT_EQ(made.num_events > 0, made.num_streams > 1) << print(made);
    } else if (streams == 1) {
      EXPECT_EQ(made.num_events, 0) << print(made);
    } else {
      EXPECT_GE(made.num_events, 1) << print(made);
      EXPECT_LE(made.num_events, 6) << print(made);
    }
    for (int call = 0; call < 5; ++call) {
      const HostTensor got = program(inputs)[0];
      for (std::int64_t k = 0; k < want.numel(); ++k)
        ASSERT_NEAR(got.get(k), want.get(k), 1e-5 * (1 + want.get(k))) << streams;
    }
  }
}

TEST(GeCase, N58_AChainStaysOnOneStream) {
  CompileOptions options;
  options.streams = 4;
  Ready program(R"(graph g(%x: f32[64, 64]) -> (f32[64, 64]) {
  %a = matmul(%x, %x) : f32[64, 64]
  %b = matmul(%a, %x) : f32[64, 64]
  %c = softmax(%b) {axis = 1} : f32[64, 64]
  return %c
})",
                options);
  EXPECT_EQ(program.compiled.program->num_streams, 1);
}

TEST(GeCase, N58_OneStreamAndStreamsByNameContradictEachOther) {
  const std::string text = R"(graph g(%x: f32[64, 64]) -> (f32[64, 64], f32[64, 64]) {
  %a = matmul(%x, %x) labels(_stream_label = "one") : f32[64, 64]
  %b = matmul(%a, %x) labels(_stream_label = "two") : f32[64, 64]
  return %a, %b
})";
  for (const int streams : {1, -1, 65}) {
    CompileOptions options;
    options.streams = streams;
    EXPECT_THROW(compile(parse_graph(text), options), UserError) << streams;
  }
}

const char* const kSum = R"(graph g(%n: i64[]) -> (i64[]) {
  %zero = full() {dtype = i64} : i64[]
  %i, %sum = while(%zero, %zero, %n) {carried = 2} regions(
    graph condition(%i: i64[], %sum: i64[], %n: i64[]) -> (bool[]) {
      %go = lt(%i, %n) : bool[]
      return %go
    },
    graph body(%i: i64[], %sum: i64[], %n: i64[]) -> (i64[], i64[]) {
      %one = full() {dtype = i64, value = 1.0} : i64[]
      %next = add(%i, %one) : i64[]
      %more = add(%sum, %next) : i64[]
      return %next, %more
    }) : i64[], i64[]
  return %sum
})";

TEST(GeCase, N61_AWhileSumsOneToAHundred) {
  EXPECT_EQ(interp::interpret(*parse_graph(kSum), std::vector{number(100)})[0].get_int(0), 5050);
  Ready program(kSum);
  EXPECT_EQ(program({number(100)})[0].get_int(0), 5050);
  EXPECT_EQ(program({number(0)})[0].get_int(0), 0);
  EXPECT_EQ(program.session->counters().captures, 1) << "the same program for every limit";
}

// Counts iterations and adds up the indices.
const char* const kFor = R"(graph g(%start: i64[], %limit: i64[], %delta: i64[]) -> (i64[], i64[]) {
  %zero = full() {dtype = i64} : i64[]
  %one = full() {dtype = i64, value = 1.0} : i64[]
  %turns, %sum = for(%start, %limit, %delta, %zero, %zero, %one) {carried = 2} regions(
    graph body(%i: i64[], %turns: i64[], %sum: i64[], %one: i64[]) -> (i64[], i64[]) {
      %t = add(%turns, %one) : i64[]
      %s = add(%sum, %i) : i64[]
      return %t, %s
    }) : i64[], i64[]
  return %turns, %sum
})";

TEST(GeCase, N61_AForExcludesItsLimitInBothDirections) {
  struct Case {
    std::int64_t start, limit, delta, turns, sum;
  };
  for (int level : {0, 3}) {
    CompileOptions options;
    options.level = level;
    Ready program(kFor, options);
    for (const Case& c : {Case{0, 5, 1, 5, 10}, Case{5, 0, -1, 5, 15}, Case{5, 0, 1, 0, 0},
                          Case{0, 5, -1, 0, 0}, Case{0, 7, 3, 3, 9}, Case{0, 5, 0, 0, 0}}) {
      const std::vector<HostTensor> inputs = {number(c.start), number(c.limit), number(c.delta)};
      const auto host = interp::interpret(*parse_graph(kFor), inputs);
      const auto sunk = program(inputs);
      for (const auto* results : {&host, &sunk}) {
        EXPECT_EQ((*results)[0].get_int(0), c.turns) << c.start << " " << c.limit << " " << c.delta;
        EXPECT_EQ((*results)[1].get_int(0), c.sum);
      }
    }
  }
}

TEST(GeCase, N61_AForWithTheWrongBodyIsRejectedWithAMessage) {
  std::string text = kFor;
  const std::string right = "%i: i64[], %turns: i64[]", wrong = "%i: i64[], %turns: f32[]";
  text.replace(text.find(right), right.size(), wrong);
  try {
    parse_graph(text);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("i64[]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace gex
