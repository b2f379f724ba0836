// Acceptance cases about memory: plans, the checker, reuse and results in the caller's memory.

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "plan/checker.hpp"
#include "plan/report.hpp"

namespace gex {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;

struct Textbook {
  std::vector<plan::Interval> lives = {{1, 2}, {2, 4}, {3, 4}, {4, 5}, {5, 6}};
  std::vector<std::int64_t> bytes = {1024, 2048, 1024, 512, 4096};
  std::vector<std::string> names = {"A", "B", "C", "D", "E"};
};

TEST(GeCase, N49_TheTextbookLifetimesTakeFourAndAHalfKilobytes) {
  const Textbook book;
  const plan::Placement placement = plan::MemoryPlanner(book.lives).plan(book.bytes);
  EXPECT_EQ(placement.total, 4608);
  EXPECT_EQ(placement.lower_bound, 4608);
  EXPECT_EQ(plan::find_overlap(book.lives, book.bytes, placement.offsets, placement.total),
            std::nullopt);
}

TEST(GeCase, N50_TheCheckerNamesBothTensorsOfACorruptPlan) {
  const Textbook book;
  plan::Placement placement = plan::MemoryPlanner(book.lives).plan(book.bytes);
  placement.offsets[2] = placement.offsets[1];  // C onto B, both alive at 3
  const auto wrong =
      plan::find_overlap(book.lives, book.bytes, placement.offsets, placement.total, book.names);
  ASSERT_TRUE(wrong.has_value());
  EXPECT_NE(wrong->find("values C ["), std::string::npos) << *wrong;
  EXPECT_NE(wrong->find("and B ["), std::string::npos) << *wrong;
  EXPECT_NE(wrong->find("position 3"), std::string::npos) << *wrong;
}

std::string relu_chain(int length) {
  std::string text = "graph g(%v0: f32[262144]) -> (f32[262144]) {\n";
  for (int k = 1; k <= length; ++k)
    text += str("  %v", k, " = relu(%v", k - 1, ") : f32[262144]\n");
  return text + str("  return %v", length, "\n}\n");
}

plan::MemoryReport plan_of(const Compiled& compiled) {
  return plan::memory_report(*compiled.program,
                             [](Dim) -> std::optional<std::int64_t> { return std::nullopt; });
}

TEST(GeCase, N51_AChainOfTenReluTakesTwoMegabytesAndNoneOnceFused) {
  CompileOptions plain;
  plain.level = 0;
  plain.fuse = false;
  plain.generate_code = false;
  const plan::MemoryReport steps = plan_of(compile(parse_graph(relu_chain(10)), plain));
  EXPECT_EQ(steps.rows.size(), 9u) << steps.text();  // the tenth is the caller's
  EXPECT_LE(steps.total, 2 * kMegabyte);
  EXPECT_EQ(steps.total, steps.lower_bound);
  EXPECT_EQ(steps.without_reuse, 9 * kMegabyte);
  EXPECT_NE(steps.text().find("shares with"), std::string::npos) << steps.text();

  CompileOptions fused;
  fused.generate_code = false;
  EXPECT_EQ(plan_of(compile(parse_graph(relu_chain(10)), fused)).total, 0);
}

// As with ge.exec.disableReuseMemory.
TEST(GeMemory, WithoutReuseEveryTemporaryHasBytesOfItsOwn) {
  CompileOptions plain;
  plain.level = 0;
  plain.fuse = false;
  plain.generate_code = false;
  const Compiled compiled = compile(parse_graph(relu_chain(10)), plain);
  std::vector<HostTensor> inputs = {HostTensor(DType::f32, {262144})};
  inputs[0].set(7, 3);
  runtime::SessionOptions apart;
  apart.reuse_memory = false;
  runtime::Session with(compiled.executable, {}), without(compiled.executable, apart);
  EXPECT_EQ(execute(with, inputs), execute(without, inputs));
  EXPECT_EQ(with.counters().arena_bytes, 2 * kMegabyte);
  EXPECT_EQ(without.counters().arena_bytes, 9 * kMegabyte);
  EXPECT_EQ(without.counters().arena_lower_bound, 2 * kMegabyte);

  const plan::MemoryReport report = plan::memory_report(
      *compiled.program, [](Dim) -> std::optional<std::int64_t> { return std::nullopt; }, false);
  EXPECT_EQ(report.total, 9 * kMegabyte);
  EXPECT_EQ(report.text().find("shares with"), std::string::npos) << report.text();
  EXPECT_NE(report.why().find("switched off"), std::string::npos);
}

TEST(GeCase, N51_TheReportListsPlaceLifeSizeAndBoundOfEveryTemporary) {
  CompileOptions plain;
  plain.level = 0;
  plain.fuse = false;
  plain.generate_code = false;
  const plan::MemoryReport report = plan_of(compile(parse_graph(relu_chain(4)), plain));
  ASSERT_EQ(report.rows.size(), 3u);
  for (const auto& row : report.rows) {
    EXPECT_EQ(row.bytes, kMegabyte);
    EXPECT_EQ(row.life.last, row.life.first + 1);
  }
  EXPECT_EQ(report.ratio(), 1.0);
  EXPECT_EQ(report.why(), "");
}

TEST(GeCase, N54_AnOutputTiedToAnInputIsWrittenInPlaceWithoutACopy) {
  const char* text = R"(graph g(%x: f32[4]) -> (f32[4]) ties(0 -> 0) {
  %one = full() {value = 1.0} : f32[]
  %y = add(%x, %one) : f32[4]
  return %y
})";
  const Compiled compiled = compile(parse_graph(text), CompileOptions{});
  EXPECT_TRUE(compiled.program->outputs.empty()) << "no pointer can be given that differs";
  runtime::Session session(compiled.executable, {}, compiled.specialiser);
  std::vector<HostTensor> inputs = {HostTensor(DType::f32, {4})};
  const std::byte* const memory = inputs[0].data();
  for (int call = 1; call <= 3; ++call) {
    EXPECT_TRUE(execute(session, inputs).empty());
    EXPECT_EQ(inputs[0].data(), memory);
    EXPECT_EQ(inputs[0].get(3), call);
  }
  const auto in_place = [](const Compiled& made) {
    std::int64_t n = 0;
    for (const auto& [what, count] : made.report.counts) n += what == "in_place" ? count : 0;
    return n;
  };
  EXPECT_EQ(in_place(compiled), 1);
  CompileOptions aside;
  aside.in_place_inputs = false;
  EXPECT_EQ(in_place(compile(parse_graph(text), aside)), 0);
  EXPECT_EQ(session.counters().bytes_copied, 0);
  EXPECT_EQ(session.counters().launches, 3);
  EXPECT_EQ(session.counters().arena_bytes, 0);
}

// The old value is still needed after the new one is made: one copy, and the report counts it.
TEST(GeCase, N54_ATiedInputThatIsReadLaterCostsOneCopy) {
  const char* text = R"(graph g(%x: f32[4, 4]) -> (f32[4, 4]) ties(0 -> 0) {
  %t = transpose(%x) {perm = [1, 0]} : f32[4, 4]
  %y = add(%x, %t) : f32[4, 4]
  return %y
})";
  const Compiled compiled = compile(parse_graph(text), CompileOptions{});
  runtime::Session session(compiled.executable, {}, compiled.specialiser);
  std::vector<HostTensor> inputs = {HostTensor(DType::f32, {4, 4})};
  for (int k = 0; k < 16; ++k) inputs[0].set(k, k);
  execute(session, inputs);
  EXPECT_EQ(inputs[0].get(1), 1 + 4);
  EXPECT_EQ(inputs[0].get(4), 4 + 1);
  std::int64_t copies = 0;
  for (const auto& [what, count] : compiled.report.counts)
    copies += what.starts_with("copies.") ? count : 0;
  EXPECT_EQ(copies, 1);
}

}  // namespace
}  // namespace gex
