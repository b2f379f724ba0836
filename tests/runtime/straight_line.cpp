// Conformance: launches, copies, fills, aliases, outputs, changed sizes and addresses.

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(twice, { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] * 2; })
GEX_TEST_KERNEL(add, {
  ((float*)buffers[2])[point] =
      ((const float*)buffers[0])[point] + ((const float*)buffers[1])[point];
})
GEX_TEST_KERNEL(row_sum, {
  float sum = 0;
  for (int64_t j = 0; j < dims[0]; ++j) sum += ((const float*)buffers[0])[point * dims[0] + j];
  ((float*)buffers[1])[point] = sum;
})

// y = 2 * (x + 1), through a temporary.
const char* const kChain = R"(program "chain"
symbol s0 in [0, 1000]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "t" temp f32 [s0] bytes [s0*4]
code 0 "add_one"
code 1 "twice"
main 0
segment 0 "main"
  launch "add_one" code 0 read %0 write %2 grid [s0] work [s0*8]
  launch "twice" code 1 read %2 write %1 grid [s0] work [s0*8]
)";

std::vector<float> ramp(std::int64_t count, float from = 0) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = from + static_cast<float>(i);
  return out;
}

std::vector<float> chained(std::vector<float> values) {
  for (float& v : values) v = 2 * (v + 1);
  return values;
}

void run(Session& session, const std::vector<InputArg>& inputs, Host& host) {
  session.run(inputs, host);
}

CONFORMANCE(a_chain_of_launches_gives_its_result) {
  Session session(load_program(kChain, driver), {.driver = driver});
  const Tensor x = Tensor::f32(driver, {3}, {1, 2, 3});
  TestHost host(driver);
  run(session, {x.arg()}, host);
  EXPECT_EQ(host.outputs.at(0).shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(host.outputs.at(0).strides, (std::vector<std::int64_t>{1}));
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{4, 6, 8}));
  const Counters counters = session.counters();
  EXPECT_EQ(counters.calls, 1);
  EXPECT_EQ(counters.captures, 1);
  EXPECT_EQ(counters.replays, 0);
  EXPECT_EQ(counters.launches, 2);
  EXPECT_EQ(counters.arena_bytes, 64);
  EXPECT_EQ(counters.arena_lower_bound, 64);
}

CONFORMANCE(a_changed_size_gives_right_results_and_keeps_both_captures) {
  Session session(load_program(kChain, driver), {.driver = driver});
  for (const std::int64_t size : {5, 700, 5, 1, 700, 999}) {
    const Tensor x = Tensor::f32(driver, {size}, ramp(size));
    TestHost host(driver);
    run(session, {x.arg()}, host);
    EXPECT_COMPUTED(host.f32(0), chained(ramp(size)));
  }
  const Counters counters = session.counters();
  EXPECT_EQ(counters.calls, 6);
  EXPECT_EQ(counters.captures + counters.replays, 6);
  EXPECT_GE(counters.replays, 2);
}

CONFORMANCE(a_new_capture_tells_why_it_was_made) {
  Session session(load_program(kChain, driver), {.driver = driver});
  TestHost host(driver);
  run(session, {Tensor::f32(driver, {2}, ramp(2)).arg()}, host);
  run(session, {Tensor::f32(driver, {900}, ramp(900)).arg()}, host);
  const std::vector<CaptureInfo> captures = session.captures();
  ASSERT_EQ(captures.size(), 2U);
  EXPECT_EQ(captures[1].reason, "first call");
  EXPECT_HAS(captures[0].reason, "dim 0 of input 0 was ");
  EXPECT_GE(captures[0].key[0], 900);
  EXPECT_EQ(captures[0].hits, 1);
}

CONFORMANCE(results_of_earlier_calls_stay_as_they_were) {
  Session session(load_program(kChain, driver), {.driver = driver});
  std::vector<std::unique_ptr<TestHost>> hosts;
  for (int i = 0; i < 20; ++i) {
    const Tensor x = Tensor::f32(driver, {4}, ramp(4, static_cast<float>(i)));
    hosts.push_back(std::make_unique<TestHost>(driver));
    run(session, {x.arg()}, *hosts.back());
  }
  EXPECT_EQ(session.counters().captures, 1);
  EXPECT_EQ(session.counters().replays, 19);
  if (!computes(driver)) return;
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(hosts[static_cast<std::size_t>(i)]->f32(0), chained(ramp(4, static_cast<float>(i))));
}

CONFORMANCE(an_empty_input_launches_nothing) {
  Session session(load_program(kChain, driver), {.driver = driver});
  const Tensor x = Tensor::f32(driver, {0}, {});
  TestHost host(driver);
  run(session, {x.arg()}, host);
  EXPECT_EQ(host.outputs.at(0).shape, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(session.counters().launches, 0);
}

CONFORMANCE(a_reduction_reads_its_size_from_dims) {
  Session session(load_program(R"(program "rows"
symbol s0 in [1, 64]
symbol s1 in [1, 64]
input 0 "x" f32 [s0, s1] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0, s1] bytes [s0*s1*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
code 0 "row_sum"
main 0
segment 0 "main"
  launch "row_sum" code 0 read %0 write %1 dims [s1] grid [s0] work [s0*s1*4]
)",
                               driver),
                  {.driver = driver});
  for (const std::int64_t columns : {3, 2}) {
    const Tensor x = Tensor::f32(driver, {2, columns}, ramp(2 * columns));
    TestHost host(driver);
    run(session, {x.arg()}, host);
    EXPECT_COMPUTED(host.f32(0),
                    columns == 3 ? (std::vector<float>{3, 12}) : (std::vector<float>{1, 5}));
  }
}

CONFORMANCE(a_tie_writes_into_the_input_and_copies_nothing) {
  Session session(load_program(R"(program "tie"
symbol s0 in [1, 64]
input 0 "cache" f32 [s0] -> %0
output 0 "cache" view_of_input 0 f32 [s0]
buffer %0 "cache" input 0 f32 [s0] bytes [s0*4]
buffer %1 "new" temp f32 [s0 - 1] bytes [s0*4 - 4] alias %0 at [4]
code 0 "twice"
main 0
segment 0 "main"
  launch "twice" code 0 read %1 write %1 grid [s0 - 1]
)",
                               driver),
                  {.driver = driver});
  const Tensor x = Tensor::f32(driver, {4}, {1, 2, 3, 4});
  TestHost host(driver);
  run(session, {x.arg()}, host);
  EXPECT_COMPUTED(x.values<float>(), (std::vector<float>{1, 4, 6, 8}));
  EXPECT_EQ(host.outputs.at(0).view_of_input, 0);
  EXPECT_EQ(session.counters().bytes_copied, 0);
  EXPECT_EQ(session.counters().arena_bytes, 0);
}

CONFORMANCE(copies_and_fills_move_exactly_their_bytes) {
  Session session(load_program(R"(program "copy"
symbol s0 in [2, 64]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0*2] -> %1
output 1 "bytes" fresh u8 [8] -> %3
output 2 "halves" fresh i16 [3] -> %4
output 3 "wide" fresh i64 [2] -> %5
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0*2] bytes [s0*8]
buffer %2 "t" temp f32 [s0*2] bytes [s0*8]
buffer %3 "b" output 1 u8 [8] bytes [8]
buffer %4 "h" output 2 i16 [3] bytes [6]
buffer %5 "w" output 3 i64 [2] bytes [16]
main 0
segment 0 "main"
  fill %2 bytes [s0*8] pattern 1065353216 width 4
  copy %2 + [s0*4] from %0 + [4] bytes [s0*4 - 4]
  copy %1 from %2 bytes [s0*8]
  fill %3 bytes [8] pattern 7 width 1
  fill %4 bytes [6] pattern 513 width 2
  fill %5 bytes [16] pattern 4294967298 width 8
)",
                               driver),
                  {.driver = driver});
  const Tensor x = Tensor::f32(driver, {3}, {5, 6, 7});
  TestHost host(driver);
  run(session, {x.arg()}, host);
  EXPECT_EQ(session.counters().bytes_copied, 8 + 24);
  EXPECT_EQ(session.counters().launches, 0);
  if (!computes(driver)) return;
  EXPECT_EQ(host.f32(0), (std::vector<float>{1, 1, 1, 6, 7, 1}));
  EXPECT_EQ(host.values<std::uint8_t>(1), std::vector<std::uint8_t>(8, 7));
  EXPECT_EQ(host.values<std::int16_t>(2), std::vector<std::int16_t>(3, 513));
  EXPECT_EQ(host.values<std::int64_t>(3), std::vector<std::int64_t>(2, 4294967298));
}

CONFORMANCE(constants_are_read_and_every_kind_of_output_is_told) {
  Session session(load_program(R"(program "outputs"
symbol s0 in [1, 64]
input 0 "x" f32 [s0, 2] -> %0
input 1 "n" integer [s0 + 1]
output 0 "y" fresh f32 [2] -> %1
output 1 "v" view_of_input 0 f32 [2, s0] strides [1, 2] offset [s0 - 1]
output 2 "w" view_of_output 0 f32 [1] offset [1]
output 3 "i" integer [s0*10]
output 4 "-" none
buffer %0 "x" input 0 f32 [s0, 2] bytes [s0*8]
buffer %1 "y" output 0 f32 [2] bytes [8]
buffer %2 "c" constant f32 [2] bytes [8] data f32 [2] 0x0000803f00000040
code 0 "add_one"
main 0
segment 0 "main"
  launch "add_one" code 0 read %2 write %1 grid [2]
)",
                               driver),
                  {.driver = driver});
  const Tensor x = Tensor::f32(driver, {3, 2}, ramp(6));
  TestHost host(driver);
  run(session, {x.arg(), integer(4)}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{2, 3}));
  EXPECT_EQ(host.outputs.at(1).view_of_input, 0);
  EXPECT_EQ(host.outputs.at(1).shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(host.outputs.at(1).strides, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(host.outputs.at(1).offset, 2);
  EXPECT_EQ(host.outputs.at(2).view_of_output, 0);
  EXPECT_EQ(host.outputs.at(2).offset, 1);
  EXPECT_EQ(host.outputs.at(3).integer, 30);
  EXPECT_FALSE(host.outputs.contains(4));
}

CONFORMANCE(streams_and_events_keep_program_order) {
  Session session(load_program(R"(program "streams"
streams 2
events 1
input 0 "x" f32 [4] -> %0
output 0 "y" fresh f32 [4] -> %1
buffer %0 "x" input 0 f32 [4] bytes [16]
buffer %1 "y" output 0 f32 [4] bytes [16]
buffer %2 "t" temp f32 [4] bytes [16]
code 0 "add_one"
main 0
segment 0 "main"
  launch "a" code 0 read %0 write %2 grid [4] stream 1
  record 0 stream 1
  wait 0
  launch "b" code 0 read %2 write %1 grid [4]
)",
                               driver),
                  {.driver = driver});
  const Tensor x = Tensor::f32(driver, {4}, ramp(4));
  TestHost host(driver);
  run(session, {x.arg()}, host);
  EXPECT_COMPUTED(host.f32(0), ramp(4, 2));
}

CONFORMANCE(temporaries_share_memory_only_when_their_lives_are_apart) {
  Session session(load_program(R"(program "reuse"
symbol s0 in [1, 4096]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "a" temp f32 [s0] bytes [s0*4]
buffer %3 "b" temp f32 [s0] bytes [s0*4]
buffer %4 "c" temp f32 [s0] bytes [s0*4]
buffer %5 "d" temp f32 [s0] bytes [s0*4]
code 0 "add_one"
code 1 "add"
main 0
segment 0 "main"
  launch "1" code 0 read %0 write %2 grid [s0]
  launch "2" code 0 read %2 write %3 grid [s0]
  launch "3" code 0 read %3 write %4 grid [s0]
  launch "4" code 1 read %3 read %4 write %5 grid [s0]
  launch "5" code 0 read %5 write %1 grid [s0]
)",
                               driver),
                  {.driver = driver});
  const std::int64_t size = 256;
  const Tensor x = Tensor::f32(driver, {size}, ramp(size));
  TestHost host(driver);
  run(session, {x.arg()}, host);
  EXPECT_LE(session.counters().arena_bytes, 3 * 2 * size * 4);
  EXPECT_GE(session.counters().arena_bytes, 3 * size * 4);
  if (!computes(driver)) return;
  std::vector<float> expected = ramp(size);
  for (float& v : expected) v = (v + 2) + (v + 3) + 1;
  EXPECT_EQ(host.f32(0), expected);
}

}  // namespace
}  // namespace gex::runtime::testing
