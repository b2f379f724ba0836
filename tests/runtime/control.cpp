// Conformance: bind, if, while, and sizes that are known only while the program runs.

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(count_positive, {
  int64_t count = 0;
  for (int64_t i = 0; i < dims[0]; ++i) count += ((const float*)buffers[0])[i] > 0 ? 1 : 0;
  ((int64_t*)buffers[1])[0] = count + point;
})
GEX_TEST_KERNEL(compact_positive, {
  int64_t at = point;
  for (int64_t i = 0; i < dims[0]; ++i) {
    if (((const float*)buffers[0])[i] > 0)
      ((float*)buffers[1])[at++] = ((const float*)buffers[0])[i];
  }
})
GEX_TEST_KERNEL(plus_ten, { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] + 10; })
GEX_TEST_KERNEL(minus_ten,
                { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] - 10; })
GEX_TEST_KERNEL(first_is_positive,
                { ((unsigned char*)buffers[1])[point] = ((const float*)buffers[0])[0] > 0; })
GEX_TEST_KERNEL(below_limit, {
  ((unsigned char*)buffers[2])[point] =
      ((const float*)buffers[0])[0] < ((const float*)buffers[1])[0];
})
GEX_TEST_KERNEL(next_power,
                { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] * 2; })

const char* const kCompact = R"(program "compact"
symbol s0 in [1, 4096]
symbol u0 in [0, 4096]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [u0] -> %1
output 1 "n" integer [u0]
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [u0] bytes [u0*4]
buffer %2 "count" temp i64 [] bytes [8]
buffer %3 "kept" temp f32 [u0] bytes [u0*4]
buffer %4 "copy" temp f32 [s0] bytes [s0*4]
code 0 "count_positive"
code 1 "compact_positive"
code 2 "plus_ten"
guard [u0] <= [100] "too many positive values"
main 0 1
segment 0 "count"
  copy %4 from %0 bytes [s0*4]
  launch "count" code 0 read %0 write %2 dims [s0] grid [1]
  bind u0 = %2
segment 1 "keep"
  launch "compact" code 1 read %4 write %3 dims [s0] grid [1]
  launch "plus" code 2 read %3 write %1 dims [u0] grid [u0] scratch [u0*8]
)";

void run(Session& session, const std::vector<InputArg>& inputs, Host& host) {
  session.run(inputs, host);
}

// Where graphs have conditional nodes, the device decides, and a call is one launch of a graph.
bool device_decides(const Session& session, const std::string& driver) {
  return driver.starts_with("cuda_graph") && session.host_control().empty();
}
void expect_one_graph_a_call(const Session& session, const std::string& driver) {
  if (!device_decides(session, driver)) return;
  EXPECT_EQ(session.counters().graph_launches, session.counters().calls);
  EXPECT_EQ(session.counters().single_launches, 0);
  EXPECT_EQ(session.counters().recordings, 1);
}

CONFORMANCE(a_bound_size_gives_the_output_its_shape) {
  Session session(load_program(kCompact, driver), {.driver = driver});
  for (int turn = 0; turn < 3; ++turn) {
    TestHost host(driver);
    const Tensor x = Tensor::f32(driver, {5}, {1, -2, 3, -4, turn == 1 ? 5.0F : -5.0F});
    run(session, {x.arg()}, host);
    EXPECT_COMPUTED(host.f32(0),
                    turn == 1 ? (std::vector<float>{11, 13, 15}) : (std::vector<float>{11, 13}));
    EXPECT_EQ(host.outputs.at(0).shape[0], host.outputs.at(1).integer);
  }
  EXPECT_EQ(session.counters().captures, 1) << "a bound size is no part of the key";
}

CONFORMANCE(a_bound_size_of_zero_launches_nothing) {
  Session session(load_program(kCompact, driver), {.driver = driver});
  TestHost host(driver);
  run(session, {Tensor::f32(driver, {2}, {-1, -2}).arg()}, host);
  EXPECT_EQ(host.outputs.at(0).shape, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(host.outputs.at(1).integer, 0);
}

CONFORMANCE(guards_on_bound_sizes_stop_the_call_with_numbers) {
  if (!computes(driver)) return;
  Session session(load_program(kCompact, driver), {.driver = driver});
  TestHost host(driver);
  const Tensor x = Tensor::f32(driver, {101}, std::vector<float>(101, 1.0F));
  const std::string message = error_of([&] { run(session, {x.arg()}, host); });
  EXPECT_HAS(message, "too many positive values");
  EXPECT_HAS(message, "101 and 100");
  const Tensor small = Tensor::f32(driver, {1}, {4});
  run(session, {small.arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{14}));
}

CONFORMANCE(two_binds_place_their_buffers_one_after_the_other) {
  Session session(load_program(R"(program "twice_bound"
symbol s0 in [1, 64]
symbol u0 in [0, 64]
symbol u1 in [0, 64]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [u1] -> %1
output 1 "sum" integer [u0*100 + u1]
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [u1] bytes [u1*4]
buffer %2 "n0" temp i64 [] bytes [8]
buffer %3 "kept" temp f32 [u0] bytes [u0*4]
buffer %4 "moved" temp f32 [u0] bytes [u0*4]
buffer %5 "n1" temp i64 [] bytes [8]
code 0 "count_positive"
code 1 "compact_positive"
code 2 "minus_ten"
main 0 1 2
segment 0 "a"
  launch "count" code 0 read %0 write %2 dims [s0] grid [1]
  bind u0 = %2
segment 1 "b"
  launch "compact" code 1 read %0 write %3 dims [s0] grid [1]
  launch "minus" code 2 read %3 write %4 dims [u0] grid [u0]
  launch "count" code 0 read %4 write %5 dims [u0] grid [1]
  bind u1 = %5
segment 2 "c"
  launch "compact" code 1 read %4 write %1 dims [u0] grid [1]
)",
                               driver),
                  {.driver = driver});
  TestHost host(driver);
  run(session, {Tensor::f32(driver, {5}, {20, -1, 5, 12, 9}).arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{10, 2}));
  EXPECT_COMPUTED(host.outputs.at(1).integer, 402);
}

const char* const kBranch = R"(program "branch"
input 0 "x" f32 [3] -> %0
output 0 "y" fresh f32 [3] -> %1
buffer %0 "x" input 0 f32 [3] bytes [12]
buffer %1 "y" output 0 f32 [3] bytes [12]
buffer %2 "c" temp bool [] bytes [1]
buffer %3 "t" temp f32 [3] bytes [12]
code 0 "first_is_positive"
code 1 "plus_ten"
code 2 "minus_ten"
main 0
segment 0 "main"
  launch "test" code 0 read %0 write %2 grid [1]
  if %2 then 1 else 2
  launch "last" code 1 read %3 write %1 grid [3]
segment 1 "then"
  launch "plus" code 1 read %0 write %3 grid [3]
segment 2 "else"
  launch "minus" code 2 read %0 write %3 grid [3]
)";

CONFORMANCE(an_if_runs_the_branch_its_condition_says) {
  Session session(load_program(kBranch, driver), {.driver = driver});
  TestHost host(driver);
  run(session, {Tensor::f32(driver, {3}, {1, 2, 3}).arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{21, 22, 23}));
  run(session, {Tensor::f32(driver, {3}, {-1, 2, 3}).arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{-1, 2, 3}));
  // The device does not tell which branch ran.
  EXPECT_EQ(session.counters().launches, device_decides(session, driver) ? 4 : 6);
  EXPECT_EQ(session.counters().captures, 1);
  expect_one_graph_a_call(session, driver);
}

const char* const kLoop = R"(program "loop"
input 0 "x" f32 [2] -> %0
input 1 "limit" f32 [1] -> %1
output 0 "y" fresh f32 [2] -> %2
buffer %0 "x" input 0 f32 [2] bytes [8]
buffer %1 "limit" input 1 f32 [1] bytes [4]
buffer %2 "y" output 0 f32 [2] bytes [8]
buffer %3 "state" temp f32 [2] bytes [8]
buffer %4 "next" temp f32 [2] bytes [8]
buffer %5 "c" temp bool [] bytes [1]
buffer %6 "outside" temp f32 [2] bytes [8]
buffer %7 "work" temp f32 [2] bytes [8]
code 0 "below_limit"
code 1 "next_power"
code 2 "plus_ten"
main 0
segment 0 "main"
  copy %3 from %0 bytes [8]
  launch "outside" code 2 read %0 write %6 grid [2]
  while 1 %5 do 2
  launch "plus" code 2 read %3 write %7 grid [2]
  copy %2 from %7 bytes [4]
  copy %2 + [4] from %6 + [4] bytes [4]
segment 1 "condition"
  launch "below" code 0 read %3 read %1 write %5 grid [1]
segment 2 "body"
  launch "power" code 1 read %3 write %4 grid [2]
  copy %3 from %4 bytes [8]
)";

CONFORMANCE(a_while_carries_its_state_and_keeps_values_from_outside) {
  Session session(load_program(kLoop, driver), {.driver = driver});
  for (const float limit : {100.0F, 1.0F, 3.0F}) {
    TestHost host(driver);
    run(session, {Tensor::f32(driver, {2}, {1, 7}).arg(), Tensor::f32(driver, {1}, {limit}).arg()},
        host);
    const float reached = limit == 100.0F ? 128.0F : limit == 1.0F ? 1.0F : 4.0F;
    EXPECT_COMPUTED(host.f32(0), (std::vector<float>{reached + 10, 17}));
  }
  expect_one_graph_a_call(session, driver);
}

CONFORMANCE(an_if_inside_a_while_inside_a_while) {
  Session session(load_program(R"(program "nest"
input 0 "x" f32 [1] -> %0
input 1 "outer" f32 [1] -> %1
input 2 "inner" f32 [1] -> %2
output 0 "y" fresh f32 [1] -> %3
buffer %0 "x" input 0 f32 [1] bytes [4]
buffer %1 "outer" input 1 f32 [1] bytes [4]
buffer %2 "inner" input 2 f32 [1] bytes [4]
buffer %3 "y" output 0 f32 [1] bytes [4]
buffer %4 "c0" temp bool [] bytes [1]
buffer %5 "c1" temp bool [] bytes [1]
buffer %6 "c2" temp bool [] bytes [1]
buffer %7 "a" temp f32 [1] bytes [4]
buffer %8 "b" temp f32 [1] bytes [4]
buffer %9 "t" temp f32 [1] bytes [4]
code 0 "below_limit"
code 1 "next_power"
code 2 "plus_ten"
code 3 "first_is_positive"
main 0
segment 0 "main"
  copy %7 from %0 bytes [4]
  while 1 %4 do 2
  copy %3 from %7 bytes [4]
segment 1 "outer condition"
  launch "below" code 0 read %7 read %1 write %4 grid [1]
segment 2 "outer body"
  copy %8 from %7 bytes [4]
  while 3 %5 do 4
  copy %7 from %8 bytes [4]
segment 3 "inner condition"
  launch "below" code 0 read %8 read %2 write %5 grid [1]
segment 4 "inner body"
  launch "sign" code 3 read %8 write %6 grid [1]
  if %6 then 5 else 6
segment 5 "positive"
  launch "power" code 1 read %8 write %9 grid [1]
  copy %8 from %9 bytes [4]
segment 6 "negative"
  launch "plus" code 2 read %8 write %9 grid [1]
  copy %8 from %9 bytes [4]
)",
                               driver),
                  {.driver = driver});
  TestHost host(driver);
  // -15 -> -5 -> 5 -> 10 -> 20 -> 40: the inner loop stops at 32, the outer goes on while below 33.
  run(session,
      {Tensor::f32(driver, {1}, {-15}).arg(), Tensor::f32(driver, {1}, {33}).arg(),
       Tensor::f32(driver, {1}, {32}).arg()},
      host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{40}));
  expect_one_graph_a_call(session, driver);
}

// The condition's memory is free once it was read: here the first branch writes to it.
CONFORMANCE(an_if_whose_first_branch_overwrites_the_condition) {
  Session session(load_program(R"(program "overwritten"
input 0 "x" f32 [1] -> %0
output 0 "y" fresh f32 [1] -> %1
buffer %0 "x" input 0 f32 [1] bytes [4]
buffer %1 "y" output 0 f32 [1] bytes [4]
buffer %2 "c" temp bool [] bytes [1]
buffer %3 "negative" temp f32 [1] bytes [4]
code 0 "first_is_positive"
code 1 "plus_ten"
code 2 "minus_ten"
main 0
segment 0 "main"
  launch "test" code 0 read %0 write %2 grid [1]
  if %2 then 1 else 2
segment 1 "then"
  launch "minus" code 2 read %0 write %3 grid [1]
  launch "again" code 0 read %3 write %2 grid [1]
  launch "plus" code 1 read %0 write %1 grid [1]
segment 2 "else"
  launch "minus" code 2 read %0 write %1 grid [1]
)",
                               driver),
                  {.driver = driver});
  for (const float x : {1.0F, -1.0F}) {
    TestHost host(driver);
    run(session, {Tensor::f32(driver, {1}, {x}).arg()}, host);
    EXPECT_COMPUTED(host.f32(0), (std::vector<float>{x > 0 ? 11.0F : -11.0F}));
  }
  expect_one_graph_a_call(session, driver);
}

}  // namespace
}  // namespace gex::runtime::testing
