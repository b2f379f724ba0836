#include "plan/streams.hpp"

#include <gtest/gtest.h>

#include "plan/planner.hpp"

namespace gex::plan {
namespace {

using program::Program;

// Launches over temps %0..%7 of 64 bytes; %8 and %9 are the two halves of %7.
Program parsed(const std::string& steps, int streams = 3) {
  std::string text = "program \"p\"\nstreams " + std::to_string(streams) + "\n";
  for (int i = 0; i < 8; ++i)
    text += "buffer %" + std::to_string(i) + " \"b\" temp f32 [16] bytes [64]\n";
  text += "buffer %8 \"l\" temp f32 [8] bytes [32] alias %7\n";
  text += "buffer %9 \"r\" temp f32 [8] bytes [32] alias %7 at [32]\n";
  text += "code 0 \"k\"\nmain 0\nsegment 0 \"s\"\n" + steps;
  return program::parse_program(text);
}

// What is launched, waited for and recorded, in order: "0:a 0:record0 1:wait0 1:b".
std::string synchronised(const std::string& steps) {
  Program program = parsed(steps);
  synchronise_streams(program);
  program::verify(program);
  std::string out;
  for (const program::Step& step : program.segments[0].steps) {
    out += (out.empty() ? "" : " ") + std::to_string(step.stream) + ":";
    if (const auto* launch = std::get_if<program::Launch>(&step.op)) out += launch->name;
    if (const auto* e = std::get_if<program::Record>(&step.op))
      out += "record" + std::to_string(e->event);
    if (const auto* e = std::get_if<program::Wait>(&step.op))
      out += "wait" + std::to_string(e->event);
  }
  return out;
}

constexpr const char* kFork = R"(  launch "a" code 0 write %0 grid [9] work [99999]
  launch "b" code 0 read %0 write %1 grid [9] work [99999] stream 1
  launch "c" code 0 read %0 write %2 grid [9] work [99999] stream 2
  launch "d" code 0 read %1 read %2 write %3 grid [9] work [99999]
)";

TEST(Streams, a_reader_waits_for_the_writer) {
  EXPECT_EQ(synchronised(kFork),
            "0:a 0:record0 1:wait0 1:b 1:record2 2:wait0 2:c 2:record1 0:wait1 0:wait2 0:d");
}

TEST(Streams, an_overwriter_waits_for_the_readers) {
  EXPECT_EQ(synchronised(R"(  launch "a" code 0 write %0 grid [9] work [99999]
  launch "b" code 0 read %0 write %1 grid [9] work [99999]
  launch "x" code 0 write %4 grid [9] work [99999] stream 1
  launch "c" code 0 write %0 grid [9] work [99999] stream 1
)"),
            "0:a 0:b 0:record0 1:x 1:wait0 1:c");
}

TEST(Streams, redundant_waits_are_omitted) {
  EXPECT_EQ(synchronised(R"(  launch "a" code 0 write %0 grid [9] work [99999]
  launch "b" code 0 write %1 grid [9] work [99999]
  launch "c" code 0 read %1 write %2 grid [9] work [99999] stream 1
  launch "d" code 0 read %0 write %3 grid [9] work [99999] stream 1
  launch "e" code 0 write %4 grid [9] work [99999]
)"),
            "0:a 0:b 0:record0 1:wait0 1:c 1:d 0:e");
}

TEST(Streams, disjoint_parts_of_one_buffer_need_no_order) {
  EXPECT_EQ(synchronised(R"(  launch "a" code 0 write %8 grid [9] work [99999]
  launch "b" code 0 write %9 grid [9] work [99999] stream 1
  launch "c" code 0 read %7 write %1 grid [9] work [99999] stream 1
)"),
            "0:a 0:record0 1:b 1:wait0 1:c");
}

TEST(Streams, streams_are_merged_if_nothing_large_can_overlap) {
  EXPECT_EQ(synchronised(R"(  launch "a" code 0 write %0 grid [9] work [99999]
  launch "b" code 0 read %0 write %1 grid [9] work [99999] stream 1
  launch "c" code 0 read %1 write %2 grid [9] work [99999]
)"),
            "0:a 0:b 0:c")
      << "a chain";
  EXPECT_EQ(synchronised(R"(  launch "a" code 0 write %0 grid [9] work [99999]
  launch "b" code 0 write %1 grid [9] work [99] stream 1
)"),
            "0:a 0:b")
      << "one is small";
}

TEST(Streams, values_of_concurrent_steps_overlap_in_time) {
  // In sequence, %1 would be dead before %2 is written.
  const std::string steps = R"(  launch "a" code 0 write %0 grid [9] work [99999]
  launch "b" code 0 read %0 write %1 grid [9] work [99999] stream 1
  launch "c" code 0 read %1 write %3 grid [9] work [99999] stream 1
  launch "d" code 0 write %2 grid [9] work [99999]
  launch "e" code 0 read %2 read %3 write %4 grid [9] work [99999]
)";
  Program program = parsed(steps);
  for (program::Step& step : program.segments[0].steps) step.stream = 0;
  Lifetimes serial = lifetimes_of(program);
  EXPECT_FALSE(serial.of_root[1].overlaps(serial.of_root[2]));
  program = parsed(steps);
  synchronise_streams(program);
  const Lifetimes lives = lifetimes_of(program);
  EXPECT_TRUE(lives.of_root[1].overlaps(lives.of_root[2]));
  EXPECT_TRUE(lives.of_root[3].overlaps(lives.of_root[2]));
}

TEST(Streams, memory_is_reused_after_a_join) {
  Program program = parsed(std::string(kFork) +
                           "  launch \"e\" code 0 read %3 write %4 grid [9] work [99999]\n"
                           "  launch \"f\" code 0 read %4 write %5 grid [9] work [99999]\n");
  synchronise_streams(program);
  const Lifetimes lives = lifetimes_of(program);
  EXPECT_TRUE(lives.of_root[1].overlaps(lives.of_root[2]));
  EXPECT_FALSE(lives.of_root[1].overlaps(lives.of_root[4]));
  EXPECT_FALSE(lives.of_root[0].overlaps(lives.of_root[4]));
}

}  // namespace
}  // namespace gex::plan
