// Gears: one Capture for a range of sizes, with the results of the sizes of the call.

#include <algorithm>

#include "harness.hpp"
#include "runtime/capture/gears.hpp"
#include "runtime/device.hpp"

namespace gex::runtime::testing {
namespace {

GEX_TEST_KERNEL(geared_read_first, { ((float*)buffers[1])[point] = ((const float*)buffers[0])[0]; })

// Three temporaries in a row; the sizes of one shrink where the input grows.
std::string program_text(const std::string& shrinking) {
  return str(R"(program "geared"
symbol s0 in [1, 1000]
input 0 "x" f32 [s0] -> %0
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "a" temp f32 [s0] bytes [s0*4]
buffer %3 "b" temp f32 [s0] bytes [s0*4]
buffer %4 "c" temp f32 [)",
             shrinking, "] bytes [(", shrinking, R"()*4]
code 0 "add_one"
code 1 "geared_read_first"
main 0
segment 0 "main"
  launch "a" code 0 read %0 write %2 grid [s0] work [s0*8]
  launch "c" code 1 read %2 write %4 grid [)",
             shrinking, R"(] work [8]
  launch "b" code 0 read %2 write %3 grid [s0] work [s0*8]
  launch "y" code 0 read %3 write %1 grid [s0] work [s0*8]
)");
}

void run(Session& session, std::int64_t size, float from = 1) {
  const auto count = static_cast<std::size_t>(size);
  const Tensor x = Tensor::f32("cpu", {size}, std::vector<float>(count, from));
  TestHost host("cpu");
  session.run(std::vector<InputArg>{x.arg()}, host);
  ASSERT_EQ(host.f32(0), std::vector<float>(count, from + 3)) << size;
}

SessionOptions with(GearOptions gears) {
  SessionOptions options;
  options.gears = std::move(gears);
  return options;
}

GearOptions listed(const std::vector<std::int64_t>& sizes) {
  GearOptions gears{GearOptions::Policy::listed};
  gears.ladders.push_back({{Dim(0)}, {}});
  for (const std::int64_t size : sizes) gears.ladders[0].rows.push_back({size});
  return gears;
}

TEST(Gears, one_capture_serves_every_size_up_to_the_gear) {
  Session session(load_program(program_text("s0"), "cpu"), with(listed({16, 64})));
  for (const std::int64_t size : {16, 3, 1, 9, 40, 64, 5, 17}) run(session, size);
  EXPECT_EQ(session.counters().captures, 2);
  EXPECT_EQ(session.counters().replays, 6);
  EXPECT_EQ(session.captures()[0].key, (std::vector<std::int64_t>{64}));
  EXPECT_EQ(session.captures()[1].hits, 5);
}

TEST(Gears, a_size_above_the_last_gear_is_captured_exactly) {
  Session session(load_program(program_text("s0"), "cpu"), with(listed({8})));
  for (const std::int64_t size : {8, 9, 10, 9}) run(session, size);
  EXPECT_EQ(session.counters().captures, 3);
}

TEST(Gears, sizes_that_are_not_gears_can_be_rejected) {
  GearOptions gears = listed({1, 4, 8});
  gears.refuse_others = true;
  Session session(load_program(program_text("s0"), "cpu"), with(gears));
  for (const std::int64_t size : {1, 4, 8, 4}) run(session, size);
  EXPECT_HAS(error_of([&] { run(session, 3); }), "size 3 is not one of the gears (1, 4, 8)");
  EXPECT_HAS(error_of([&] { run(session, 9); }), "size 9 is not one of the gears");
  EXPECT_EQ(session.counters().captures, 3);
}

TEST(Gears, invalid_lists_are_rejected) {
  const auto problem = [](const std::vector<std::int64_t>& sizes) {
    return error_of([&] { Session(load_program(program_text("s0"), "cpu"), with(listed(sizes))); });
  };
  EXPECT_HAS(problem({}), "empty");
  EXPECT_HAS(problem({0, 4}), "gear 0 is not a valid size");
  EXPECT_HAS(problem({4, 8, 4}), "gear 4 is listed twice");
  GearOptions two{GearOptions::Policy::listed};
  two.ladders.push_back({{Dim::symbol("s0"), Dim::symbol("s1")}, {{3, 4}, {5}}});
  EXPECT_HAS(error_of([&] { Session(load_program(program_text("s0"), "cpu"), with(two)); }),
             "gear 5 has 1 sizes");
}

TEST(Gears, sizes_that_change_together_take_the_first_row_that_covers_all) {
  auto program = load_program(R"(program "two"
symbol s0 in [1, 1000]
symbol s1 in [1, 1000]
input 0 "x" f32 [s0] -> %0
input 1 "z" f32 [s1] -> %4
output 0 "y" fresh f32 [s0] -> %1
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" output 0 f32 [s0] bytes [s0*4]
buffer %2 "a" temp f32 [s0] bytes [s0*4]
buffer %3 "b" temp f32 [s1] bytes [s1*4]
buffer %4 "z" input 1 f32 [s1] bytes [s1*4]
code 0 "add_one"
main 0
segment 0 "main"
  launch "a" code 0 read %0 write %2 grid [s0] work [s0*8]
  launch "b" code 0 read %4 write %3 grid [s1] work [s1*8]
  launch "y" code 0 read %2 write %1 grid [s0] work [s0*8]
)",
                              "cpu");
  GearOptions gears{GearOptions::Policy::listed};
  const std::vector<Dim>& symbols = program->program->symbols;
  gears.ladders.push_back({{symbols[0], symbols[1]}, {{20, 8}, {40, 4}}});
  Session session(program, with(gears));
  const auto gear_of = [&](std::int64_t rows, std::int64_t columns) {
    const Tensor x = Tensor::f32("cpu", {rows}, std::vector<float>(static_cast<std::size_t>(rows)));
    const Tensor z =
        Tensor::f32("cpu", {columns}, std::vector<float>(static_cast<std::size_t>(columns)));
    TestHost host("cpu");
    session.run(std::vector<InputArg>{x.arg(), z.arg()}, host);
    return session.captures()[0].key;
  };
  using Key = std::vector<std::int64_t>;
  EXPECT_EQ(gear_of(20, 8), (Key{20, 8}));
  EXPECT_EQ(gear_of(3, 7), (Key{20, 8}));
  EXPECT_EQ(gear_of(21, 1), (Key{40, 4}));
  EXPECT_EQ(gear_of(21, 5), (Key{21, 5})) << "no row has room for both";
  EXPECT_EQ(session.counters().captures, 3);
}

TEST(Gears, automatic_ones_are_powers_of_two_from_the_third_size_on) {
  Session session(load_program(program_text("s0"), "cpu"), with({GearOptions::Policy::automatic}));
  for (std::int64_t size = 10; size < 138; ++size) run(session, size);
  EXPECT_EQ(session.counters().captures, 7) << "10, 11, then 16, 32, 64, 128, 256";
  EXPECT_EQ(session.counters().replays, 121);
  const auto captures = session.captures();
  EXPECT_EQ(captures[0].reason, "dim 0 of input 0 was 128, now 129; gear 256 covers both");
  EXPECT_EQ(captures[5].reason, "dim 0 of input 0 was 10, now 11");
}

TEST(Gears, a_gear_stays_within_the_range_of_its_symbol) {
  Session session(load_program(program_text("s0"), "cpu"), with({GearOptions::Policy::automatic}));
  for (const std::int64_t size : {5, 6, 900}) run(session, size);
  EXPECT_EQ(session.captures()[0].key, (std::vector<std::int64_t>{1000}));
}

TEST(Gears, sizes_that_shrink_where_the_input_grows_get_their_own_capture) {
  Session session(load_program(program_text("100 - s0"), "cpu"), with(listed({64})));
  run(session, 64);  // 36 elements for c
  run(session, 10);  // 90
  run(session, 10);
  EXPECT_EQ(session.counters().captures, 2);
  EXPECT_EQ(session.captures()[0].key, (std::vector<std::int64_t>{10}));
}

TEST(Gears, a_gear_with_undefined_sizes_is_not_used) {
  Session session(load_program(program_text("100 - s0"), "cpu"), with(listed({128})));
  run(session, 70);
  EXPECT_EQ(session.captures()[0].key, (std::vector<std::int64_t>{70}));
}

// What a device says of its sizes counts for every policy.
TEST(Gears, a_device_has_steps_of_its_own_and_sizes_that_stay_as_they_are) {
  const Image image(load_program(program_text("s0"), "cpu")->program);
  const auto rounded = [&](const GearOptions& policy, const GearRule& rule, std::int64_t size) {
    std::vector<std::int64_t> key = {size};
    Gears(image, policy, true, rule).round_up(key, 10);
    return key[0];
  };
  const GearOptions exact{GearOptions::Policy::exact}, automatic{GearOptions::Policy::automatic};
  EXPECT_EQ(rounded(exact, {}, 37), 37);
  EXPECT_EQ(rounded(exact, {4, {}}, 37), 40);
  EXPECT_EQ(rounded(exact, {4, {}}, 9), 16);
  EXPECT_EQ(rounded(exact, {1, {}}, 37), 64);
  EXPECT_EQ(rounded(exact, {1, {}}, 999), 1000);  // the range of the symbol
  EXPECT_EQ(rounded(automatic, {}, 37), 64);
  EXPECT_EQ(rounded(automatic, {4, {true}}, 37), 37);
  EXPECT_EQ(rounded(listed({16, 64}), {}, 37), 64);
  EXPECT_EQ(rounded(listed({16, 64}), {4, {true}}, 37), 37);
  EXPECT_EQ(rounded(listed({16, 64}), {4, {false}}, 37), 64);
}

TEST(Gears, values_that_no_memory_depends_on_share_a_capture) {
  Session session(load_program(count_up(0), "cpu"), with({GearOptions::Policy::automatic}));
  for (const std::int64_t size : {5, 6, 900, 5}) {
    const Tensor x = Tensor::f32("cpu", {size}, std::vector<float>(static_cast<std::size_t>(size)));
    TestHost host("cpu");
    session.run(std::vector<InputArg>{x.arg()}, host);
    EXPECT_EQ(host.f32(0).size(), static_cast<std::size_t>(size));
    EXPECT_TRUE(std::ranges::all_of(host.f32(0), [](float v) { return v == 1; }));
  }
  EXPECT_EQ(session.counters().captures, 1);
}

TEST(Captures, forced_captures_count_as_recaptures) {
  SessionOptions options;
  options.force_recapture = true;
  Session session(load_program(program_text("s0"), "cpu"), std::move(options));
  for (int i = 0; i < 3; ++i) run(session, 12, static_cast<float>(i));
  EXPECT_EQ(session.counters().captures, 1);
  EXPECT_EQ(session.counters().recaptures, 2);
  ASSERT_EQ(session.captures().size(), 1U);
  EXPECT_EQ(session.captures()[0].hits, 3);
}

TEST(Captures, without_a_shared_arena_each_has_its_own_memory) {
  const auto held = [](bool share) {
    SessionOptions options;
    options.captures_share_arena = share;
    options.device = open_cpu({});
    Session session(load_program(program_text("s0"), "cpu"), std::move(options));
    for (const std::int64_t size : {300, 200, 300, 100}) run(session, size);
    return session.pool_bytes();
  };
  const std::size_t shared = held(true), apart = held(false);
  EXPECT_GT(shared, 0U);
  EXPECT_GE(apart, shared * 19 / 10) << "300, 200 and 100 elements against 300";
}

TEST(Captures, memory_of_an_evicted_capture_is_reused) {
  SessionOptions options;
  options.captures_share_arena = false;
  options.capture_limit = 1;
  options.device = open_cpu({});
  Session session(load_program(program_text("s0"), "cpu"), std::move(options));
  run(session, 300);
  const std::size_t before = session.pool_bytes();
  for (const std::int64_t size : {100, 200, 300}) run(session, size);
  EXPECT_EQ(session.counters().evictions, 3);
  EXPECT_LE(session.pool_bytes(), before * 2) << "at most the one that goes and the one that comes";
}

}  // namespace
}  // namespace gex::runtime::testing
