#include "plan/overlap.hpp"

#include <gtest/gtest.h>

#include "plan/streams.hpp"

namespace gex::plan {
namespace {

using program::Program;

Program parsed(const std::string& steps) {
  std::string text = "program \"p\"\n";
  for (int i = 0; i < 6; ++i)
    text += "buffer %" + std::to_string(i) + " \"b\" temp f32 [16] bytes [64]\n";
  if (steps.find("[n") != std::string::npos) text += "symbol n in [1, 64]\n";
  text += "code 0 \"k\"\nmain 0\nsegment 0 \"s\"\n" + steps;
  return program::parse_program(text);
}

// Two branches of two launches each, and what joins them.
std::string towers(const std::string& grid, const std::string& work) {
  const std::string size = " grid [" + grid + "] work [" + work + "]\n";
  return "  launch \"a\" code 0 write %0" + size + "  launch \"b\" code 0 read %0 write %1" + size +
         "  launch \"c\" code 0 write %2" + size + "  launch \"d\" code 0 read %2 write %3" + size +
         "  launch \"e\" code 0 read %1 read %3 write %4" + size;
}

std::string streams_of(const Program& program) {
  std::string out;
  for (const program::Step& step : program.segments[0].steps) out += std::to_string(step.stream);
  return out;
}

TEST(Overlap, branches_of_launches_for_one_thread_run_beside_each_other) {
  Program program = parsed(towers("1", "4000000"));
  const Overlap overlap = overlap_branches(program, 2);
  EXPECT_EQ(streams_of(program), "00111");
  EXPECT_EQ(overlap.runs, 1);
  EXPECT_EQ(overlap.overlapped, 1);
  EXPECT_EQ(overlap.in_order, 5 * 4000000);
  EXPECT_GE(overlap.with_streams, 3 * 4000000);
  EXPECT_LT(overlap.with_streams, 3 * 4000000 + 400000);
  synchronise_streams(program);
  program::verify(program);
  EXPECT_EQ(program.num_streams, 2);
}

TEST(Overlap, launches_that_use_all_threads_stay_in_order) {
  Program program = parsed(towers("64", "4000000"));
  const Overlap overlap = overlap_branches(program, 2);
  EXPECT_EQ(streams_of(program), "00000");
  EXPECT_EQ(overlap.runs, 1);
  EXPECT_EQ(overlap.overlapped, 0);
  EXPECT_GT(overlap.with_streams * 9 / 8, overlap.in_order);
}

TEST(Overlap, more_threads_than_grid_points_leave_threads_for_other_branches) {
  Program program = parsed(towers("2", "4000000"));
  EXPECT_EQ(overlap_branches(program, 2).overlapped, 0);
  EXPECT_EQ(overlap_branches(program, 8).overlapped, 0) << "it has streams already";
  program = parsed(towers("2", "4000000"));
  EXPECT_EQ(overlap_branches(program, 8).overlapped, 1);
}

TEST(Overlap, work_that_depends_on_sizes_of_run_time_overlaps_if_it_pays_at_some) {
  for (const char* work : {"n*1000000", "n*20000"}) {
    Program program = parsed(towers("1", work));
    EXPECT_EQ(overlap_branches(program, 2).overlapped, 1) << work;
    EXPECT_EQ(streams_of(program), "00111") << work;
  }
  Program program = parsed(towers("n*2", "n*1000000"));  // all threads at every size
  EXPECT_EQ(overlap_branches(program, 2).overlapped, 0);
  program = parsed(towers("1", "n*1000"));  // too little at every size
  EXPECT_EQ(overlap_branches(program, 2).runs, 0);
}

TEST(Overlap, little_work_one_thread_and_chains_stay) {
  for (const std::string& steps :
       {towers("1", "1000"),
        std::string("  launch \"a\" code 0 write %0 grid [1] work [9000000]\n"
                    "  launch \"b\" code 0 read %0 write %1 grid [1] work [9000000]\n")}) {
    Program program = parsed(steps);
    EXPECT_EQ(overlap_branches(program, 2).runs, 0) << steps;
    EXPECT_EQ(streams_of(program).find('1'), std::string::npos) << steps;
  }
  Program program = parsed(towers("1", "4000000"));
  EXPECT_EQ(overlap_branches(program, 1).runs, 0);
  EXPECT_EQ(streams_of(program), "00000");
}

TEST(Overlap, streams_of_the_user_are_kept) {
  Program program = parsed("  launch \"a\" code 0 write %0 grid [1] work [9000000]\n");
  program.num_streams = 2;
  program.segments[0].steps[0].stream = 1;
  EXPECT_EQ(overlap_branches(program, 2).runs, 0);
  EXPECT_EQ(streams_of(program), "1");
}

}  // namespace
}  // namespace gex::plan
