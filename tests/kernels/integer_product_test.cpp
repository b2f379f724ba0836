#include "backend/cpu/kernels/integer_product.hpp"

#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/integer_tile.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "base/error.hpp"
#include "support.hpp"

namespace gex::test {
namespace {

HostTensor random_bytes(std::mt19937& rng, DType dtype, i64 count) {
  HostTensor tensor(dtype, {count});
  std::uniform_int_distribution<int> any(dtype == DType::i8 ? -128 : 0,
                                         dtype == DType::i8 ? 127 : 255);
  for (i64 k = 0; k < count; ++k) tensor.set(k, any(rng));
  return tensor;
}

const DType kBytes[] = {DType::i8, DType::u8};

struct Sizes {
  i64 batch, m, n, k;
  bool turned;  // B is [n, k] in memory
};

class IntegerMatmul : public testing::Test {
 protected:
  std::mt19937 rng{3};

  void check(DType left, DType right, const Sizes& s, bool packed) {
    HostTensor a = random_bytes(rng, left, s.batch * s.m * s.k);
    HostTensor b = random_bytes(rng, right, s.batch * s.k * s.n);
    HostTensor c(DType::i32, {s.batch * s.m * s.n});
    const i64 bk = s.turned ? 1 : s.n, bn = s.turned ? s.k : 1;
    MatmulProblem problem;
    problem.a = left;
    problem.b = right;
    problem.c = DType::i32;
    std::vector<void*> buffers = {a.data(), b.data(), c.data()};
    std::vector<i64> dims = {1, s.batch,   s.m, s.n, s.k, 0,         s.m * s.k, s.k, 1,
                             0, s.k * s.n, bk,  bn,  0,   s.m * s.n, s.n,       1};
    const i64 one = kernels::integer_matmul_packed_bytes(1, s.n, s.k).constant();
    std::vector<std::byte> space(static_cast<std::size_t>(s.batch * one));
    if (packed) {
      const std::vector<i64> pack = {1, s.batch, s.n, s.k, 0, s.k * s.n, bk, bn};
      run_in_steps(make_matmul_pack(problem), {b.data(), space.data()}, pack,
                   kernels::integer_matmul_pack_grid(s.batch, s.n).constant(), 0, 2);
      problem.b_packed = true;
      buffers[1] = space.data();
      dims[problems::matmul_dims::b_strides + 1] = one;
    }
    const program::Callable kernel = make_matmul(problem);
    const i64 grid = kernels::integer_matmul_grid(s.batch, s.m, s.n).constant();
    const i64 scratch = kernels::integer_scratch_bytes(s.k).constant();
    for (const i64 step : {i64{1}, std::max<i64>(grid, 1)}) {
      std::memset(c.data(), 0x55, static_cast<std::size_t>(s.batch * s.m * s.n * 4));
      run_in_steps(kernel, buffers, dims, grid, scratch, step);
      for (i64 x = 0; x < s.batch; ++x)
        for (i64 i = 0; i < s.m; ++i)
          for (i64 j = 0; j < s.n; ++j) {
            i64 sum = 0;
            for (i64 k = 0; k < s.k; ++k)
              sum +=
                  a.get_int((x * s.m + i) * s.k + k) * b.get_int(x * s.k * s.n + k * bk + j * bn);
            ASSERT_EQ(c.get_int((x * s.m + i) * s.n + j), sum) << i << " " << j;
          }
    }
  }
};

TEST_F(IntegerMatmul, EqualsAPlainLoop) {
  const Sizes sizes[] = {{1, 1, 1, 1, false},    {2, 3, 17, 5, false},  {1, 50, 65, 7, true},
                         {1, 13, 130, 64, true}, {3, 4, 16, 33, false}, {1, 97, 70, 130, false},
                         {2, 5, 3, 0, false}};
  for (const DType a : kBytes)
    for (const DType b : kBytes)
      for (const Sizes& s : sizes)
        for (const bool packed : {false, true}) {
          SCOPED_TRACE(str(a, " ", b, " ", s.m, "x", s.n, "x", s.k, packed ? " packed" : ""));
          check(a, b, s, packed);
        }
}

TEST_F(IntegerMatmul, RefusesOtherDtypes) {
  MatmulProblem problem;
  problem.a = DType::u8;
  problem.b = DType::i16;
  problem.c = DType::i32;
  EXPECT_THROW(make_matmul(problem), UserError);
  problem.b = DType::u8;
  problem.c = DType::f32;
  EXPECT_THROW(make_matmul(problem), UserError);
}

struct Image {
  i64 n, c, h, w, o, kh, kw, stride, dilation;
};

// Element k of the result.
i64 plain_conv(const HostTensor& x, const HostTensor& w, const Image& t, i64 oh, i64 ow, i64 k) {
  const i64 px = k % ow, py = k / ow % oh, o = k / ow / oh % t.o, n = k / ow / oh / t.o;
  i64 sum = 0;
  for (i64 c = 0; c < t.c; ++c)
    for (i64 i = 0; i < t.kh; ++i)
      for (i64 j = 0; j < t.kw; ++j)
        sum += x.get_int(((n * t.c + c) * t.h + py * t.stride + i * t.dilation) * t.w +
                         px * t.stride + j * t.dilation) *
               w.get_int(((o * t.c + c) * t.kh + i) * t.kw + j);
  return sum;
}

TEST(IntegerConv2d, EqualsAPlainLoop) {
  std::mt19937 rng{5};
  const Image images[] = {{1, 1, 1, 1, 1, 1, 1, 1, 1},
                          {2, 3, 9, 11, 5, 3, 3, 1, 1},
                          {1, 7, 20, 20, 50, 1, 1, 1, 1},
                          {2, 5, 17, 13, 19, 3, 2, 2, 1},
                          {1, 4, 12, 40, 49, 3, 3, 1, 2}};
  for (const DType x_type : kBytes)
    for (const DType w_type : kBytes)
      for (const Image& t : images) {
        const i64 oh = (t.h - (t.kh - 1) * t.dilation - 1) / t.stride + 1;
        const i64 ow = (t.w - (t.kw - 1) * t.dilation - 1) / t.stride + 1;
        HostTensor x = random_bytes(rng, x_type, t.n * t.c * t.h * t.w);
        HostTensor w = random_bytes(rng, w_type, t.o * t.c * t.kh * t.kw);
        HostTensor y(DType::i32, {t.n * t.o * oh * ow});
        Conv2dProblem problem;
        problem.x = x_type;
        problem.w = w_type;
        problem.y = DType::i32;
        problem.stride = {t.stride, t.stride};
        problem.dilation = {t.dilation, t.dilation};
        const std::vector<i64> dims = {t.n,
                                       t.c,
                                       t.h,
                                       t.w,
                                       t.o,
                                       oh,
                                       ow,
                                       t.kh,
                                       t.kw,
                                       t.c * t.h * t.w,
                                       t.h * t.w,
                                       t.w,
                                       1,
                                       t.c * t.kh * t.kw,
                                       t.kh * t.kw,
                                       t.kw,
                                       1,
                                       t.o * oh * ow,
                                       oh * ow,
                                       ow,
                                       1};
        const i64 grid = kernels::integer_conv2d_grid(t.n, t.o, oh, ow).constant();
        for (const i64 step : {i64{1}, grid}) {
          std::memset(y.data(), 0x55, static_cast<std::size_t>(y.numel() * 4));
          run_in_steps(make_conv2d(problem), {x.data(), w.data(), y.data()}, dims, grid,
                       kernels::integer_scratch_bytes(t.c * t.kh * t.kw).constant(), step);
          for (i64 k = 0; k < y.numel(); ++k)
            ASSERT_EQ(y.get_int(k), plain_conv(x, w, t, oh, ow, k))
                << x_type << " " << w_type << " element " << k;
        }
      }
}

TEST(IntegerTile, AllFunctionsOfTheMachineGiveTheSameSums) {
  std::mt19937 rng{9};
  constexpr i64 rows = 15, panels = 3, groups = 37;
  HostTensor left = random_bytes(rng, DType::u8, rows * groups * 4);
  HostTensor right = random_bytes(rng, DType::u8, panels * groups * 64);
  int count = 0;
  const kernels::NamedIntegerTile* all = kernels::integer_tiles(&count);
  for (const bool left_unsigned : {false, true}) {
    std::vector<std::int32_t> first;
    for (int k = 0; k < count; ++k) {
      std::vector<std::int32_t> sums(rows * 64, -1);
      const auto fn = left_unsigned ? all[k].left_unsigned : all[k].left_signed;
      fn({left.as<std::uint8_t>(), groups * 4, right.as<std::uint8_t>(), groups * 64, groups, rows,
          panels, sums.data(), 64});
      if (k == 0) first = sums;
      EXPECT_EQ(sums, first) << all[k].name;
    }
  }
}

}  // namespace
}  // namespace gex::test
