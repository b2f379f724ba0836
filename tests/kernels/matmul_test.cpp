#include "backend/cpu/kernels/matmul.hpp"

#include <array>
#include <bit>
#include <utility>

#include "backend/cpu/kernels/bf16_pairs.hpp"
#include "base/error.hpp"
#include "support.hpp"

namespace gex::test {
namespace {

using kernels::MatmulProblem;

struct Case {
  MatmulProblem problem;
  i64 batch0 = 1, batch1 = 1, m, n, k;
  std::vector<int> a_order = {0, 1, 2, 3}, b_order = {0, 1, 2, 3}, c_order = {0, 1, 2, 3};
  bool broadcast_a0 = false, broadcast_b1 = false;
  i64 gap = 1;  // all strides are multiplied by it: 2 leaves no contiguous axis
};

struct Operands {
  HostTensor a, b, c;
  std::vector<double> a_numbers, b_numbers;
  std::vector<i64> as, bs, cs, dims;
  i64 grid, scratch;

  Operands(const Case& t, std::mt19937& rng) {
    const std::vector<i64> a_sizes = {t.batch0, t.batch1, t.m, t.k};
    const std::vector<i64> b_sizes = {t.batch0, t.batch1, t.k, t.n};
    const std::vector<i64> c_sizes = {t.batch0, t.batch1, t.m, t.n};
    as = strides_in_order(a_sizes, t.a_order);
    bs = strides_in_order(b_sizes, t.b_order);
    cs = strides_in_order(c_sizes, t.c_order);
    for (auto* s : {&as, &bs, &cs})
      for (i64& stride : *s) stride *= t.gap;
    if (t.broadcast_a0) as[0] = 0;
    if (t.broadcast_b1) bs[1] = 0;
    a = random_tensor(rng, t.problem.a, extent(a_sizes, as));
    b = random_tensor(rng, t.problem.b, extent(b_sizes, bs));
    c = random_tensor(rng, t.problem.c, extent(c_sizes, cs));
    a_numbers = numbers(a);
    b_numbers = numbers(b);
    dims = {t.batch0, t.batch1, t.m, t.n, t.k};
    for (auto* s : {&as, &bs, &cs}) dims.insert(dims.end(), s->begin(), s->end());
    const i64 batch = t.batch0 * t.batch1;
    grid = matmul_grid(t.problem, batch, t.m, t.n, t.k).constant();
    scratch = matmul_scratch_bytes(t.problem, batch, t.m, t.n, t.k).constant();
  }
};

struct Sum {
  double value = 0, magnitude = 0;
};

Sum reference(const Case& t, const Operands& o, i64 b0, i64 b1, i64 m, i64 n) {
  Sum sum;
  for (i64 k = 0; k < t.k; ++k) {
    const double product = o.a_numbers[b0 * o.as[0] + b1 * o.as[1] + m * o.as[2] + k * o.as[3]] *
                           o.b_numbers[b0 * o.bs[0] + b1 * o.bs[1] + k * o.bs[2] + n * o.bs[3]];
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

double tolerance(const Case& t, const Sum& want, DType out) {
  const double sums = t.problem.a == DType::f64 ? 1e-14 : 3e-6;
  return want.magnitude * sums + std::fabs(want.value) * unit_of(out);
}

std::string describe(const Case& t) {
  return str(t.problem.a, "*", t.problem.b, "->", t.problem.c, " batch ", t.batch0, "x", t.batch1,
             " m ", t.m, " n ", t.n, " k ", t.k, " gap ", t.gap);
}

void check_against_reference(const Case& t, const Operands& o) {
  for (i64 b0 = 0; b0 < t.batch0; ++b0)
    for (i64 b1 = 0; b1 < t.batch1; ++b1)
      for (i64 m = 0; m < t.m; ++m)
        for (i64 n = 0; n < t.n; ++n) {
          const Sum want = reference(t, o, b0, b1, m, n);
          const double got = o.c.get(b0 * o.cs[0] + b1 * o.cs[1] + m * o.cs[2] + n * o.cs[3]);
          ASSERT_NEAR(got, want.value, tolerance(t, want, t.problem.c))
              << describe(t) << " at " << b0 << "," << b1 << "," << m << "," << n;
        }
}

class Matmul : public testing::TestWithParam<const kernels::Variant*> {
 protected:
  std::mt19937 rng{7};

  // Right, and the same bits for every split of the grid.
  void check(const Case& t) {
    Operands o(t, rng);
    const auto kernel = make_matmul(t.problem, std::nullopt, GetParam());
    const std::vector<void*> buffers = {o.a.data(), o.b.data(), o.c.data()};
    run_in_steps(kernel, buffers, o.dims, o.grid, o.scratch, std::max<i64>(o.grid, 1));
    check_against_reference(t, o);
    const HostTensor whole = o.c;
    for (const i64 step : {1, 3}) {
      run_in_steps(kernel, buffers, o.dims, o.grid, o.scratch, step);
      ASSERT_EQ(whole, o.c) << describe(t) << " differs in steps of " << step;
    }
    for (kernels::OperandSet computed : {1, 2, 3}) check_computed(t, o, computed);
  }

  // Operands without memory of their own: the same product, whatever the split.
  void check_computed(Case t, Operands& o, kernels::OperandSet computed) {
    const auto can_be_computed = [&](DType dtype, const std::vector<i64>& strides) {
      return (dtype == DType::f32 || dtype == DType::f64) && (strides[2] == 1 || strides[3] == 1);
    };
    t.problem.computed = computed;
    kernels::Attached attached;
    std::vector<void*> buffers = {o.a.data(), o.b.data(), o.c.data()};
    for (int k = 0; k < 2; ++k) {
      if (!kernels::contains(computed, k)) continue;
      if (!can_be_computed(k == 0 ? t.problem.a : t.problem.b, k == 0 ? o.as : o.bs)) return;
      attached.prologues.push_back(
          read_from_memory(t.problem.a, k, static_cast<int>(buffers.size())));
      buffers.push_back(std::exchange(buffers[k], nullptr));
    }
    ++computed_cases;
    const i64 batch = t.batch0 * t.batch1;
    const i64 scratch = matmul_scratch_bytes(t.problem, batch, t.m, t.n, t.k).constant();
    const auto kernel = make_matmul(t.problem, attached, GetParam());
    run_in_steps(kernel, buffers, o.dims, o.grid, scratch, std::max<i64>(o.grid, 1));
    check_against_reference(t, o);
    const HostTensor whole = o.c;
    run_in_steps(kernel, buffers, o.dims, o.grid, scratch, 1);
    ASSERT_EQ(whole, o.c) << describe(t) << " differs with computed operands " << computed;
  }

  int computed_cases = 0;
};

TEST_P(Matmul, edge_sizes) {
  for (const i64 m : {0, 1, 2, 7, 8, 9, 13, 97})
    for (const i64 n : {0, 1, 5, 8, 9, 31, 33, 130})
      for (const i64 k : {0, 1, 3, 17, 64}) check({.m = m, .n = n, .k = k});
  EXPECT_EQ(computed_cases, 3 * 8 * 8 * 5);
}

TEST_P(Matmul, computed_operands_of_several_blocks) {
  for (const i64 m : {1, 8, 200})
    for (const i64 n : {1, 8, 500})
      for (const bool turned : {false, true})
        check({.m = m,
               .n = n,
               .k = m * n > 20000 ? 270 : 4200,
               .a_order = {0, 1, turned ? 3 : 2, turned ? 2 : 3},
               .b_order = {0, 1, turned ? 3 : 2, turned ? 2 : 3}});
  EXPECT_EQ(computed_cases, 3 * 3 * 3 * 2);
}

TEST_P(Matmul, sizes_beyond_one_tile) {
  check({.m = 389, .n = 401, .k = 261});
  check({.m = 12, .n = 1031, .k = 513});
  check({.m = 211, .n = 70, .k = 100});
}

TEST_P(Matmul, few_rows_or_columns_with_a_long_depth) {
  for (const i64 few : {1, 2, 3, 4, 5, 6, 7, 8}) {
    check({.m = few, .n = 67, .k = 4099, .b_order = {0, 1, 3, 2}});
    check({.m = few, .n = 67, .k = 4099});
    check({.m = 103, .n = few, .k = 77});
    check({.m = 103, .n = few, .k = 77, .a_order = {0, 1, 3, 2}});
  }
  check({.m = 1, .n = 4500, .k = 9});
}

TEST_P(Matmul, random_layouts_dtypes_and_batches) {
  const DType low[] = {DType::f32, DType::f16, DType::bf16};
  const std::vector<std::vector<int>> orders = {
      {0, 1, 2, 3}, {0, 1, 3, 2}, {1, 0, 2, 3}, {2, 0, 1, 3}, {3, 2, 1, 0}};
  for (int i = 0; i < 60; ++i) {
    Case t{.m = pick(rng, {1, 2, 5, 8, 11, 24, 101}),
           .n = pick(rng, {1, 3, 8, 16, 29, 64, 113}),
           .k = pick(rng, {1, 2, 16, 37, 128, 300})};
    t.batch0 = pick(rng, {1, 2});
    t.batch1 = pick(rng, {1, 3});
    t.a_order = orders[rng() % orders.size()];
    t.b_order = orders[rng() % orders.size()];
    t.c_order = orders[rng() % orders.size()];
    t.gap = pick(rng, {1, 1, 2});
    t.broadcast_a0 = rng() % 2;
    t.broadcast_b1 = rng() % 2;
    t.problem = {low[rng() % 3], low[rng() % 3], low[rng() % 3]};
    if (i % 4 == 0) t.problem = {DType::f64, DType::f64, i % 8 ? DType::f64 : DType::f32};
    check(t);
  }
}

TEST_P(Matmul, packed_b_gives_the_same_numbers) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const i64 m : {1, 8, 9, 100})
      for (const i64 n : {1, 64, 101, 400}) {
        Case t{.problem = {dtype, dtype, dtype},
               .batch0 = 2,
               .m = m,
               .n = n,
               .k = 270,
               .b_order = {0, 1, 3, 2}};
        Operands o(t, rng);
        const i64 each = matmul_packed_elements(t.problem, 1, n, t.k).constant();
        HostTensor packed(dtype, {2 * each});
        std::vector<i64> pack_dims = {t.batch0, t.batch1, n, t.k};
        pack_dims.insert(pack_dims.end(), o.bs.begin(), o.bs.end());
        run_in_steps(make_matmul_pack(t.problem, GetParam()), {o.b.data(), packed.data()},
                     pack_dims, matmul_pack_grid(t.problem, 2, n, t.k).constant(), 0, 2);
        t.problem.b_packed = true;
        std::vector<i64> dims = o.dims;
        dims[problems::matmul_dims::b_strides] = each;
        const auto kernel = make_matmul(t.problem, std::nullopt, GetParam());
        const std::vector<void*> buffers = {o.a.data(), packed.data(), o.c.data()};
        run_in_steps(kernel, buffers, dims, o.grid, o.scratch, o.grid);
        check_against_reference(t, o);
        const HostTensor whole = o.c;
        run_in_steps(kernel, buffers, dims, o.grid, o.scratch, 1);
        ASSERT_EQ(whole, o.c) << describe(t);
      }
}

// B packed ahead, then the product: what every other way of computing it must agree with.
HostTensor product_of_packed(const Case& t, const Operands& o, const kernels::Variant* variant) {
  MatmulProblem problem = t.problem;
  HostTensor packed(problem.b, {matmul_packed_elements(problem, 1, t.n, t.k).constant()});
  std::vector<i64> pack_dims = {1, 1, t.n, t.k};
  pack_dims.insert(pack_dims.end(), o.bs.begin(), o.bs.end());
  run_in_steps(make_matmul_pack(problem, variant),
               {const_cast<std::byte*>(o.b.data()), packed.data()}, pack_dims,
               matmul_pack_grid(problem, 1, t.n, t.k).constant(), 0, 2);
  problem.b_packed = true;
  HostTensor c = o.c;
  run_in_steps(make_matmul(problem, std::nullopt, variant),
               {const_cast<std::byte*>(o.a.data()), packed.data(), c.data()}, o.dims, o.grid,
               o.scratch, o.grid);
  return c;
}

// A prologue of a bf16 operand: its elements in memory, widened.
kernels::Prologue widened_from_memory(int operand, int buffer) {
  const program::KernelFn fn = [](const void*, void* const* buffers, const i64*, i64 begin, i64 end,
                                  std::byte*) {
    for (i64 i = begin; i < end; ++i) {
      const std::uint32_t bits = static_cast<const std::uint16_t*>(buffers[0])[i];
      static_cast<float*>(buffers[1])[i] = std::bit_cast<float>(bits << 16);
    }
  };
  return {{fn, nullptr, nullptr}, operand, buffer, 1, 0};
}

// Whether the machine's kernel of bf16 pairs reads B in place, with sums in another order.
bool reads_columns(const Case& t, const Operands& o, const kernels::Variant* variant) {
  const bool pairs = variant == kernels::usable_variants().front() && bf16_pairs(t.problem);
  return pairs && t.m > kernels::kFewRowsWithoutPairs && t.n > kernels::kFewRows &&
         kernels::columns_in_place(t.problem.a, t.problem.b, t.problem.b_packed, t.problem.any_rows,
                                   o.dims.data());
}

// Products of bf16 matrices have forms of their own on some machines: each layout of either
// operand, whole and partial tiles, slices of odd depth, one or several row blocks.
TEST_P(Matmul, bf16_products_of_any_size_and_layout) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {0, 1, 3, 2}};
  for (const auto& [m, n, k] : std::vector<std::array<i64, 3>>{{9, 9, 1},
                                                               {9, 33, 2},
                                                               {12, 64, 255},
                                                               {13, 17, 257},
                                                               {32, 500, 520},
                                                               {97, 70, 1025},
                                                               {100, 130, 3000},
                                                               {9, 70, 2047},
                                                               {17, 451, 2081},
                                                               {128, 65, 4130},
                                                               {250, 23, 1057},
                                                               {400, 48, 300},
                                                               {401, 405, 37},
                                                               {700, 20, 515},
                                                               {16, 40, 0}})
    for (const auto& a_order : orders)
      for (const auto& b_order : orders)
        for (const i64 gap : {1, 3}) {
          if (gap == 3 && m * n * k > 2000000) continue;
          Case t{.problem = {DType::bf16, DType::bf16, DType::f32}, .m = m, .n = n, .k = k};
          t.a_order = a_order;
          t.b_order = b_order;
          t.gap = gap;
          check(t);
          if (gap == 3) continue;
          Operands o(t, rng);
          run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                       {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
          const HostTensor packed = product_of_packed(t, o, GetParam());
          const bool in_place = reads_columns(t, o, GetParam());
          if (!in_place) {
            ASSERT_EQ(o.c, packed) << describe(t);
          }
          for (const kernels::OperandSet computed : {1, 2, 3}) {
            Case of_computed = t;
            of_computed.problem.computed = computed;
            kernels::Attached attached;
            HostTensor c = o.c;
            std::vector<void*> buffers = {o.a.data(), o.b.data(), c.data()};
            for (int i = 0; i < 2; ++i)
              if (kernels::contains(computed, i)) {
                attached.prologues.push_back(
                    widened_from_memory(i, static_cast<int>(buffers.size())));
                buffers.push_back(std::exchange(buffers[i], nullptr));
              }
            run_in_steps(make_matmul(of_computed.problem, attached, GetParam()), buffers, o.dims,
                         o.grid, matmul_scratch_bytes(of_computed.problem, 1, m, n, k).constant(),
                         o.grid);
            ASSERT_EQ(in_place && computed > 1 ? packed : o.c, c)
                << describe(t) << " with computed operands " << computed;
          }
        }
}

// Numbers beside a matrix must not enter its products, not even multiplied by zero.
TEST_P(Matmul, columns_in_place_end_where_the_matrix_ends) {
  for (const i64 k : {33, 300, 2060}) {
    Case t{.problem = {DType::bf16, DType::bf16, DType::f32}, .m = 8 + k / 300, .n = 21, .k = k};
    t.b_order = {0, 1, 3, 2};
    Operands o(t, rng);
    const i64 stride = k + 40;
    HostTensor wide(DType::bf16, {t.n * stride});
    for (i64 i = 0; i < wide.numel(); ++i)
      wide.set(i, i % stride < k ? o.b.get(i / stride * k + i % stride) : NAN);
    o.dims[problems::matmul_dims::b_strides + 3] = stride;
    run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                 {o.a.data(), wide.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    check_against_reference(t, o);
  }
}

// The sum of an element doesn't depend on its place in a tile, nor on the size of the tile.
TEST_P(Matmul, columns_in_place_give_the_same_bits_in_any_tile) {
  namespace at = problems::matmul_dims;
  for (const i64 k : {300, 1090}) {
    Case t{.problem = {DType::bf16, DType::bf16, DType::f32}, .m = 37, .n = 70, .k = k};
    t.b_order = {0, 1, 3, 2};
    Operands o(t, rng);
    const auto kernel = make_matmul(t.problem, std::nullopt, GetParam());
    run_in_steps(kernel, {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    check_against_reference(t, o);
    for (i64 rows = 9; rows < 20; ++rows)
      for (const i64 col : {0, 1, 2, 3}) {
        std::vector<i64> dims = o.dims;
        dims[at::m] = rows;
        dims[at::n] = t.n - 2 * col;
        HostTensor c(DType::f32, {rows * t.n});
        run_in_steps(
            kernel, {o.a.as<std::uint16_t>() + 3 * k, o.b.as<std::uint16_t>() + col * k, c.data()},
            dims, matmul_grid(t.problem, 1, rows, dims[at::n], k).constant(), o.scratch, 1);
        for (i64 i = 0; i < rows; ++i)
          for (i64 j = 0; j < dims[at::n]; ++j)
            ASSERT_EQ(c.get(i * t.n + j), o.c.get((i + 3) * t.n + j + col))
                << rows << " rows from column " << col << " of depth " << k;
      }
  }
}

TEST_P(Matmul, bf16_rows_have_the_same_bits_for_any_number_of_rows_where_that_is_asked_for) {
  for (const i64 k : {40, 300, 2100}) {
    Case t{.problem = {DType::bf16, DType::bf16, DType::f32}, .m = 300, .n = 70, .k = k};
    t.b_order = {0, 1, 3, 2};
    t.problem.any_rows = true;
    Operands o(t, rng);
    const auto kernel = make_matmul(t.problem, std::nullopt, GetParam());
    run_in_steps(kernel, {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    for (const i64 rows : {1, 8, 10, 64, 150}) {
      std::vector<i64> dims = o.dims;
      dims[problems::matmul_dims::m] = rows;
      HostTensor c(DType::f32, {rows * t.n});
      run_in_steps(kernel, {o.a.data(), o.b.data(), c.data()}, dims,
                   matmul_grid(t.problem, 1, rows, t.n, k).constant(), o.scratch, 1);
      for (i64 i = 0; i < c.numel(); ++i) ASSERT_EQ(c.get(i), o.c.get(i)) << rows << " of " << k;
    }
  }
}

// Packed panels of bf16 are read by the form for few rows, too.
TEST_P(Matmul, bf16_panels_of_odd_depth_serve_few_rows) {
  for (const i64 m : {1, 3, 8})
    for (const i64 k : {1, 7, 4097}) {
      Case t{.problem = {DType::bf16, DType::bf16, DType::f32}, .m = m, .n = 70, .k = k};
      Operands o(t, rng);
      o.c = product_of_packed(t, o, GetParam());
      check_against_reference(t, o);
    }
}

// Sums of many terms are as exact as a sum in f32 can be expected to be.
TEST_P(Matmul, bf16_products_are_summed_in_f32) {
  for (const std::vector<int>& b_order : {std::vector<int>{0, 1, 2, 3}, {0, 1, 3, 2}}) {
    Case t{.problem = {DType::bf16, DType::bf16, DType::f32}, .m = 40, .n = 64, .k = 8192};
    t.b_order = b_order;
    Operands o(t, rng);
    run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                 {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    double worst = 0;
    for (i64 m = 0; m < t.m; ++m)
      for (i64 n = 0; n < t.n; ++n) {
        const Sum want = reference(t, o, 0, 0, m, n);
        worst = std::max(worst, std::fabs(o.c.get(m * t.n + n) - want.value) / want.magnitude);
      }
    EXPECT_LT(worst, 2e-7);
  }
}

TEST_P(Matmul, subnormal_numbers_are_kept_where_that_is_asked_for) {
  for (const i64 m : {4, 40}) {
    Case t{.problem = {DType::bf16, DType::bf16, DType::bf16}, .m = m, .n = 40, .k = 2};
    t.problem.keep_subnormals = true;
    Operands o(t, rng);
    for (i64 i = 0; i < o.a.numel(); ++i) o.a.set(i, std::ldexp(1, -100));
    for (i64 i = 0; i < o.b.numel(); ++i) o.b.set(i, std::ldexp(1, -30));
    run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                 {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    for (i64 i = 0; i < o.c.numel(); ++i) ASSERT_EQ(o.c.get(i), 2 * std::ldexp(1, -130));
  }
}

TEST_P(Matmul, small_products_read_in_place_have_the_bits_of_packed_ones) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {0, 1, 3, 2}};
  for (const DType dtype : {DType::f32, DType::f64})
    for (const i64 m : {9, 10, 16, 31, 32, 64})
      for (const i64 n : {9, 16, 40, 100, 256})
        for (const i64 k : {1, 10, 32, 300})
          for (const auto& a_order : orders)
            for (const auto& b_order : orders) {
              Case t{.problem = {dtype, dtype, dtype}, .m = m, .n = n, .k = k};
              t.a_order = a_order;
              t.b_order = b_order;
              Operands o(t, rng);
              run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                           {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
              ASSERT_EQ(o.c, product_of_packed(t, o, GetParam()))
                  << describe(t) << " orders " << a_order[3] << " and " << b_order[3];
            }
}

TEST_P(Matmul, small_products_of_any_layout_don_t_depend_on_the_split) {
  for (const auto& a_order : {std::vector{0, 1, 2, 3}, std::vector{0, 1, 3, 2}})
    for (const auto& b_order : {std::vector{0, 1, 2, 3}, std::vector{0, 1, 3, 2}})
      for (const i64 gap : {1, 2}) {
        check({.m = 100, .n = 10, .k = 37, .a_order = a_order, .b_order = b_order, .gap = gap});
        check({.m = 32, .n = 200, .k = 128, .a_order = a_order, .b_order = b_order, .gap = gap});
        check({.m = 130, .n = 400, .k = 9, .a_order = a_order, .b_order = b_order, .gap = gap});
      }
  check({.m = 20, .n = 48, .k = 40, .c_order = {0, 1, 3, 2}});
  check({.m = 13, .n = 24, .k = 1024, .b_order = {0, 1, 3, 2}});  // rows of A a page apart
}

// The result as a window of a wider matrix: nothing beside it is written.
TEST_P(Matmul, small_matmuls_do_not_write_outside_the_result) {
  for (const auto& b_order : {std::vector{0, 1, 2, 3}, std::vector{0, 1, 3, 2}})
    for (const i64 n : {32, 37}) {
      Case t{.m = 24, .n = n, .k = 20, .b_order = b_order};
      Operands o(t, rng);
      const i64 stride = n + 11;
      HostTensor wide(DType::f32, {t.m * stride});
      for (i64 i = 0; i < wide.numel(); ++i) wide.set(i, 77);
      std::vector<i64> dims = o.dims;
      dims[problems::matmul_dims::c_strides + 2] = stride;
      run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                   {o.a.data(), o.b.data(), wide.data()}, dims, o.grid, o.scratch, o.grid);
      const HostTensor want = product_of_packed(t, o, GetParam());
      for (i64 i = 0; i < wide.numel(); ++i)
        ASSERT_EQ(wide.get(i), i % stride < n ? want.get(i / stride * n + i % stride) : 77)
            << describe(t) << " at " << i;
    }
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }

// out[i] = gelu(acc[i] + bias[i % n]); dims: [n]; also notes that segments stay in one row.
void gelu_bias(const void*, void* const* buffers, const i64* dims, i64 begin, i64 end,
               std::byte* scratch) {
  const auto* acc = static_cast<const float*>(buffers[0]);
  auto* out = static_cast<float*>(buffers[1]);
  const auto* bias = static_cast<const float*>(buffers[2]);
  ASSERT_LT(begin, end);
  ASSERT_EQ(begin / dims[0], (end - 1) / dims[0]);
  std::memset(scratch, 0x11, 64);  // the epilogue's own scratch follows the kernel's
  for (i64 i = begin; i < end; ++i) out[i] = static_cast<float>(gelu(acc[i] + bias[i % dims[0]]));
}

TEST_P(Matmul, epilogue_sees_finished_sums_at_their_linear_index) {
  for (const i64 m : {1, 4, 40, 100})
    for (const i64 n : {1, 7, 130, 400})
      for (const i64 k : {0, 50, 300}) {
        Case t{.problem = {k == 300 ? DType::bf16 : DType::f32, DType::f32, DType::f32},
               .batch0 = 2,
               .batch1 = 2,
               .m = m,
               .n = n,
               .k = k};
        if (n != 7) t.b_order = {0, 1, 3, 2};
        Operands o(t, rng);
        HostTensor out(DType::f32, {4 * m * n});
        const HostTensor bias = random_tensor(rng, DType::f32, n);
        kernels::Epilogue epilogue{
            {&gelu_bias, nullptr, nullptr}, 2, problems::matmul_dims::count, 1};
        std::vector<i64> dims = o.dims;
        dims.push_back(n);
        const auto kernel = make_matmul(t.problem, epilogue, GetParam());
        const std::vector<void*> buffers = {o.a.data(), o.b.data(), out.data(),
                                            const_cast<std::byte*>(bias.data())};
        run_in_steps(kernel, buffers, dims, o.grid, o.scratch + 64, o.grid);
        for (i64 b = 0; b < 4; ++b)
          for (i64 i = 0; i < m; ++i)
            for (i64 j = 0; j < n; ++j) {
              const Sum sum = reference(t, o, b / 2, b % 2, i, j);
              ASSERT_NEAR(out.get((b * m + i) * n + j), gelu(sum.value + bias.get(j)),
                          1e-6 + sum.magnitude * 4e-6)
                  << describe(t);
            }
        const HostTensor whole = out;
        run_in_steps(kernel, buffers, dims, o.grid, o.scratch + 64, 1);
        ASSERT_EQ(whole, out) << describe(t);
      }
}

TEST_P(Matmul, nan_and_infinity_reach_the_result) {
  for (const i64 m : {2, 20, 32}) {
    const bool turned = m == 32;  // by the transposed product
    Case t{.m = m, .n = 40, .k = 40};
    if (turned) t.b_order = {0, 1, 3, 2};
    Operands o(t, rng);
    o.a.set(3, std::nan(""));
    o.b.set(turned ? 7 * 40 + 5 : 5 * 40 + 7, INFINITY);
    run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                 {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    for (i64 n = 0; n < 40; ++n) EXPECT_TRUE(std::isnan(o.c.get(n)));
    EXPECT_TRUE(std::isinf(o.c.get(40 + 7)));
    EXPECT_TRUE(std::isfinite(o.c.get(40 + 8)));
  }
}

// Every 16-bit pattern times one, by the path for few rows and by the packed one.
TEST_P(Matmul, halves_widen_exactly) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const i64 m : {1, 9}) {
      Case t{.problem = {DType::f32, dtype, DType::f32}, .m = m, .n = 65536, .k = 1};
      Operands o(t, rng);
      for (i64 i = 0; i < m; ++i) o.a.set(i, 1);
      for (i64 i = 0; i < t.n; ++i) o.b.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
      run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                   {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
      for (i64 i = 0; i < t.n; ++i) {
        const double want = o.b.get(i), got = o.c.get((m - 1) * t.n + i);
        ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got)))
            << dtype << " " << i << ": " << want << " became " << got;
      }
    }
}

TEST_P(Matmul, results_round_to_halves_as_base_does) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Case t{.problem = {DType::f32, DType::f32, dtype}, .m = 1, .n = 200003, .k = 1};
    Operands o(t, rng);
    o.a.set(0, 1);
    for (i64 i = 0; i < t.n; ++i) o.b.as<std::uint32_t>()[i] = static_cast<std::uint32_t>(rng());
    for (i64 i = 0; i < 2048; ++i)  // ties between neighbours
      o.b.as<std::uint32_t>()[i] = static_cast<std::uint32_t>(0x3f800000 + i * 0x800);
    run_in_steps(make_matmul(t.problem, std::nullopt, GetParam()),
                 {o.a.data(), o.b.data(), o.c.data()}, o.dims, o.grid, o.scratch, o.grid);
    HostTensor want(dtype, {1});
    for (i64 i = 0; i < t.n; ++i) {
      want.set(0, o.b.as<float>()[i]);
      const double got = o.c.get(i);
      ASSERT_TRUE(want.get(0) == got || (std::isnan(want.get(0)) && std::isnan(got)))
          << dtype << " " << o.b.as<float>()[i] << " became " << got;
    }
  }
}

GEX_FOR_EACH_VARIANT(Matmul);

TEST(MatmulProblem, unsupported_dtypes_are_refused_with_a_hint) {
  for (const MatmulProblem& p : {MatmulProblem{DType::i32, DType::i32, DType::i32},
                                 MatmulProblem{DType::f64, DType::f32, DType::f32},
                                 MatmulProblem{DType::f32, DType::f32, DType::f64}}) {
    try {
      make_matmul(p);
      FAIL() << "accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(e.what()).find("cast"), std::string::npos);
    }
  }
}

TEST(MatmulProblem, scratch_depends_on_the_sizes) {
  const MatmulProblem p{DType::f32, DType::f32, DType::f32};
  const auto bytes = [&](i64 m, i64 n, i64 k) {
    return kernels::matmul_scratch_bytes(p, 1, m, n, k).constant();
  };
  const i64 largest = bytes(10'000, 10'000, 10'000);
  EXPECT_LE(largest, 1'200'000);
  EXPECT_LE(bytes(16, 32, 32), largest / 10);
  // A capture reserves what its largest sizes need; a call with smaller ones must fit.
  i64 before = 0;
  for (i64 size = 1; size < 3000; size += size / 3 + 1) {
    EXPECT_LE(before, bytes(size, size, size));
    EXPECT_LE(bytes(size, 40, 40), bytes(size + 1, 40, 40));
    EXPECT_LE(bytes(40, size, 40), bytes(40, size + 1, 40));
    EXPECT_LE(bytes(40, 40, size), bytes(40, 40, size + 1));
    before = bytes(size, size, size);
  }
}

TEST(MatmulProblem, grid_is_symbolic) {
  const Dim s = Dim::symbol("s0");
  EXPECT_EQ(matmul_grid(MatmulProblem{}, 1, s, 128, 5), ceildiv(s, kernels::kUnitRows) * 2);
}

}  // namespace
}  // namespace gex::test
