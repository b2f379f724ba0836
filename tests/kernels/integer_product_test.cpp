#include "backend/cpu/kernels/integer_product.hpp"

#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/integer_conv2d.hpp"
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
    const i64 scratch = kernels::integer_matmul_scratch_bytes(s.k).constant();
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
  i64 n, c, h, w, o, kh, kw;
  std::array<i64, 2> stride = {1, 1}, dilation = {1, 1}, low = {0, 0}, high = {0, 0};
  i64 groups = 1, border = 0;

  i64 out(int axis) const {
    const i64 size = axis == 0 ? h : w, taps = axis == 0 ? kh : kw;
    const auto k = static_cast<std::size_t>(axis);
    return (size + low[k] + high[k] - (taps - 1) * dilation[k] - 1) / stride[k] + 1;
  }
  i64 depth() const { return c / groups * kh * kw; }
};

// Element k of the result.
i64 plain_conv(const HostTensor& x, const HostTensor& w, const Image& t, i64 k) {
  const i64 px = k % t.out(1), py = k / t.out(1) % t.out(0);
  const i64 o = k / t.out(1) / t.out(0) % t.o, n = k / t.out(1) / t.out(0) / t.o;
  const i64 group = o / (t.o / t.groups), channels = t.c / t.groups;
  i64 sum = 0;
  for (i64 c = 0; c < channels; ++c)
    for (i64 i = 0; i < t.kh; ++i)
      for (i64 j = 0; j < t.kw; ++j) {
        const i64 y = py * t.stride[0] + i * t.dilation[0] - t.low[0];
        const i64 z = px * t.stride[1] + j * t.dilation[1] - t.low[1];
        const bool inside = y >= 0 && y < t.h && z >= 0 && z < t.w;
        const i64 pixel =
            inside ? x.get_int(((n * t.c + group * channels + c) * t.h + y) * t.w + z) : t.border;
        sum += pixel * w.get_int(((o * channels + c) * t.kh + i) * t.kw + j);
      }
  return sum;
}

Conv2dProblem problem_of(const Image& t, DType x, DType w) {
  Conv2dProblem problem;
  problem.x = x;
  problem.w = w;
  problem.y = DType::i32;
  problem.stride = t.stride;
  problem.dilation = t.dilation;
  problem.pad = t.low;
  problem.groups = t.groups;
  problem.border = t.border;
  return problem;
}

std::vector<i64> dims_of(const Image& t) {
  const i64 oh = t.out(0), ow = t.out(1), taps = t.kh * t.kw;
  return {t.n,       t.c, t.h, t.w,       t.o,  oh,   ow, t.kh,          t.kw,    t.c * t.h * t.w,
          t.h * t.w, t.w, 1,   t.depth(), taps, t.kw, 1,  t.o * oh * ow, oh * ow, ow,
          1};
}

class IntegerConv2d : public testing::Test {
 protected:
  std::mt19937 rng{5};

  void check(const Image& t, DType x_type, DType w_type, bool packed) {
    // Buffers of exactly these sizes, so that the address sanitizer sees reads behind them.
    HostTensor x = random_bytes(rng, x_type, t.n * t.c * t.h * t.w);
    HostTensor w = random_bytes(rng, w_type, t.o * t.depth());
    HostTensor y(DType::i32, {t.n * t.o * t.out(0) * t.out(1)});
    Conv2dProblem problem = problem_of(t, x_type, w_type);
    const std::vector<i64> dims = dims_of(t);
    const std::vector<Dim> sizes(dims.begin(), dims.end());
    std::vector<void*> buffers = {x.data(), w.data(), y.data()};
    std::vector<std::byte> space(
        static_cast<std::size_t>(*kernels::integer_conv2d_packed_bytes(problem, sizes)));
    if (packed) {
      const std::vector<i64> pack = {t.o,       t.c / t.groups, t.kh, t.kw,
                                     t.depth(), t.kh * t.kw,    t.kw, 1};
      run_in_steps(make_conv2d_pack(problem), {w.data(), space.data()}, pack, t.o, 0, 2);
      problem.w_packed = true;
      buffers[1] = space.data();
    }
    const i64 grid = kernels::integer_conv2d_grid(problem, sizes).constant();
    const i64 scratch = kernels::integer_conv2d_scratch_bytes(problem, sizes).constant();
    for (const i64 step : {i64{1}, std::max<i64>(grid, 1)}) {
      std::memset(y.data(), 0x55, static_cast<std::size_t>(y.numel() * 4));
      run_in_steps(make_conv2d(problem), buffers, dims, grid, scratch, step);
      for (i64 k = 0; k < y.numel(); ++k)
        ASSERT_EQ(y.get_int(k), plain_conv(x, w, t, k)) << "element " << k;
    }
  }
  void check_all_types(const Image& t) {
    for (const DType x : kBytes)
      for (const DType w : kBytes)
        for (const bool packed : {false, true}) {
          SCOPED_TRACE(str(x, " ", w, " ", t.n, "x", t.c, "x", t.h, "x", t.w, " to ", t.o, " by ",
                           t.kh, "x", t.kw, " in ", t.groups,
                           packed ? " groups, packed" : " groups"));
          check(t, x, w, packed);
        }
  }
};

TEST_F(IntegerConv2d, EqualsAPlainLoop) {
  check_all_types({1, 1, 1, 1, 1, 1, 1});
  check_all_types({2, 3, 9, 11, 5, 3, 3});
  check_all_types({1, 7, 20, 20, 50, 1, 1});
  check_all_types({.n = 2, .c = 5, .h = 17, .w = 13, .o = 19, .kh = 3, .kw = 2, .stride = {2, 2}});
  check_all_types(
      {.n = 1, .c = 4, .h = 12, .w = 40, .o = 49, .kh = 3, .kw = 3, .dilation = {2, 2}});
  check_all_types({.n = 1, .c = 6, .h = 9, .w = 150, .o = 4, .kh = 3, .kw = 5, .high = {1, 0}});
}

TEST_F(IntegerConv2d, BordersHaveTheValueOfTheProblem) {
  Image t{.n = 2, .c = 5, .h = 6, .w = 7, .o = 3, .kh = 3, .kw = 3, .low = {1, 1}, .high = {1, 1}};
  t.border = 100;
  check_all_types(t);
  t.low = {3, 0};
  t.high = {0, 4};
  t.stride = {2, 3};
  check_all_types(t);
  t.kh = t.kw = 1;  // windows that lie in the border alone
  check_all_types(t);
}

TEST_F(IntegerConv2d, Groups) {
  Image t{
      .n = 2, .c = 24, .h = 9, .w = 8, .o = 24, .kh = 3, .kw = 3, .low = {1, 1}, .high = {1, 1}};
  t.border = 7;
  for (const i64 groups : {2, 4, 8, 24}) {
    t.groups = groups;
    check_all_types(t);
  }
  t.stride = {2, 2};
  check_all_types(t);
  t.o = 72;  // several output channels of each input channel
  check_all_types(t);
  t.kh = t.kw = 5;
  t.dilation = {1, 2};
  t.low = t.high = {2, 4};
  check_all_types(t);
  check_all_types({.n = 1, .c = 120, .h = 20, .w = 70, .o = 120, .kh = 1, .kw = 7, .groups = 120});
}

TEST_F(IntegerConv2d, RandomSizes) {
  const auto any = [&](i64 low, i64 high) {
    return std::uniform_int_distribution<i64>(low, high)(rng);
  };
  for (int k = 0; k < 150; ++k) {
    Image t{};
    t.groups = any(1, 5);
    t.n = any(1, 2), t.c = t.groups * any(1, 9), t.o = t.groups * any(1, 20);
    t.kh = any(1, 5), t.kw = any(1, 9);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      t.stride[axis] = any(1, 4), t.dilation[axis] = any(1, 3);
      t.low[axis] = any(0, 4), t.high[axis] = any(0, 4);
    }
    t.h = any(1, 12) + (t.kh - 1) * t.dilation[0], t.w = any(1, 90) + (t.kw - 1) * t.dilation[1];
    t.border = any(0, 127);
    SCOPED_TRACE(k);
    check(t, kBytes[any(0, 1)], kBytes[any(0, 1)], any(0, 1) == 1);
    if (HasFatalFailure()) return;
  }
}

TEST(IntegerTile, AllFunctionsOfTheMachineGiveTheSameSums) {
  std::mt19937 rng{9};
  constexpr i64 rows = 15, panels = 3, groups = 37;
  HostTensor left = random_bytes(rng, DType::u8, rows * groups * 4);
  HostTensor right = random_bytes(rng, DType::u8, panels * groups * 64);
  std::vector<i64> offsets(groups);
  for (i64 g = 0; g < groups; ++g) offsets[static_cast<std::size_t>(g)] = g % 5 * 36;
  int count = 0;
  const kernels::NamedIntegerTile* all = kernels::integer_tiles(&count);
  for (const bool left_unsigned : {false, true}) {
    std::vector<std::int32_t> first;
    for (int k = 0; k < count; ++k) {
      std::vector<std::int32_t> sums(rows * 64, -1);
      const auto fn = left_unsigned ? all[k].left_unsigned : all[k].left_signed;
      fn({left.as<std::uint8_t>(), groups * 4, right.as<std::uint8_t>(), groups * 64,
          offsets.data(), groups, rows, panels, sums.data(), 64});
      if (k == 0) first = sums;
      EXPECT_EQ(sums, first) << all[k].name;
    }
  }
}

}  // namespace
}  // namespace gex::test
