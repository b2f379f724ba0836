// Conformance: messages about inputs that do not match.

#include "harness.hpp"

namespace gex::runtime::testing {
namespace {

const char* const kInputs = R"(program "inputs"
symbol s0 in [2, 16]
symbol t0 in [1, 999]
input 0 "x" f32 [s0, 4] -> %0
input 1 "w" f32 [s0*2 + 1] -> %1
input 2 "v" f32 [s0, 3] strides [t0, 1] -> %2
input 3 "n" integer [s0]
output 0 "t" integer [t0]
buffer %0 "x" input 0 f32 [s0, 4] bytes [s0*16]
buffer %1 "w" input 1 f32 [s0*2 + 1] bytes [s0*8 + 4]
buffer %2 "v" input 2 f32 [s0, 3] strides [t0, 1] bytes [s0*t0*4]
guard [s0 % 4] != [3] "s0 must not leave 3"
main
)";

struct Inputs {
  explicit Inputs(const std::string& driver, std::int64_t n = 2)
      : x(driver, DType::f32, {n, 4}, static_cast<std::size_t>(n) * 16),
        w(driver, DType::f32, {n * 2 + 1}, static_cast<std::size_t>(n * 2 + 1) * 4),
        v(driver, DType::f32, {n, 3}, static_cast<std::size_t>(n) * 12),
        size(n) {}
  std::vector<InputArg> args() const { return {x.arg(), w.arg(), v.arg(), integer(size)}; }
  Tensor x, w, v;
  std::int64_t size;
};

std::string error_with(const std::string& driver, const std::function<void(Inputs&)>& change) {
  Session session(load_program(kInputs, driver), {.driver = driver});
  TestHost host(driver);
  Inputs inputs(driver);
  session.run(inputs.args(), host);  // fits as it is
  EXPECT_EQ(host.outputs.at(0).integer, 3);
  change(inputs);
  const std::string message = error_of([&] { session.run(inputs.args(), host); });
  EXPECT_EQ(session.counters().calls, 1);
  return message;
}

CONFORMANCE(a_wrong_dtype_names_input_expectation_and_cure) {
  const std::string message =
      error_with(driver, [](Inputs& inputs) { inputs.x.dtype = DType::i32; });
  EXPECT_HAS(message, "input 0 \"x\"");
  EXPECT_HAS(message, "expected f32[s0, 4]");
  EXPECT_HAS(message, "got i32[2, 4]");
  EXPECT_HAS(message, "convert it to f32");
}

CONFORMANCE(a_wrong_rank_says_how_many_dims) {
  const std::string message = error_with(driver, [](Inputs& inputs) {
    inputs.x.shape = {8};
    inputs.x.strides = {1};
  });
  EXPECT_HAS(message, "got f32[8]");
  EXPECT_HAS(message, "should have 2 dims");
}

CONFORMANCE(a_wrong_constant_size_is_named) {
  EXPECT_HAS(error_with(driver, [](Inputs& inputs) { inputs.x.shape = {2, 5}; }),
             "dim 1 should be 4");
}

CONFORMANCE(a_repeated_symbol_must_agree) {
  const std::string message = error_with(driver, [](Inputs& inputs) { inputs.v.shape = {3, 3}; });
  EXPECT_HAS(message, "input 2 \"v\"");
  EXPECT_HAS(message, "dim 0 should be 2");
  EXPECT_HAS(error_with(driver, [](Inputs& inputs) { inputs.size = 9; }), "the integer s0, got 9");
}

CONFORMANCE(an_expression_is_checked_with_its_value) {
  EXPECT_HAS(error_with(driver, [](Inputs& inputs) { inputs.w.shape = {6}; }), "dim 0 should be 5");
}

CONFORMANCE(sizes_outside_the_range_are_refused) {
  EXPECT_HAS(error_with(driver, [&](Inputs& inputs) { inputs = Inputs(driver, 17); }),
             "dim 0 should be at most 16");
  EXPECT_HAS(error_with(driver, [&](Inputs& inputs) { inputs = Inputs(driver, 1); }),
             "dim 0 should be at least 2");
}

CONFORMANCE(a_layout_that_is_not_dense_is_refused_with_advice) {
  const std::string message = error_with(driver, [](Inputs& inputs) { inputs.x.strides = {1, 2}; });
  EXPECT_HAS(message, "stride 1 should be 1");
  EXPECT_HAS(message, "expected layout");
}

CONFORMANCE(a_stride_symbol_takes_the_stride_of_the_input) {
  Session session(load_program(kInputs, driver), {.driver = driver});
  TestHost host(driver);
  Inputs inputs(driver);
  inputs.v.strides = {77, 1};
  session.run(inputs.args(), host);
  EXPECT_EQ(host.outputs.at(0).integer, 77);
}

CONFORMANCE(strides_of_axes_with_one_element_do_not_matter) {
  Session session(load_program(R"(program "ones"
symbol s0 in [0, 16]
input 0 "x" f32 [1, s0, 1] -> %0
buffer %0 "x" input 0 f32 [1, s0, 1] bytes [s0*4]
main
)",
                               driver),
                  {.driver = driver});
  TestHost host(driver);
  Tensor x(driver, DType::f32, {1, 3, 1}, 12);
  x.strides = {999, 1, 555};
  session.run(std::vector<InputArg>{x.arg()}, host);
  x.shape = {1, 0, 1};
  x.strides = {0, 7, 0};
  session.run(std::vector<InputArg>{x.arg()}, host);
  EXPECT_EQ(session.counters().calls, 2);
}

CONFORMANCE(guards_fail_with_message_and_numbers) {
  const std::string message =
      error_with(driver, [&](Inputs& inputs) { inputs = Inputs(driver, 7); });
  EXPECT_HAS(message, "s0 must not leave 3");
  EXPECT_HAS(message, "got 3 and 3");
}

CONFORMANCE(a_missing_input_or_memory_is_told) {
  Session session(load_program(kInputs, driver), {.driver = driver});
  TestHost host(driver);
  Inputs inputs(driver);
  std::vector<InputArg> args = inputs.args();
  args.pop_back();
  EXPECT_HAS(error_of([&] { session.run(args, host); }), "takes 4 inputs, got 3");
  args = inputs.args();
  args[1].tensor.data = nullptr;
  EXPECT_HAS(error_of([&] { session.run(args, host); }), "input 1 \"w\" has a null data pointer");
}

TEST(Session, an_unknown_driver_lists_the_available_ones) {
  const auto executable = load_program("program \"p\"\n", "cpu");
  EXPECT_HAS(error_of([&] { Session(executable, {.driver = "abacus"}); }), "null");
}

TEST(Session, code_without_a_function_is_refused_when_the_session_is_made) {
  const auto executable = load_program("program \"p\"\ncode 0 \"no such kernel\"\n", "cpu");
  EXPECT_HAS(error_of([&] { Session(executable, {.driver = "cpu"}); }), "\"no such kernel\"");
}

}  // namespace
}  // namespace gex::runtime::testing
