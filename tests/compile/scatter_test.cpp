// Scatters overwrite a temporary only if nothing reads it any more, including themselves.

#include "harness.hpp"

namespace gex::test {
namespace {

HostTensor indices(std::vector<std::int64_t> shape, std::vector<std::int64_t> values) {
  return HostTensor::of_i64(std::move(shape), values);
}

TEST(Scatter, reads_its_source_before_it_writes_over_the_same_value) {
  const char* text = R"(graph g(%x: f32[3, 2], %w: f32[2, 2], %i: i64[3, 2]) -> (f32[3, 2]) {
  %m = matmul(%x, %w) : f32[3, 2]
  %s = scatter(%m, %i, %m) : f32[3, 2]
  %y = tanh(%s) : f32[3, 2]
  return %y
})";
  std::mt19937 random(3);
  // Row 0 goes to row 1 before row 1 is read for row 2.
  const Result result =
      check(text, {random_tensor(DType::f32, {3, 2}, random),
                   random_tensor(DType::f32, {2, 2}, random), indices({3, 2}, {1, 1, 2, 2, 0, 0})});
  EXPECT_NE(result.compiled.report.graph_text.find("scatter"), std::string::npos);
}

TEST(Scatter, reads_a_view_of_its_base_before_it_writes) {
  check(R"(graph g(%x: f32[3, 3], %w: f32[3, 3], %i: i64[3, 3]) -> (f32[3, 3]) {
  %m = matmul(%x, %w) : f32[3, 3]
  %t = transpose(%m) {perm = [1, 0]} : f32[3, 3]
  %s = scatter(%m, %i, %t) : f32[3, 3]
  %y = tanh(%s) : f32[3, 3]
  return %y
})",
        {HostTensor::of({3, 3}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}),
         HostTensor::of({3, 3}, std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}),
         indices({3, 3}, {1, 1, 1, 2, 2, 2, 0, 0, 0})});
}

TEST(Scatter, does_not_change_the_new_contents_of_a_tied_input) {
  check(R"(graph g(%x: f32[4], %t: f32[4], %u: f32[2]) -> (f32[4], f32[4]) ties(0 -> 1) {
  %m = exp(%x) : f32[4]
  %s = slice_update(%m, %u) {starts = [1], steps = [2]} : f32[4]
  %y = add(%s, %t) : f32[4]
  return %m, %y
})",
        {HostTensor::of({4}, std::vector<float>{1, 2, 3, 4}),
         HostTensor::of({4}, std::vector<float>{5, 6, 7, 8}),
         HostTensor::of({2}, std::vector<float>{9, 10})});
}

TEST(Scatter, does_not_change_a_view_that_is_read_later) {
  CompileOptions options;
  options.level = 0;
  check(R"(graph g(%x: f32[12], %i: i64[1], %u: f32[1, 4], %p: bool[]) -> (f32[3, 4], f32[3, 4]) {
  %v = reshape(%x) {shape = [3, 4]} : f32[3, 4]
  %s = index_put(%v, %u, %i) {axes = [0]} : f32[3, 4]
  %a, %b = if(%p, %s, %v) regions(
    graph then(%s: f32[3, 4], %v: f32[3, 4]) -> (f32[3, 4], f32[3, 4]) { return %v, %s },
    graph else(%s: f32[3, 4], %v: f32[3, 4]) -> (f32[3, 4], f32[3, 4]) { return %s, %v }
  ) : f32[3, 4], f32[3, 4]
  return %a, %b
})",
        {HostTensor::of({12}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
         indices({1}, {1}), HostTensor::of({1, 4}, std::vector<float>{-1, -2, -3, -4}),
         HostTensor(DType::boolean, {})},
        2e-5, options);
}

}  // namespace
}  // namespace gex::test
