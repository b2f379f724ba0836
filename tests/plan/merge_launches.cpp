#include "plan/merge_launches.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "plan/lifetimes.hpp"

namespace gex::plan {
namespace {

using program::Program;

// Launches over temps %0..%7 of 64 bytes.
Program parsed(const std::string& steps) {
  std::string text = "program \"p\"\n";
  for (int i = 0; i < 8; ++i)
    text += "buffer %" + std::to_string(i) + " \"b\" temp f32 [16] bytes [64]\n";
  text += "code 0 \"k\"\nmain 0\nsegment 0 \"s\"\n" + steps;
  return program::parse_program(text);
}

// The launches in order; those that run together are joined by '+'.
std::string merged(const std::string& steps) {
  // Something has to write what the launches read.
  Program program =
      parsed("  launch \"alone\" code 0 write %0 write %1 write %2 grid [9]\n" + steps);
  merge_launches(program, {.can_be_merged =
                               [](const program::Launch& launch) { return launch.name != "alone"; },
                           .small_grid = 264});
  program::verify(program);
  EXPECT_EQ(program::print(program::parse_program(program::print(program))),
            program::print(program));
  std::string out;
  for (const program::Step& step : program.segments[0].steps) {
    const auto& launch = std::get<program::Launch>(step.op);
    out += (out.empty() ? "" : launch.with_previous ? "+" : " ") + launch.name;
  }
  return out.substr(std::string("alone ").size());
}

TEST(MergeLaunches, independent_launches_are_merged_and_moved_ahead) {
  EXPECT_EQ(merged(R"(  launch "a" code 0 read %0 write %1 grid [9] block 256
  launch "b" code 0 read %1 write %2 grid [9] block 256
  launch "c" code 0 read %0 write %3 grid [9] block 256
  launch "d" code 0 read %3 write %4 grid [9] block 256
)"),
            "a+c b+d");
}

TEST(MergeLaunches, a_launch_that_overwrites_what_another_reads_stays_after_it) {
  EXPECT_EQ(merged(R"(  launch "a" code 0 read %0 write %1 grid [9] block 256
  launch "b" code 0 read %2 write %0 grid [9] block 256
)"),
            "a b");
}

TEST(MergeLaunches, launches_with_other_thread_counts_or_not_mergeable_stay_separate) {
  EXPECT_EQ(merged(R"(  launch "a" code 0 read %0 write %1 grid [9] block 256
  launch "b" code 0 read %0 write %2 grid [9] block 128
  launch "alone" code 0 read %0 write %3 grid [9] block 256
)"),
            "a b alone");
}

TEST(MergeLaunches, large_launches_are_merged_only_without_shared_memory) {
  EXPECT_EQ(merged(R"(  launch "a" code 0 read %0 write %1 grid [5000] block 256
  launch "b" code 0 read %0 write %2 grid [9] scratch [90000] block 256
  launch "c" code 0 read %0 write %3 grid [9] block 256
)"),
            "a+c b");
}

TEST(MergeLaunches, merged_products_share_the_blocks_of_one_by_their_work) {
  Program program = parsed(R"(  launch "a" code 0 write %0 grid [132] work [200] matrix block 256
  launch "b" code 0 write %1 grid [132] work [100] matrix block 256
  launch "c" code 0 write %2 grid [5] work [100] block 256
)");
  merge_launches(program, {.can_be_merged = [](const program::Launch&) { return true; },
                           .multiprocessors = 132,
                           .small_grid = 264});
  std::vector<std::int64_t> blocks;
  for (const program::Step& step : program.segments[0].steps)
    blocks.push_back(std::get<program::Launch>(step.op).grid.constant());
  EXPECT_EQ(blocks, (std::vector<std::int64_t>{88, 44, 5}));
}

TEST(MergeLaunches, calls_of_a_library_are_grouped_with_each_other_alone) {
  Program program = parsed(R"(  launch "a" code 0 write %0 grid [1] work [9]
  launch "k" code 0 write %1 grid [9] block 256
  launch "b" code 0 write %2 grid [1] work [9]
  launch "c" code 0 write %3 grid [1] work [2000000000]
)");
  const auto is_library = [](const program::Launch& launch) { return launch.name != "k"; };
  merge_launches(
      program, {.can_be_merged = [&](const program::Launch& launch) { return !is_library(launch); },
                .is_library = is_library,
                .small_grid = 264});
  std::string order;
  for (const program::Step& step : program.segments[0].steps) {
    const auto& launch = std::get<program::Launch>(step.op);
    order += (launch.with_previous ? "+" : " ") + launch.name;
  }
  EXPECT_EQ(order, " a+b k c") << "c fills the device by itself";
}

// Memory of launches that run together is not shared by what only one of them needs.
TEST(MergeLaunches, values_of_merged_launches_are_alive_at_the_same_time) {
  Program program = parsed(R"(  launch "a" code 0 write %0 grid [9] block 256
  launch "b" code 0 read %0 write %1 grid [9] block 256
  launch "c" code 0 write %2 grid [9] block 256 with_previous
  launch "d" code 0 read %1 read %2 write %3 grid [9] block 256
)");
  const Lifetimes lives = lifetimes_of(program);
  EXPECT_TRUE(lives.of_root[0].overlaps(lives.of_root[2]));
  EXPECT_FALSE(lives.of_root[0].overlaps(lives.of_root[3]));
}

TEST(MergeLaunches, a_program_that_marks_the_wrong_launches_is_rejected) {
  EXPECT_THROW(program::verify(parsed("  launch \"a\" code 0 write %0 grid [9] with_previous\n")),
               Error);
}

}  // namespace
}  // namespace gex::plan
