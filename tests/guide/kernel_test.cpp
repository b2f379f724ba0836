// The worked example of docs/add_a_kernel.md; both have the same code.

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/kernels/bind.hpp"
#include "base/error.hpp"
#include "compile/execute.hpp"
#include "program/program.hpp"

namespace gex::kernels {
namespace {

// out[r] = sum over k of a[r, k]*b[r, k]. Buffers [a, b, out], dims [rows, depth].
struct RowDotProblem {
  DType dtype = DType::f32;
};

constexpr std::int64_t kRowsOfAUnit = 4;

Dim row_dot_grid(Dim rows) { return ceildiv(rows, Dim(kRowsOfAUnit)); }

void row_dot(const void*, void* const* buffers, const std::int64_t* dims, std::int64_t begin,
             std::int64_t end, std::byte*) {
  const auto* a = static_cast<const float*>(buffers[0]);
  const auto* b = static_cast<const float*>(buffers[1]);
  auto* out = static_cast<float*>(buffers[2]);
  const std::int64_t rows = dims[0], depth = dims[1];
  for (std::int64_t r = begin * kRowsOfAUnit; r < std::min(rows, end * kRowsOfAUnit); ++r) {
    float sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) sum += a[r * depth + k] * b[r * depth + k];
    out[r] = sum;
  }
}

program::Callable make_row_dot(const RowDotProblem& problem) {
  if (problem.dtype != DType::f32)
    fail(ErrorCode::unsupported, "row_dot computes f32, got ", problem.dtype,
         "; cast its operands");
  return bind_kernel(&row_dot, problem);
}

HostTensor numbers(std::int64_t rows, std::int64_t depth, double step) {
  HostTensor tensor(DType::f32, {rows, depth});
  for (std::int64_t k = 0; k < rows * depth; ++k)
    tensor.set(k, step * static_cast<double>(k % 17) - 1);
  return tensor;
}

TEST(AddAKernel, any_split_of_the_grid_gives_the_same_bits) {
  const std::int64_t rows = 13, depth = 7, dims[] = {rows, depth};
  HostTensor a = numbers(rows, depth, 0.25), b = numbers(rows, depth, 0.125);
  const std::int64_t grid = row_dot_grid(Dim(rows)).constant();
  const program::Callable kernel = make_row_dot({});
  HostTensor whole(DType::f32, {rows}), pieces(DType::f32, {rows});
  void* const into_whole[] = {a.data(), b.data(), whole.data()};
  void* const into_pieces[] = {a.data(), b.data(), pieces.data()};
  kernel(into_whole, dims, 0, grid, nullptr);
  for (std::int64_t unit = grid; unit-- > 0;) kernel(into_pieces, dims, unit, unit + 1, nullptr);
  EXPECT_EQ(whole, pieces);
}

// A step of a Program: the runtime splits the grid, evaluates dims and passes buffers.
TEST(AddAKernel, a_program_launches_it_for_every_size) {
  program::Program program = program::parse_program(R"(program "p"
symbol s0 in [0, inf]
symbol s1 in [0, inf]
input 0 "a" f32 [s0, s1] -> %0
input 1 "b" f32 [s0, s1] -> %1
output 0 "y" fresh f32 [s0] -> %2
buffer %0 "a" input 0 f32 [s0, s1] bytes [s0*s1*4]
buffer %1 "b" input 1 f32 [s0, s1] bytes [s0*s1*4]
buffer %2 "y" output 0 f32 [s0] bytes [s0*4]
code 0 "row_dot"
main 0
segment 0 "p"
  launch "row_dot" code 0 read %0 read %1 write %2 dims [s0, s1] grid [(s0 + 3)//4] work [s0*s1]
)");
  auto executable = std::make_shared<program::Executable>();
  executable->functions.push_back(make_row_dot({}));
  executable->program = std::make_shared<const program::Program>(std::move(program));
  runtime::Session session(executable, {});
  for (std::int64_t rows : {1, 5, 64}) {
    std::vector<HostTensor> inputs = {numbers(rows, 9, 0.5), numbers(rows, 9, 0.25)};
    const HostTensor y = execute(session, inputs)[0];
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t k = 0; k < 9; ++k)
        sum += inputs[0].get(r * 9 + k) * inputs[1].get(r * 9 + k);
      ASSERT_NEAR(y.get(r), sum, 1e-4);
    }
  }
}

TEST(AddAKernel, other_dtypes_are_rejected_with_advice) {
  EXPECT_THROW(make_row_dot({DType::i64}), UserError);
}

}  // namespace
}  // namespace gex::kernels
