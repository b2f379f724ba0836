#include "plan/lifetimes.hpp"

#include <gtest/gtest.h>

namespace gex::plan {
namespace {

// A program of launches and control flow over small temps %0..%7; %8 and %9 are conditions.
Lifetimes of(const std::string& steps) {
  std::string text = "program \"p\"\n";
  for (int i = 0; i < 8; ++i)
    text += "buffer %" + std::to_string(i) + " \"b\" temp f32 [] bytes [4]" +
            (i == 7 ? " alias %6" : "") + "\n";
  text += "buffer %8 \"c\" temp bool [] bytes [1]\nbuffer %9 \"d\" temp bool [] bytes [1]\n";
  text += "code 0 \"k\"\n" + steps;
  return lifetimes_of(program::parse_program(text));
}

TEST(Lifetimes, straight_line_runs_from_first_write_to_last_read) {
  const Lifetimes lives = of(R"(main 0 1
segment 0 "a"
  launch "k" code 0 write %0 grid [1]
  launch "k" code 0 read %0 write %1 grid [1]
segment 1 "b"
  launch "k" code 0 read %0 read %1 write %2 grid [1]
)");
  EXPECT_EQ(lives.of_root[0], (Interval{0, 2}));
  EXPECT_EQ(lives.of_root[1], (Interval{1, 2}));
  EXPECT_EQ(lives.of_root[2], (Interval{2, 2}));
  EXPECT_FALSE(lives.of_root[3].used());
  EXPECT_EQ(lives.positions, 3);
}

TEST(Lifetimes, an_alias_class_is_one_value) {
  const Lifetimes lives = of(R"(main 0
segment 0 "a"
  launch "k" code 0 write %6 grid [1]
  launch "k" code 0 write %0 grid [1]
  launch "k" code 0 read %7 write %1 grid [1]
)");
  EXPECT_EQ(lives.of_root[6], (Interval{0, 2}));
  EXPECT_FALSE(lives.of_root[7].used());
}

TEST(Lifetimes, a_value_from_outside_lives_through_the_whole_loop) {
  const Lifetimes lives = of(R"(main 0
segment 0 "a"
  launch "k" code 0 write %0 grid [1]
  while 1 %8 do 2
  launch "k" code 0 write %1 grid [1]
segment 1 "c"
  launch "k" code 0 read %0 write %8 grid [1]
segment 2 "b"
  launch "k" code 0 write %2 grid [1]
  launch "k" code 0 read %2 write %3 grid [1]
)");
  // positions: 0 launch, 1 while, 2 condition launch, 3 condition read, 4 and 5 body, 6 launch
  EXPECT_EQ(lives.of_root[0], (Interval{0, 5}));
  EXPECT_EQ(lives.of_root[8], (Interval{2, 3}));
  EXPECT_EQ(lives.of_root[2], (Interval{4, 5})) << "new in each iteration";
  EXPECT_EQ(lives.of_root[1], (Interval{6, 6}));
  EXPECT_EQ(lives.of_step[0][1], (Interval{1, 5}));
}

TEST(Lifetimes, a_value_carried_to_the_next_iteration_lives_through_the_whole_loop) {
  const Lifetimes lives = of(R"(main 0
segment 0 "a"
  while 1 %8 do 2
segment 1 "c"
  launch "k" code 0 read %0 write %8 grid [1]
segment 2 "b"
  launch "k" code 0 write %0 grid [1]
)");
  EXPECT_EQ(lives.of_root[0], (Interval{0, 3}));
}

TEST(Lifetimes, a_value_first_written_under_a_condition_may_be_carried) {
  const Lifetimes lives = of(R"(main 0
segment 0 "a"
  while 1 %8 do 2
segment 1 "c"
  launch "k" code 0 write %8 grid [1]
segment 2 "b"
  launch "k" code 0 write %9 grid [1]
  if %9 then 3 else 4
  launch "k" code 0 read %0 write %1 grid [1]
segment 3 "t"
  launch "k" code 0 write %0 grid [1]
  launch "k" code 0 write %2 grid [1]
  launch "k" code 0 read %2 write %3 grid [1]
segment 4 "e"
)");
  EXPECT_EQ(lives.of_root[0].first, 0);
  EXPECT_EQ(lives.of_root[0].last, lives.positions - 1);
  EXPECT_EQ(lives.of_root[2].last - lives.of_root[2].first, 1) << "local to the branch";
}

TEST(Lifetimes, a_loop_inside_a_loop_extends_values_of_the_outer_one_only_over_the_inner) {
  const Lifetimes lives = of(R"(main 0
segment 0 "a"
  while 1 %8 do 2
segment 1 "c"
  launch "k" code 0 write %8 grid [1]
segment 2 "b"
  launch "k" code 0 write %0 grid [1]
  while 3 %9 do 4
  launch "k" code 0 write %1 grid [1]
segment 3 "c2"
  launch "k" code 0 write %9 grid [1]
segment 4 "b2"
  launch "k" code 0 read %0 write %2 grid [1]
  launch "k" code 0 write %3 grid [1]
)");
  // 0 while, 1 cond, 2 read, 3 write %0, 4 inner while, 5 cond, 6 read, 7 and 8 inner body, 9 last
  EXPECT_EQ(lives.of_root[0], (Interval{3, 8}));
  EXPECT_EQ(lives.of_root[3], (Interval{8, 8}));
}

}  // namespace
}  // namespace gex::plan
