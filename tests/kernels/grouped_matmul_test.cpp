#include "backend/cpu/kernels/grouped_matmul.hpp"

#include "support.hpp"

namespace gex::test {
namespace {

using kernels::GroupedMatmulProblem;

struct Case {
  DType dtype = DType::f32, ends_dtype = DType::i64;
  i64 rows, depth, cols;
  std::vector<i64> ends;
  bool turned = false;  // all operands and the result with their last two axes swapped in memory
};

HostTensor ends_tensor(const Case& t) {
  HostTensor ends(t.ends_dtype, {static_cast<i64>(t.ends.size())});
  for (std::size_t g = 0; g < t.ends.size(); ++g) ends.set(static_cast<i64>(g), t.ends[g]);
  return ends;
}

std::vector<i64> matrix_strides(const Case& t, i64 rows, i64 cols) {
  return t.turned ? std::vector<i64>{1, rows} : std::vector<i64>{cols, 1};
}

i64 start_of(const Case& t, std::size_t group) {
  return group == 0 ? 0 : std::min(t.ends[group - 1], t.rows);
}

class Grouped : public testing::Test {
 protected:
  std::mt19937 rng{7};

  // The whole grid at once and in single units: the same bits.
  void run(const program::Callable& kernel, const std::vector<void*>& buffers, HostTensor& result,
           const std::vector<i64>& dims, i64 grid, i64 scratch) {
    run_in_steps(kernel, buffers, dims, grid, scratch, 1);
    const HostTensor in_units = result;
    run_in_steps(kernel, buffers, dims, grid, scratch, std::max<i64>(grid, 1));
    ASSERT_EQ(in_units, result) << "differs in single units";
  }

  GroupedMatmulProblem problem_of(const Case& t) {
    GroupedMatmulProblem problem;
    problem.product.a = problem.product.b = problem.product.c = t.dtype;
    problem.ends = t.ends_dtype;
    return problem;
  }

  void check_product(const Case& t) {
    const i64 groups = static_cast<i64>(t.ends.size());
    HostTensor a = random_tensor(rng, t.dtype, t.rows * t.depth);
    HostTensor b = random_tensor(rng, t.dtype, groups * t.depth * t.cols);
    HostTensor c = random_tensor(rng, t.dtype, t.rows * t.cols), ends = ends_tensor(t);
    const auto as = matrix_strides(t, t.rows, t.depth), bs = matrix_strides(t, t.depth, t.cols),
               cs = matrix_strides(t, t.rows, t.cols);
    const std::vector<i64> dims = {
        1, 1,     t.rows, t.cols, t.depth, 0,     0,     as[0], as[1], t.depth * t.cols,
        0, bs[0], bs[1],  0,      0,       cs[0], cs[1], groups};
    const auto problem = problem_of(t);
    run(make_grouped_matmul(problem), {a.data(), b.data(), ends.data(), c.data()}, c, dims,
        kernels::grouped_matmul_grid(t.cols).constant(),
        kernels::grouped_matmul_scratch_bytes(problem).constant());
    for (i64 r = 0; r < t.rows; ++r) {
      std::size_t group = 0;
      while (group < t.ends.size() && t.ends[group] <= r) ++group;
      for (i64 n = 0; n < t.cols; ++n) {
        double sum = 0, magnitude = 0;
        for (i64 k = 0; k < t.depth && group < t.ends.size(); ++k) {
          const i64 at = static_cast<i64>(group) * t.depth * t.cols;
          const double product = a.get(r * as[0] + k * as[1]) * b.get(at + k * bs[0] + n * bs[1]);
          sum += product;
          magnitude += std::fabs(product);
        }
        near(c.get(r * cs[0] + n * cs[1]), sum, magnitude, t);
      }
    }
  }

  void check_weight_grad(const Case& t) {
    const i64 groups = static_cast<i64>(t.ends.size());
    HostTensor a = random_tensor(rng, t.dtype, t.rows * t.depth);
    HostTensor d = random_tensor(rng, t.dtype, t.rows * t.cols);
    HostTensor w = random_tensor(rng, t.dtype, groups * t.depth * t.cols), ends = ends_tensor(t);
    const auto as = matrix_strides(t, t.rows, t.depth), ds = matrix_strides(t, t.rows, t.cols),
               ws = matrix_strides(t, t.depth, t.cols);
    const std::vector<i64> dims = {1,     1,     t.depth, t.cols, t.rows, 0,     0,
                                   as[1], as[0], 0,       0,      ds[0],  ds[1], t.depth * t.cols,
                                   0,     ws[0], ws[1],   groups};
    const auto problem = problem_of(t);
    run(make_grouped_weight_grad(problem), {a.data(), d.data(), ends.data(), w.data()}, w, dims,
        kernels::matmul_grid(problem.product, 1, t.depth, t.cols, t.rows).constant(),
        kernels::grouped_matmul_scratch_bytes(problem).constant());
    for (std::size_t group = 0; group < t.ends.size(); ++group)
      for (i64 k = 0; k < t.depth; ++k)
        for (i64 n = 0; n < t.cols; ++n) {
          double sum = 0, magnitude = 0;
          for (i64 r = start_of(t, group); r < std::min(t.ends[group], t.rows); ++r) {
            const double product = a.get(r * as[0] + k * as[1]) * d.get(r * ds[0] + n * ds[1]);
            sum += product;
            magnitude += std::fabs(product);
          }
          const i64 at = static_cast<i64>(group) * t.depth * t.cols;
          near(w.get(at + k * ws[0] + n * ws[1]), sum, magnitude, t);
        }
  }

  static void near(double got, double want, double magnitude, const Case& t) {
    const double unit = t.dtype == DType::f64 ? 1e-14 : 3e-6;
    ASSERT_NEAR(got, want, magnitude * unit + std::fabs(want) * unit_of(t.dtype))
        << t.rows << " rows, depth " << t.depth << ", " << t.cols << " columns";
  }
};

const Case kCases[] = {
    {.rows = 250, .depth = 130, .cols = 150, .ends = {100, 100, 103, 250}},
    // Rows without a group, and ends after the last row.
    {.ends_dtype = DType::i32, .rows = 40, .depth = 100, .cols = 70, .ends = {0, 17, 30}},
    {.rows = 9, .depth = 5, .cols = 3, .ends = {4, 12, 12}},
    {.dtype = DType::bf16, .rows = 60, .depth = 33, .cols = 65, .ends = {1, 60}, .turned = true},
    // Odd numbers of rows, one of more than are packed at once; more columns than a tile has.
    {.dtype = DType::bf16, .rows = 400, .depth = 205, .cols = 301, .ends = {7, 7, 308, 399}},
    {.dtype = DType::f64, .rows = 30, .depth = 12, .cols = 20, .ends = {0, 0, 30}, .turned = true},
    {.rows = 0, .depth = 12, .cols = 20, .ends = {0, 0}},
};

TEST_F(Grouped, each_row_is_multiplied_by_the_matrix_of_its_group) {
  for (const Case& t : kCases) check_product(t);
}

TEST_F(Grouped, gradients_of_matrices_sum_over_the_rows_of_their_group) {
  for (const Case& t : kCases) check_weight_grad(t);
}

TEST_F(Grouped, gradients_that_are_subnormal_are_not_lost) {
  constexpr i64 kRows = 3, kDepth = 2, kCols = 40;
  HostTensor a(DType::bf16, {kRows, kDepth}), d(DType::bf16, {kRows, kCols});
  HostTensor w(DType::bf16, {1, kDepth, kCols}), ends(DType::i64, {1});
  for (i64 i = 0; i < kRows * kDepth; ++i) a.set(i, std::ldexp(1, -100));
  for (i64 i = 0; i < kRows * kCols; ++i) d.set(i, std::ldexp(1, -30));
  ends.set(0, kRows);
  const std::vector<i64> dims = {1, 1, kDepth, kCols, kRows,          0, 0,     1, kDepth,
                                 0, 0, kCols,  1,     kDepth * kCols, 0, kCols, 1, 1};
  const auto problem =
      problem_of({.dtype = DType::bf16, .rows = kRows, .depth = kDepth, .cols = kCols, .ends = {}});
  run(make_grouped_weight_grad(problem), {a.data(), d.data(), ends.data(), w.data()}, w, dims, 1,
      kernels::grouped_matmul_scratch_bytes(problem).constant());
  for (i64 i = 0; i < kDepth * kCols; ++i) EXPECT_EQ(w.get(i), 3 * std::ldexp(1, -130));
}

TEST_F(Grouped, rows_of_other_groups_do_not_affect_a_group) {
  HostTensor a(DType::f32, {4, 2}), d(DType::f32, {4, 3}), w(DType::f32, {2, 2, 3});
  HostTensor ends(DType::i64, {2});
  for (i64 i = 0; i < 8; ++i) a.set(i, i < 2 || i >= 6 ? std::nan("") : 1);
  for (i64 i = 0; i < 12; ++i) d.set(i, i < 3 || i >= 9 ? HUGE_VAL : 2);
  ends.set(0, 1);
  ends.set(1, 3);
  const std::vector<i64> dims = {1, 1, 2, 3, 4, 0, 0, 1, 2, 0, 0, 3, 1, 6, 0, 3, 1, 2};
  const auto problem = problem_of({.rows = 4, .depth = 2, .cols = 3, .ends = {}});
  run(make_grouped_weight_grad(problem), {a.data(), d.data(), ends.data(), w.data()}, w, dims, 1,
      kernels::grouped_matmul_scratch_bytes(problem).constant());
  for (i64 i = 0; i < 6; ++i) {
    EXPECT_TRUE(std::isnan(w.get(i)));
    EXPECT_EQ(w.get(6 + i), 4);
  }
}

}  // namespace
}  // namespace gex::test
