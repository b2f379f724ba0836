// Forms that users rarely write and random graphs often.

#include "harness.hpp"

namespace gex::test {
namespace {

CompileOptions unoptimised() {
  CompileOptions options;
  options.level = 0;
  return options;
}

TEST(OddGraphs, unused_results_are_not_computed_even_without_passes) {
  std::mt19937 random(1);
  for (const char* dead :
       {"%d = matmul(%x, %x) : f32[4, 4]", "%d = scatter(%x, %i, %x) : f32[4, 4]",
        "%d = tanh(%x) : f32[4, 4]", "%d = attention(%x, %x, %x, none) : f32[4, 4]"}) {
    const std::string text = "graph g(%x: f32[4, 4], %i: i64[4, 4]) -> (f32[4, 4]) {\n  " +
                             std::string(dead) + "\n  %y = neg(%x) : f32[4, 4]\n  return %y\n}";
    const Result result =
        check(text, {random_tensor(DType::f32, {4, 4}, random), HostTensor(DType::i64, {4, 4})},
              2e-5, unoptimised());
    EXPECT_EQ(result.launches, 1) << text;
  }
}

TEST(OddGraphs, an_operand_of_a_contraction_is_read_again_by_its_epilogue) {
  std::mt19937 random(4);
  const std::vector<HostTensor> inputs = {random_tensor(DType::f32, {4, 4}, random),
                                          random_tensor(DType::f32, {4, 4}, random)};
  for (const char* product : {"matmul(%c, %h)", "matmul(%h, %c)", "matmul(%h, %h)"}) {
    const Result result = check(
        "graph g(%x: f32[4, 4], %c: f32[4, 4]) -> (f32[4, 4]) {\n  %h = tanh(%x) : f32[4, 4]\n"
        "  %m = " +
            std::string(product) + " : f32[4, 4]\n  %y = mul(%h, %m) : f32[4, 4]\n  return %y\n}",
        inputs);
    EXPECT_EQ(result.launches, 2) << product;
  }
}

TEST(OddGraphs, windows_larger_than_their_axis_are_reported_when_its_size_is_known) {
  std::mt19937 random(8);
  const std::string text =
      "symbols s0 in [1, 100]\ngraph g(%x: f32[s0, 3]) -> (f32[(s0 + -4)//3 + 1, 3, 4]) {\n"
      "  %y = windows(%x) {axis = 0, size = 4, step = 3} : f32[(s0 + -4)//3 + 1, 3, 4]\n"
      "  return %y\n}";
  check(text, {random_tensor(DType::f32, {7, 3}, random)});
  EXPECT_THROW(check(text, {random_tensor(DType::f32, {2, 3}, random)}), UserError);
}

TEST(OddGraphs, attention_without_batch_or_heads) {
  std::mt19937 random(2);
  check(
      "graph g(%q: f32[5, 8], %k: f32[7, 8], %v: f32[7, 4]) -> (f32[5, 4]) {\n"
      "  %y = attention(%q, %k, %v, none) {scale = 0.5} : f32[5, 4]\n  return %y\n}",
      {random_tensor(DType::f32, {5, 8}, random), random_tensor(DType::f32, {7, 8}, random),
       random_tensor(DType::f32, {7, 4}, random)});
  check(
      "graph g(%q: f32[4, 5, 8], %k: f32[2, 7, 8], %v: f32[2, 7, 4], %m: bool[5, 7])"
      " -> (f32[4, 5, 4]) {\n"
      "  %y = attention(%q, %k, %v, %m) {causal = true} : f32[4, 5, 4]\n  return %y\n}",
      {random_tensor(DType::f32, {4, 5, 8}, random), random_tensor(DType::f32, {2, 7, 8}, random),
       random_tensor(DType::f32, {2, 7, 4}, random),
       random_tensor(DType::boolean, {5, 7}, random)});
}

TEST(OddGraphs, attention_over_more_batch_axes_is_rejected_with_advice) {
  try {
    parse_graph(
        "graph g(%q: f32[2, 2, 2, 5, 8]) -> (f32[2, 2, 2, 5, 8]) {\n"
        "  %y = attention(%q, %q, %q, none) : f32[2, 2, 2, 5, 8]\n  return %y\n}");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("reshaped into one"), std::string::npos);
  }
}

TEST(OddGraphs, padding_of_reshaped_empty_values) {
  const Result result = check(R"(graph g(%x: bool[2, 1, 0]) -> (f32[1, 2]) {
  %s = slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], sizes = [1, 1, 0]} : bool[1, 1, 0]
  %r = reshape(%s) {shape = [1, 0]} : bool[1, 0]
  %p = pad(%r) {low = [0, 0], high = [0, 2]} : bool[1, 2]
  %y = cast(%p) : f32[1, 2]
  return %y
})",
                              {HostTensor(DType::boolean, {2, 1, 0})});
  EXPECT_EQ(result.outputs[0].get(1), 0);
  check(R"(graph g(%x: f32[1, 1, 0]) -> (f32[1, 4, 1, 5]) {
  %a = sqrt(%x) : f32[1, 1, 0]
  %r = reshape(%a) {shape = [1, 1, 1, 0]} : f32[1, 1, 1, 0]
  %p = pad(%r) {low = [0, 0, 0, 0], high = [0, 3, 0, 0]} : f32[1, 4, 1, 0]
  %y = pad(%p) {low = [0, 0, 0, 0], high = [0, 0, 0, 5]} : f32[1, 4, 1, 5]
  return %y
})",
        {HostTensor(DType::f32, {1, 1, 0})}, 0, unoptimised());
}

// A value read by an empty sum has no elements either: it belongs to no row.
TEST(OddGraphs, empty_values_next_to_an_empty_reduction_are_not_stored) {
  const Result result = check(R"(graph g(%x: f32[6, 0]) -> (f32[1, 6, 0], f32[6, 1]) {
  %a = ceil(%x) : f32[6, 0]
  %b = reshape(%a) {shape = [1, 6, 0]} : f32[1, 6, 0]
  %c = neg(%b) : f32[1, 6, 0]
  %m = reduce_sum(%a) {axes = [1], keepdim = true} : f32[6, 1]
  return %c, %m
})",
                              {HostTensor(DType::f32, {6, 0})});
  EXPECT_EQ(result.compiled.report.kernel_text.find("stage rows"), std::string::npos)
      << result.compiled.report.kernel_text;
}

// exp and mul are one kernel that waits for the matmul; so nothing that depends on exp may join the
// matmul's kernel, even if all of it comes before the matmul.
TEST(OddGraphs, readers_of_a_cluster_that_grew_stay_ordered) {
  std::mt19937 random(9);
  std::vector<HostTensor> inputs;
  for (int k = 0; k < 4; ++k) inputs.push_back(random_tensor(DType::f32, {4, 4}, random));
  check(
      R"(graph g(%x: f32[4, 4], %u: f32[4, 4], %p: f32[4, 4], %q: f32[4, 4]) -> (f32[4, 4], f32[4, 4], f32[4, 4]) {
  %a = exp(%x) : f32[4, 4]
  %s, %i = sort(%a) {axis = 1} : f32[4, 4], i64[4, 4]
  %f = floor(%u) : f32[4, 4]
  %l = maximum(%f, %s) : f32[4, 4]
  %c = matmul(%p, %q) : f32[4, 4]
  %g, %j = sort(%f) {axis = 1} : f32[4, 4], i64[4, 4]
  %t = transpose(%c) {perm = [1, 0]} : f32[4, 4]
  %e = mul(%a, %t) : f32[4, 4]
  %y = minimum(%c, %g) : f32[4, 4]
  return %l, %e, %y
})",
      inputs);
}

// ties: the input has its new contents after the run; outputs that are its old contents keep those.
TEST(OddGraphs, an_input_that_is_returned_and_overwritten_is_returned_as_it_was) {
  const std::vector<HostTensor> inputs = {HostTensor::of({2, 2}, std::vector<float>{1, 2, 3, 4}),
                                          HostTensor::of({2, 2}, std::vector<float>{5, 6, 7, 8})};
  for (int level : {0, 2}) {
    CompileOptions options;
    options.level = level;
    options.generate_code = false;
    check(
        "graph g(%x: f32[2, 2], %y: f32[2, 2]) -> (f32[2, 2], f32[2, 2]) ties(0 -> 0) {\n"
        "  return %y, %x\n}",
        inputs, 0, options);
    check(
        "graph g(%x: f32[2, 2], %y: f32[2, 2]) -> (f32[2, 2], f32[2, 2]) ties(0 -> 0) {\n"
        "  %t = transpose(%x) {perm = [1, 0]} : f32[2, 2]\n"
        "  %n = neg(%y) : f32[2, 2]\n  return %n, %t\n}",
        inputs, 0, options);
    check(
        "graph g(%x: f32[2, 2], %y: f32[2, 2]) -> (f32[2, 2], f32[4]) ties(0 -> 0) {\n"
        "  %f = reshape(%x) {shape = [4]} : f32[4]\n"
        "  %n = neg(%x) : f32[2, 2]\n  return %n, %f\n}",
        inputs, 0, options);
    check(
        "graph g(%x: f32[2, 2], %y: f32[2, 2]) -> (f32[2, 2], f32[2, 2], f32[2, 2])"
        " ties(0 -> 0) {\n  %n = neg(%x) : f32[2, 2]\n  return %n, %n, %x\n}",
        inputs, 0, options);
  }
}

// An end before its predecessor leaves its group without rows, in the kernel and in the expansion.
TEST(OddGraphs, groups_of_rows_may_end_anywhere) {
  HostTensor ends(DType::i32, {4});
  const std::int64_t values[] = {3, -1, 2, 9};
  for (std::int64_t k = 0; k < 4; ++k) ends.set_int(k, values[k]);
  std::mt19937 random(1);
  const HostTensor rows = random_tensor(DType::f32, {6, 3}, random),
                   grads = random_tensor(DType::f32, {6, 5}, random),
                   matrices = random_tensor(DType::f32, {4, 3, 5}, random);
  check(
      "graph g(%x: f32[6, 3], %w: f32[4, 3, 5], %e: i32[4]) -> (f32[6, 5]) {\n"
      "  %y = grouped_matmul(%x, %w, %e) : f32[6, 5]\n  return %y\n}",
      {rows, matrices, ends});
  check(
      "graph g(%x: f32[6, 3], %d: f32[6, 5], %e: i32[4]) -> (f32[4, 3, 5]) {\n"
      "  %y = grouped_weight_grad(%x, %d, %e) : f32[4, 3, 5]\n  return %y\n}",
      {rows, grads, ends});
}

TEST(OddGraphs, reshapes_of_stored_values_to_any_factors) {
  std::mt19937 random(12);
  auto factors_of = [&](int count) {
    std::vector<int> sizes;
    for (const int prime : {2, 2, 2, 3, 3, 5}) {
      if (static_cast<int>(sizes.size()) < count) {
        sizes.push_back(prime);
      } else {
        sizes[random() % sizes.size()] *= prime;
      }
    }
    std::shuffle(sizes.begin(), sizes.end(), random);
    return sizes;
  };
  auto list_of = [](const std::vector<int>& sizes) {
    std::string text;
    for (const int size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
    return "[" + text + "]";
  };
  for (int n = 0; n < 40; ++n) {
    const std::vector<int> from = factors_of(2 + n % 3), to = factors_of(1 + n % 4);
    const std::string before = "f32" + list_of(from), after = "f32" + list_of(to);
    const std::vector<std::int64_t> sizes(from.begin(), from.end());
    check("graph g(%x: " + before + ") -> (" + after + ") {\n  %s = softmax(%x) {axis = " +
              std::to_string(from.size() - 1) + "} : " + before +
              "\n  %y = reshape(%s) {shape = " + list_of(to) + "} : " + after + "\n  return %y\n}",
          {random_tensor(DType::f32, sizes, random)});
  }
}

TEST(OddGraphs, a_value_over_one_element_is_read_after_the_reduction_of_its_axis) {
  std::mt19937 random(6);
  check(
      R"(graph g(%n: i64[1], %m: bool[1], %a: f64[], %b: f64[], %c: f64[1], %x: f64[24, 1]) -> (f64[6, 4]) {
  %sum = reduce_sum(%n) {axes = [0]} : i64[]
  %count = cast(%sum) {dtype = f64} : f64[]
  %chosen = where(%m, %a, %b) : f64[1]
  %rate = div(%a, %b) : f64[]
  %scaled = mul(%rate, %chosen) : f64[1]
  %less = neg(%scaled) : f64[1]
  %kept = where(%m, %less, %c) : f64[1]
  %one = reshape(%kept) : f64[]
  %both = add(%count, %one) : f64[]
  %all = mul(%x, %both) : f64[24, 1]
  %y = reshape(%all) {shape = [6, 4]} : f64[6, 4]
  return %y
})",
      {random_tensor(DType::i64, {1}, random), random_tensor(DType::boolean, {1}, random),
       random_tensor(DType::f64, {}, random), random_tensor(DType::f64, {}, random),
       random_tensor(DType::f64, {1}, random), random_tensor(DType::f64, {24, 1}, random)});
}

TEST(OddGraphs, a_symbol_that_appears_only_inside_expressions) {
  const char* text = R"(symbols s0 in [2, 64], s1 in [1, 9]
graph g(%x: f32[s0*2, 3], %y: f32[s1 + 1]) -> (f32[s0, 3], f32[s1]) {
  %a = slice(%x) {starts = [0, 0], steps = [2, 1], sizes = [s0, 3]} : f32[s0, 3]
  %b = slice(%x) {starts = [1, 0], steps = [2, 1], sizes = [s0, 3]} : f32[s0, 3]
  %sum = add(%a, %b) : f32[s0, 3]
  %rest = slice(%y) {starts = [1], steps = [1], sizes = [s1]} : f32[s1]
  %twice = add(%rest, %rest) : f32[s1]
  return %sum, %twice
})";
  std::mt19937 random(4);
  for (const auto& [rows, rest] : {std::pair{8, 3}, {4, 2}, {128, 10}})
    check(text, {random_tensor(DType::f32, {rows, 3}, random),
                 random_tensor(DType::f32, {rest}, random)});
  const Compiled compiled = compile(parse_graph(text));
  runtime::Session session(compiled.executable, {}, compiled.specialiser);
  for (const auto& [rows, rest] : {std::pair{9, 3}, {130, 3}, {2, 3}, {8, 11}, {8, 1}}) {
    std::vector<HostTensor> inputs{random_tensor(DType::f32, {rows, 3}, random),
                                   random_tensor(DType::f32, {rest}, random)};
    EXPECT_THROW(execute(session, inputs), UserError) << rows << " " << rest;
  }
}

}  // namespace
}  // namespace gex::test
