// A tie gives an input new contents; every use of an input in the graph reads its contents from
// before the call.

#include "harness.hpp"

namespace gex::test {
namespace {

CompileOptions unoptimised() {
  CompileOptions options;
  options.level = 0;
  options.fuse = options.in_place_inputs = options.in_place_temps = false;
  return options;
}

// With everything written in place and with nothing.
void check_both(const std::string& text, int count) {
  std::vector<HostTensor> inputs;
  std::mt19937 random(7);
  for (int k = 0; k < count; ++k) inputs.push_back(random_tensor(DType::f32, {4, 3}, random));
  check(text, inputs);
  check(text, inputs, 2e-5, unoptimised());
}

std::int64_t count_of(const Result& result, const std::string& name) {
  std::int64_t total = 0;
  for (const auto& [counter, value] : result.compiled.program->counters)
    if (counter == name) total += value;
  return total;
}

std::vector<HostTensor> two_inputs() {
  std::mt19937 random(5);
  return {random_tensor(DType::f32, {4, 3}, random), random_tensor(DType::f32, {4, 3}, random)};
}

TEST(Ties, a_copied_input_is_read_before_it_is_overwritten) {
  const char* text =
      R"(graph g(%prev: f32[4, 3], %cur: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0, 1 -> 1) {
  %y = add(%cur, %cur) : f32[4, 3]
  return %cur, %y
})";
  check_both(text, 2);
  // The copy comes first, then the sum is written in place: no third launch.
  const Result result = check(text, two_inputs());
  EXPECT_EQ(result.launches, 2);
  EXPECT_EQ(count_of(result, "in_place"), 1);
}

TEST(Ties, a_copy_waits_for_readers_of_what_it_overwrites) {
  check_both(
      R"(graph g(%prev: f32[4, 3], %cur: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0, 1 -> 1) {
  %y = add(%cur, %prev) : f32[4, 3]
  return %cur, %y
})",
      2);
}

TEST(Ties, a_chain_of_copies_begins_at_its_end) {
  for (const char* ties : {"0 -> 0, 1 -> 1, 2 -> 2", "2 -> 2, 1 -> 1, 0 -> 0"}) {
    check_both(str("graph g(%a: f32[4, 3], %b: f32[4, 3], %c: f32[4, 3]) -> (f32[4, 3], f32[4, 3], "
                   "f32[4, 3]) ties(",
                   ties, R"() {
  %y = exp(%c) : f32[4, 3]
  return %b, %c, %y
})"),
               3);
  }
}

TEST(Ties, inputs_are_swapped_and_rotated) {
  check_both(
      R"(graph g(%a: f32[4, 3], %b: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0, 1 -> 1) {
  return %b, %a
})",
      2);
  check_both(
      R"(graph g(%a: f32[4, 3], %b: f32[4, 3], %c: f32[4, 3], %d: f32[4, 3])
 -> (f32[4, 3], f32[4, 3], f32[4, 3], f32[4, 3]) ties(0 -> 0, 1 -> 1, 2 -> 2, 3 -> 3) {
  return %b, %c, %a, %a
})",
      4);
}

TEST(Ties, swaps_take_one_temporary) {
  const Result result = check(
      R"(graph g(%a: f32[4, 3], %b: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0, 1 -> 1) {
  return %b, %a
})",
      two_inputs());
  EXPECT_EQ(result.launches, 3);
}

TEST(Ties, a_scatter_into_a_copied_input) {
  check_both(
      R"(graph g(%old: f32[4, 3], %a: f32[4, 3], %u: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0, 1 -> 1) {
  %flat = reshape(%a) {shape = [12]} : f32[12]
  %part = reshape(%u) {shape = [12]} : f32[12]
  %few = slice(%part) {starts = [0], steps = [1], sizes = [5]} : f32[5]
  %s = slice_update(%flat, %few) {starts = [2], steps = [1]} : f32[12]
  %y = reshape(%s) {shape = [4, 3]} : f32[4, 3]
  return %a, %y
})",
      3);
}

TEST(Ties, results_hold_the_old_contents) {
  check_both(
      R"(graph g(%a: f32[4, 3], %b: f32[4, 3]) -> (f32[4, 3], f32[4, 3], f32[2, 3], f32[4, 3]) ties(0 -> 0, 3 -> 1) {
  %w = slice(%a) {starts = [1, 0], steps = [1, 1], sizes = [2, 3]} : f32[2, 3]
  %y = neg(%b) : f32[4, 3]
  return %b, %a, %w, %y
})",
      2);
}

// Front ends that make views themselves ask for memory of its own for every output.
TEST(Ties, outputs_with_their_own_memory_are_never_views) {
  const char* const kGraphs[] = {
      // An input, a window of it, and a value twice.
      R"(graph g(%x: f32[4, 3]) -> (f32[4, 3], f32[3, 4], f32[4, 3], f32[4, 3]) {
  %t = transpose(%x) {perm = [1, 0]} : f32[3, 4]
  %y = neg(%x) : f32[4, 3]
  return %x, %t, %y, %y
})",
      // The new contents of an input, computed by a kernel and by a call.
      R"(graph g(%x: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0) {
  %y = neg(%x) : f32[4, 3]
  return %y, %y
})",
      R"(graph g(%x: f32[4, 3]) -> (f32[4, 3], f32[4, 3]) ties(0 -> 0) {
  %y = call(%x) {callee = 0, name = "f", dtypes = ["f32"], ranks = [2], shapes = [4, 3], strided = [0]} : f32[4, 3]
  return %y, %y
})"};
  for (const char* text : kGraphs) {
    auto graph = parse_graph(text);
    Signature signature = Signature::of(*graph);
    for (Signature::Output& output : signature.outputs) output.own_memory = true;
    const Compiled compiled = compile(std::move(graph), signature, {});
    for (const program::OutputDesc& output : compiled.program->outputs) {
      EXPECT_NE(output.kind, program::OutputDesc::Kind::input_view) << text;
      EXPECT_NE(output.kind, program::OutputDesc::Kind::output_view) << text;
    }
  }
}

}  // namespace
}  // namespace gex::test
