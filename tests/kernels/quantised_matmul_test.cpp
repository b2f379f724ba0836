#include "backend/cpu/kernels/quantised_matmul.hpp"

#include "base/error.hpp"
#include "problems/problem.hpp"
#include "support.hpp"

namespace gex::test {
namespace {

using problems::QuantisedMatmulProblem;
namespace at = problems::quantised_dims;

struct Case {
  i64 m, n, k, group = 0;
  bool turned = false;  // weights of one k are adjacent
  bool scale_turned = false;
};

// A launch with random operands, and its result by f64.
struct Launch {
  QuantisedMatmulProblem problem;
  Case sizes;
  HostTensor a, q, scale, offset, c;
  i64 groups;
  std::vector<i64> dims;

  Launch(std::mt19937& rng, QuantisedMatmulProblem p, const Case& s)
      : problem(p),
        sizes(s),
        a(random_tensor(rng, p.a, s.m * s.k)),
        q(p.q, {s.n * (p.bits == 4 ? (s.k + 1) / 2 : s.k)}),
        scale(p.scale, {1}),
        offset(DType::f32, {1}),
        c(p.c, {s.m * s.n}),
        groups(s.group == 0 ? 1 : (s.k + s.group - 1) / s.group) {
    problem.group = s.group;
    const bool signs = p.q == DType::i8;
    std::uniform_int_distribution<int> byte(signs ? -128 : 0, signs ? 127 : 255);
    for (i64 i = 0; i < q.numel(); ++i) q.set(i, byte(rng));
    scale = random_tensor(rng, p.scale, s.n * groups);
    offset = random_tensor(rng, DType::f32, s.n * groups);
    const i64 row = p.bits == 4 ? (s.k + 1) / 2 : s.k;
    dims = {s.m, s.n, s.k, s.k, 1};
    dims.insert(dims.end(), {s.turned ? 1 : row, s.turned ? s.n : 1});
    dims.insert(dims.end(), {s.scale_turned ? 1 : groups, s.scale_turned ? s.n : 1});
    dims.insert(dims.end(), {groups, 1, s.n, 1});
  }

  double weight(i64 n, i64 k) const {
    double number = 0;
    if (problem.bits == 4)
      number = static_cast<double>(q.get_int(n * ((sizes.k + 1) / 2) + k / 2) >> (k % 2 * 4) & 15);
    else
      number = static_cast<double>(q.get_int(sizes.turned ? k * sizes.n + n : n * sizes.k + k));
    number -= static_cast<double>(problem.zero);
    const i64 g = sizes.group == 0 ? 0 : k / sizes.group;
    if (problem.has_scale)
      number *= scale.get(sizes.scale_turned ? g * sizes.n + n : n * groups + g);
    return problem.has_offset ? number + offset.get(n * groups + g) : number;
  }

  void run(i64 step, const Variant* variant = nullptr) {
    std::vector<void*> buffers = {a.data(), q.data()};
    if (problem.has_scale) buffers.push_back(scale.data());
    if (problem.has_offset) buffers.push_back(offset.data());
    buffers.push_back(c.data());
    std::memset(c.data(), 0x55, static_cast<std::size_t>(c.numel()) * size_of(problem.c));
    const i64 grid = quantised_matmul_grid(sizes.m, sizes.n).constant();
    run_in_steps(make_quantised_matmul(problem, {}, variant), buffers, dims, grid,
                 quantised_matmul_scratch_bytes(problem, sizes.m, sizes.k).constant(),
                 step == 0 ? std::max<i64>(grid, 1) : step);
  }

  void check() const {
    // With bf16 rows, scaled weights are rounded to bf16 as the composed ops do.
    const double unit = unit_of(problem.a == DType::bf16 ? DType::bf16 : DType::f32);
    for (i64 i = 0; i < sizes.m; ++i)
      for (i64 j = 0; j < sizes.n; ++j) {
        double sum = 0, magnitude = 0;
        for (i64 k = 0; k < sizes.k; ++k) {
          const double product = a.get(i * sizes.k + k) * weight(j, k);
          sum += product;
          magnitude += std::abs(product);
        }
        const double limit = 8 * unit * magnitude + 2 * unit_of(problem.c) * std::abs(sum) + 1e-5;
        ASSERT_NEAR(c.get(i * sizes.n + j), sum, limit) << i << ", " << j;
      }
  }
};

const Case kCases[] = {
    {1, 1, 1},
    {1, 65, 64},
    {1, 130, 256, 32},
    {2, 70, 256, 64},
    {2, 9, 192, 128},  // the last group is shorter
    {1, 17, 100, 32},  // and no whole step
    {3, 66, 37, 16},
    {7, 21, 130, 48},
    {61, 70, 96, 32},
    {125, 5, 64},
    {13, 64, 200, 24},  // groups begin inside of a vector
    {2, 3, 5, 1},
    {4, 6, 0},
    {1, 200, 66, 2},
    {2, 33, 320, 160},
    // several rows, and the first numbers beyond; groups of half a step to many steps, some slices
    {3, 66, 128, 32},
    {4, 7, 96, 32},
    {5, 70, 256, 128},
    {6, 10, 640, 320},
    {7, 65, 384, 64},
    {8, 67, 1664, 64},
    {8, 5, 3200},
    {9, 33, 128, 32},
    {12, 40, 3200},
    {8, 9, 3328, 1664},
    {13, 70, 3200, 32},
    {97, 66, 192, 64},
    {14, 3, 1600, 1600},
    // three to twelve rows of floats: tiles of two to four rows, odd columns
    {10, 3, 64},
    {11, 129, 48, 16},
};

QuantisedMatmulProblem problem_of(i64 bits, DType q, DType a) {
  QuantisedMatmulProblem p;
  p.bits = bits;
  p.q = q;
  p.a = a;
  p.scale = a;
  p.has_scale = true;
  return p;
}

class QuantisedMatmul : public testing::TestWithParam<const Variant*> {
 protected:
  std::mt19937 rng{5};

  void check(QuantisedMatmulProblem p, const Case& s) {
    SCOPED_TRACE(str(problems::print(p), ": ", s.m, "x", s.n, "x", s.k, " by ", s.group,
                     s.turned ? " turned" : ""));
    Launch launch(rng, p, s);
    launch.run(0, GetParam());
    launch.check();
    const HostTensor whole = launch.c;
    launch.run(1, GetParam());
    ASSERT_EQ(std::memcmp(whole.data(), launch.c.data(),
                          static_cast<std::size_t>(whole.numel()) * size_of(p.c)),
              0)
        << "depends on how the grid is split";
  }
};
GEX_FOR_EACH_VARIANT(QuantisedMatmul);

TEST_P(QuantisedMatmul, EqualsAPlainLoop) {
  for (const DType a : {DType::f32, DType::f16, DType::bf16})
    for (const DType q : {DType::i8, DType::u8})
      for (Case s : kCases)
        for (const bool turned : {false, true}) {
          s.turned = s.scale_turned = turned;
          QuantisedMatmulProblem p = problem_of(8, q, a);
          p.zero = q == DType::u8 ? 128 : 0;
          check(p, s);
        }
}

TEST_P(QuantisedMatmul, FourBits) {
  for (const DType a : {DType::f32, DType::f16, DType::bf16})
    for (const i64 zero : {i64{0}, i64{8}})
      for (const bool offset : {false, true})
        for (const Case& s : kCases) {
          QuantisedMatmulProblem p = problem_of(4, DType::u8, a);
          p.zero = zero;
          p.has_offset = offset;
          check(p, s);
        }
}

TEST_P(QuantisedMatmul, OffsetsAndResults) {
  for (const bool scale : {false, true})
    for (const DType c : {DType::f32, DType::f16, DType::bf16})
      for (const Case& s : kCases) {
        QuantisedMatmulProblem p = problem_of(8, DType::i8, DType::f32);
        p.has_scale = scale;
        p.has_offset = scale;
        p.scale = DType::bf16;
        p.zero = scale ? -3 : 0;
        p.c = c;
        check(p, s);
      }
}

// bf16 rows by the processor's own instruction, where it has one.
INSTANTIATE_TEST_SUITE_P(Best, QuantisedMatmul, testing::Values(nullptr),
                         [](const auto&) { return "best"; });

TEST(QuantisedMatmulRows, HaveTheSameBitsForAnyNumber) {
  std::mt19937 rng(7);
  for (const i64 bits : {i64{8}, i64{4}})
    for (const DType a : {DType::f32, DType::bf16}) {
      QuantisedMatmulProblem p = problem_of(bits, bits == 8 ? DType::i8 : DType::u8, a);
      p.any_rows = true;
      Launch all(rng, p, {9, 40, 128, 32});
      all.run(0);
      Launch one = all;
      one.sizes.m = one.dims[at::m] = 1;
      one.run(0);
      ASSERT_EQ(std::memcmp(all.c.data(), one.c.data(), 40 * size_of(p.c)), 0);
    }
}

TEST(QuantisedMatmulErrors, NameTheDtypes) {
  QuantisedMatmulProblem p = problem_of(4, DType::i8, DType::f32);
  EXPECT_THROW(make_quantised_matmul(p), UserError);
  p = problem_of(8, DType::i8, DType::f64);
  EXPECT_THROW(make_quantised_matmul(p), UserError);
  p = problem_of(8, DType::i32, DType::f32);
  EXPECT_THROW(make_quantised_matmul(p), UserError);
}

}  // namespace
}  // namespace gex::test
