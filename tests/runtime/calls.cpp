// Conformance: call steps, their results, errors from the host, re-entrancy.

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(plus_one_for_call,
                { ((float*)buffers[1])[point] = ((const float*)buffers[0])[point] + 1; })

// y = host(x + 1) + 1, where the host also sees a strided view and an integer.
const char* const kCall = R"(program "call"
symbol s0 in [1, 64]
input 0 "x" f32 [s0, 2] -> %0
output 0 "y" fresh f32 [s0*2] -> %1
buffer %0 "x" input 0 f32 [s0, 2] bytes [s0*8]
buffer %1 "y" output 0 f32 [s0*2] bytes [s0*8]
buffer %2 "t" temp f32 [s0, 2] bytes [s0*8]
buffer %3 "r" external f32 [s0*2] bytes [s0*8]
code 0 "plus_one_for_call"
main 0
segment 0 "main"
  launch "a" code 0 read %0 write %2 grid [s0*2]
  call "host" callee 7 (%2 f32 [2, s0] strides [1, 2] offset [0]) (%0 f32 [s0] strides [2] offset [1]) integers [s0, s0*3] output %3
  launch "b" code 0 read %3 write %1 grid [s0*2]
)";

void run(Session& session, const std::vector<InputArg>& inputs, Host& host) {
  session.run(inputs, host);
}

// Doubles what it gets as its first input.
TestHost::Handler doubling(TestHost& host, const std::string& driver) {
  return [&host, driver](std::span<const TensorRef> inputs, std::span<const std::int64_t>,
                         std::span<const TensorRef> expected, std::span<Host::CallResult> results) {
    std::size_t count = 1;
    for (std::int64_t size : expected[0].shape) count *= static_cast<std::size_t>(size);
    std::vector<float> values(count);
    if (computes(driver)) values = read_f32(driver, inputs[0], count);
    for (float& v : values) v *= 2;
    results[0] = host.make_result(count * 4, values.data());
  };
}

CONFORMANCE(a_call_sees_views_and_integers_and_its_result_is_used) {
  Session session(load_program(kCall, driver), {.driver = driver});
  TestHost host(driver);
  const Tensor x = Tensor::f32(driver, {2, 2}, {1, 2, 3, 4});
  const auto doubled = doubling(host, driver);
  host.handlers["host"] = [&](auto inputs, auto integers, auto expected, auto results) {
    EXPECT_EQ(inputs.size(), 2U);
    EXPECT_EQ((std::vector<std::int64_t>(inputs[0].shape.begin(), inputs[0].shape.end())),
              (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ((std::vector<std::int64_t>(inputs[0].strides.begin(), inputs[0].strides.end())),
              (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(inputs[1].data, static_cast<std::byte*>(x.memory.data()) + 4);
    EXPECT_EQ((std::vector<std::int64_t>(integers.begin(), integers.end())),
              (std::vector<std::int64_t>{2, 6}));
    EXPECT_EQ(expected[0].shape[0], 4);
    EXPECT_EQ(expected[0].strides[0], 1);
    doubled(inputs, integers, expected, results);
  };
  for (int turn = 0; turn < 3; ++turn) run(session, {x.arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{5, 7, 9, 11}));
  EXPECT_EQ(host.called, (std::vector<std::string>(3, "host")));
  EXPECT_EQ(host.released.size(), 3U);
  EXPECT_EQ(host.live_results(), 0U);
  EXPECT_EQ(session.counters().host_calls, 3);
  EXPECT_EQ(session.counters().launches, 6);
}

CONFORMANCE(an_error_in_a_call_reaches_the_caller_and_leaves_nothing_behind) {
  Session session(load_program(kCall, driver), {.driver = driver});
  TestHost host(driver);
  const Tensor x = Tensor::f32(driver, {1, 2}, {1, 2});
  const auto good = doubling(host, driver);
  host.handlers["host"] = [](auto, auto, auto, auto) {
    throw UserError(ErrorCode::invalid_argument, "the host is not amused");
  };
  EXPECT_EQ(error_of([&] { run(session, {x.arg()}, host); }), "the host is not amused");
  host.handlers["host"] = good;
  run(session, {x.arg()}, host);
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{5, 7}));
  EXPECT_EQ(host.live_results(), 0U);
  EXPECT_EQ(session.counters().calls, 1) << "failed calls are not counted as done";
}

CONFORMANCE(a_call_may_run_the_same_session_again) {
  Session session(load_program(kCall, driver), {.driver = driver});
  constexpr int kDepth = 7;  // more than there are queues for calls that compute at once
  std::vector<std::unique_ptr<TestHost>> hosts;
  std::vector<Tensor> inputs;
  for (int i = 0; i < kDepth; ++i) {
    hosts.push_back(std::make_unique<TestHost>(driver));
    inputs.push_back(Tensor::f32(driver, {1, 2}, {static_cast<float>(i), 2}));
  }
  const std::function<void(int)> run_level = [&](int level) {
    TestHost& host = *hosts[static_cast<std::size_t>(level)];
    const auto doubled = doubling(host, driver);
    host.handlers["host"] = [&, level, doubled](auto refs, auto integers, auto expected,
                                                auto results) {
      if (level + 1 < kDepth) run_level(level + 1);
      doubled(refs, integers, expected, results);
    };
    run(session, {inputs[static_cast<std::size_t>(level)].arg()}, host);
  };
  run_level(0);
  EXPECT_EQ(session.counters().calls, kDepth);
  for (int i = 0; i < kDepth; ++i) {
    const TestHost& host = *hosts[static_cast<std::size_t>(i)];
    EXPECT_COMPUTED(host.f32(0), (std::vector<float>{static_cast<float>(2 * i + 3), 7}));
    EXPECT_EQ(host.live_results(), 0U);
  }
}

CONFORMANCE(a_result_is_released_right_after_its_last_use) {
  Session session(load_program(R"(program "release"
input 0 "x" f32 [2] -> %0
output 0 "e" external f32 [2] -> %3
buffer %0 "x" input 0 f32 [2] bytes [8]
buffer %1 "r0" external f32 [2] bytes [8]
buffer %2 "r1" external f32 [2] bytes [8]
buffer %3 "r2" external f32 [2] bytes [8]
main 0
segment 0 "main"
  call "host" callee 0 (%0 f32 [2] strides [1]) output %1
  call "host" callee 0 (%1 f32 [2] strides [1]) output %2
  call "host" callee 0 (%2 f32 [2] strides [1]) output %3
)",
                               driver),
                  {.driver = driver});
  TestHost host(driver);
  const auto doubled = doubling(host, driver);
  std::vector<std::size_t> live;
  host.handlers["host"] = [&](auto inputs, auto integers, auto expected, auto results) {
    live.push_back(host.live_results());
    doubled(inputs, integers, expected, results);
  };
  const Tensor x = Tensor::f32(driver, {2}, {1, 2});
  run(session, {x.arg()}, host);
  EXPECT_EQ(live, (std::vector<std::size_t>{0, 1, 1}));
  EXPECT_EQ(host.released, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(host.outputs.at(0).handle, 3U);
  EXPECT_EQ(host.live_results(), 1U) << "the returned object belongs to the caller";
  EXPECT_COMPUTED(host.f32(0), (std::vector<float>{8, 16}));
}

CONFORMANCE(a_result_used_inside_a_loop_lives_until_the_loop_is_over) {
  if (!computes(driver)) return;
  Session session(load_program(R"(program "loop_external"
input 0 "c" bool [] -> %0
output 0 "y" fresh f32 [2] -> %4
buffer %0 "c" input 0 bool [] bytes [1]
buffer %1 "before" external f32 [2] bytes [8]
buffer %2 "inside" external f32 [2] bytes [8]
buffer %3 "c" temp bool [] bytes [1]
buffer %4 "y" output 0 f32 [2] bytes [8]
main 0
segment 0 "main"
  call "make" callee 0 (%0 bool []) output %1
  copy %3 from %0 bytes [1]
  while 1 %3 do 2
  copy %4 from %1 bytes [8]
segment 1 "condition"
  call "again" callee 0 (%3 bool []) writes 0
segment 2 "body"
  call "make" callee 0 (%1 f32 [2] strides [1]) output %2
)",
                               driver),
                  {.driver = driver});
  TestHost host(driver);
  const std::vector<float> made = {3, 4};
  std::size_t most = 0;
  host.handlers["make"] = [&](auto, auto, auto, auto results) {
    results[0] = host.make_result(8, made.data());
    most = std::max(most, host.live_results());
  };
  int turns = 0;
  host.handlers["again"] = [&](auto, auto, auto, auto) { ++turns; };
  const std::uint8_t yes = 1, no = 0;
  Tensor condition(driver, DType::boolean, {}, 1);
  condition.memory.upload(&no);
  run(session, {condition.arg()}, host);
  EXPECT_EQ(turns, 1);
  host.handlers["again"] = [&](auto, auto, auto, auto) {
    if (++turns == 4) throw UserError(ErrorCode::invalid_argument, "stop");
  };
  turns = 0;
  condition.memory.upload(&yes);
  EXPECT_EQ(error_of([&] { run(session, {condition.arg()}, host); }), "stop");
  EXPECT_EQ(host.called.size(), 2U + 8U);
  EXPECT_EQ(most, 2U) << "each iteration releases the result of the previous one";
  EXPECT_EQ(host.live_results(), 0U);
}

CONFORMANCE(a_call_result_gives_sizes_that_only_it_knows) {
  Session session(load_program(R"(program "nonzero"
symbol s0 in [1, 64]
symbol u0 in [0, 64]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [u0] -> %1
output 1 "n" integer [u0]
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [u0] bytes [u0*4]
buffer %2 "r" external f32 [u0, 1] bytes [u0*4]
buffer %3 "t" temp f32 [u0] bytes [u0*4]
code 0 "plus_one_for_call"
main 0
segment 0 "main"
  call "nonzero" callee 0 (%0 f32 [s0] strides [1]) output %2
  launch "a" code 0 read %2 write %3 grid [u0]
  launch "b" code 0 read %3 write %1 grid [u0]
)",
                               driver),
                  {.driver = driver});
  TestHost host(driver);
  const Tensor x = Tensor::f32(driver, {4}, {1, 2, 3, 4});
  for (const std::int64_t count : {3, 1, 3, 0}) {
    host.handlers["nonzero"] = [&](auto, auto, auto expected, auto results) {
      EXPECT_EQ(expected[0].shape[0], -1);
      EXPECT_EQ(expected[0].shape[1], 1);
      const std::vector<float> values(static_cast<std::size_t>(count), 5.0F);
      results[0] = host.make_result(values.size() * 4, values.data());
      results[0].shape = {count, 1};
    };
    run(session, {x.arg()}, host);
    EXPECT_EQ(host.outputs.at(1).integer, count);
    EXPECT_EQ(host.outputs.at(0).shape, (std::vector<std::int64_t>{count}));
    EXPECT_COMPUTED(host.f32(0), std::vector<float>(static_cast<std::size_t>(count), 7.0F));
  }
  host.handlers["nonzero"] = [&](auto, auto, auto, auto results) {
    results[0] = host.make_result(4, nullptr);
  };
  EXPECT_HAS(error_of([&] { run(session, {x.arg()}, host); }), "must set the shape");
  host.handlers["nonzero"] = [&](auto, auto, auto, auto results) {
    results[0] = host.make_result(4, nullptr);
    results[0].shape = {65, 1};
  };
  EXPECT_HAS(error_of([&] { run(session, {x.arg()}, host); }), "size u0 is 65");
  host.handlers["nonzero"] = [&](auto, auto, auto, auto results) {
    results[0] = host.make_result(4, nullptr);
    results[0].shape = {1, 2};
  };
  EXPECT_HAS(error_of([&] { run(session, {x.arg()}, host); }), "nonzero");
  EXPECT_EQ(host.live_results(), 0U);
}

}  // namespace
}  // namespace gex::runtime::testing
