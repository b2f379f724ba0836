#include "conv_case.hpp"

namespace gex::test {
namespace {

// Its y is the incoming gradient.
using Case = ConvCase;

class Conv2dWeightGrad : public testing::TestWithParam<const kernels::Variant*> {
 protected:
  std::mt19937 rng{12};

  void check(const Case& t) {
    const auto& p = t.problem;
    const i64 oh = t.out_size(0), ow = t.out_size(1);
    const i64 group_in = t.c / p.groups, group_out = t.o / p.groups;
    const auto xs = strides_in_order(t.x_sizes(), t.x_order),
               gs = strides_in_order(t.y_sizes(), t.y_order),
               ws = strides_in_order(t.w_sizes(), t.w_order);
    HostTensor x = random_tensor(rng, p.x, extent(t.x_sizes(), xs));
    HostTensor g = random_tensor(rng, p.w, extent(t.y_sizes(), gs));
    HostTensor dw = random_tensor(rng, p.y, extent(t.w_sizes(), ws));
    const std::vector<i64> dims = t.dims(xs, ws, gs);
    const i64 grid = conv2d_weight_grad_grid(p, t.o, group_in * t.kh * t.kw).constant();
    const i64 scratch = kernels::conv2d_weight_grad_scratch_bytes(p).constant();
    const auto kernel = make_conv2d_weight_grad(p, GetParam());
    const std::vector<void*> buffers = {x.data(), g.data(), dw.data()};
    run_in_steps(kernel, buffers, dims, grid, scratch, std::max<i64>(grid, 1));
    const auto xv = numbers(x), gv = numbers(g);
    for (i64 o = 0; o < t.o; ++o)
      for (i64 c = 0; c < group_in; ++c)
        for (i64 ky = 0; ky < t.kh; ++ky)
          for (i64 kx = 0; kx < t.kw; ++kx) {
            Sum sum;
            const i64 channel = o / group_out * group_in + c;
            for (i64 n = 0; n < t.n; ++n)
              for (i64 y = 0; y < oh; ++y)
                for (i64 z = 0; z < ow; ++z)
                  if (const auto pixel = t.pixel(y, z, ky, kx))
                    sum.add(xv[place(xs, n, channel, pixel->first, pixel->second)] *
                            gv[place(gs, n, o, y, z)]);
            ASSERT_NEAR(dw.get(place(ws, o, c, ky, kx)), sum.value,
                        t.tolerance(sum.value, sum.magnitude))
                << "at " << o << "," << c << "," << ky << "," << kx << " of n " << t.n << " c "
                << t.c << " o " << t.o << " stride " << p.stride[0] << "x" << p.stride[1];
          }
    const HostTensor whole = dw;
    for (const i64 step : {1, 3}) {
      run_in_steps(kernel, buffers, dims, grid, scratch, step);
      ASSERT_EQ(whole, dw) << "differs in steps of " << step;
    }
  }
};

TEST_P(Conv2dWeightGrad, common_shapes) {
  check({.problem = {.pad = {1, 1}}, .n = 2, .c = 20, .h = 19, .w = 23, .o = 33, .kh = 3, .kw = 3});
  check({.problem = {.stride = {2, 2}, .pad = {3, 3}},
         .n = 2,
         .c = 3,
         .h = 33,
         .w = 40,
         .o = 8,
         .kh = 7,
         .kw = 7});
  check({.n = 3, .c = 100, .h = 9, .w = 11, .o = 70, .kh = 1, .kw = 1});
  check(
      {.problem = {.stride = {2, 2}}, .n = 2, .c = 20, .h = 9, .w = 11, .o = 12, .kh = 1, .kw = 1});
  check({.problem = {.pad = {1, 1}}, .n = 5, .c = 12, .h = 7, .w = 7, .o = 101, .kh = 3, .kw = 3});
}

// Rows that end inside of vectors, at their ends and at those of a slice of K.
TEST_P(Conv2dWeightGrad, rows_of_many_widths) {
  for (const i64 stride : {1, 2, 3})
    for (const i64 width : {5, 16, 31, 32, 47})
      for (const i64 taps : {2, 3, 9})
        check({.problem = {.stride = {1, stride}, .dilation = {1, 2}, .pad = {1, taps - 1}},
               .n = 3,
               .c = 5,
               .h = 12,
               .w = width + (taps - 1) * 2,
               .o = 17,
               .kh = 2,
               .kw = taps});
}

TEST_P(Conv2dWeightGrad, groups_dilation_and_one_dimension) {
  check({.problem = {.stride = {1, 2}, .dilation = {2, 1}, .pad = {2, 1}, .groups = 6},
         .n = 2,
         .c = 6,
         .h = 13,
         .w = 29,
         .o = 12,
         .kh = 3,
         .kw = 3});
  check({.problem = {.stride = {1, 3}, .pad = {0, 4}, .groups = 2},
         .n = 2,
         .c = 18,
         .h = 1,
         .w = 151,
         .o = 10,
         .kh = 1,
         .kw = 9});
}

TEST_P(Conv2dWeightGrad, any_layout_and_storage) {
  check({.problem = {.x = DType::bf16, .w = DType::f16, .y = DType::bf16, .pad = {1, 0}},
         .n = 2,
         .c = 9,
         .h = 8,
         .w = 9,
         .o = 40,
         .kh = 3,
         .kw = 2,
         .x_order = {0, 2, 3, 1},
         .w_order = {1, 0, 3, 2},
         .y_order = {0, 2, 3, 1}});
  check({.problem = {.x = DType::f64, .w = DType::f64, .y = DType::f64, .stride = {2, 1}},
         .n = 2,
         .c = 5,
         .h = 9,
         .w = 9,
         .o = 7,
         .kh = 2,
         .kw = 3,
         .y_order = {1, 0, 3, 2}});
}

TEST_P(Conv2dWeightGrad, thin_groups) {
  // Several blocks of rows; several channels on either side; more taps than sums at once.
  check({.problem = {.pad = {1, 1}, .groups = 2},
         .c = 2,
         .h = 70,
         .w = 131,
         .o = 2,
         .kh = 3,
         .kw = 3});
  check({.problem = {.pad = {3, 3}, .groups = 3},
         .n = 2,
         .c = 6,
         .h = 14,
         .w = 9,
         .o = 9,
         .kh = 7,
         .kw = 7});
  check({.problem = {.dilation = {2, 3}, .pad = {0, 4}, .groups = 2},
         .n = 3,
         .c = 4,
         .h = 9,
         .w = 16,
         .o = 16,
         .kh = 3,
         .kw = 2});
  check({.problem = {.stride = {3, 2}, .pad = {1, 2}, .groups = 4},
         .n = 2,
         .c = 4,
         .h = 13,
         .w = 20,
         .o = 4,
         .kh = 5,
         .kw = 5});
  check({.problem = {.stride = {2, 3}, .groups = 2},
         .n = 2,
         .c = 2,
         .h = 9,
         .w = 10,
         .o = 4,
         .kh = 1,
         .kw = 2});
}

TEST_P(Conv2dWeightGrad, thin_groups_of_small_images) {
  check({.problem = {.pad = {5, 6}, .groups = 2},
         .n = 2,
         .c = 2,
         .h = 3,
         .w = 2,
         .o = 2,
         .kh = 2,
         .kw = 3});
  check({.problem =
             {.x = DType::bf16, .w = DType::bf16, .y = DType::bf16, .pad = {1, 1}, .groups = 5},
         .n = 3,
         .c = 5,
         .h = 7,
         .w = 7,
         .o = 5,
         .kh = 3,
         .kw = 3});
  check({.problem = {.pad = {1, 1}, .groups = 3},
         .n = 2,
         .c = 3,
         .h = 7,
         .w = 6,
         .o = 3,
         .kh = 3,
         .kw = 3,
         .x_order = {0, 2, 3, 1},
         .y_order = {0, 2, 3, 1}});
}

TEST_P(Conv2dWeightGrad, single_channels_with_few_taps) {
  for (const Case& t : single_channels_with_few_taps()) check(t);
}

TEST_P(Conv2dWeightGrad, an_infinity_reaches_only_the_taps_that_read_it) {
  kernels::Conv2dProblem p;
  p.pad = {1, 1};
  p.groups = 2;
  HostTensor x(DType::f32, {1, 2, 3, 3}), g(DType::f32, {1, 2, 3, 3}), dw(DType::f32, {2, 1, 3, 3});
  for (i64 i = 0; i < 18; ++i) {
    x.set(i, 1);
    g.set(i, 1);
  }
  x.set(2, HUGE_VAL);  // first row, last column
  const std::vector<i64> dims = {1, 2, 3, 3, 2, 3, 3, 3, 3, 18, 9, 3, 1, 9, 9, 3, 1, 18, 9, 3, 1};
  run_in_steps(make_conv2d_weight_grad(p, GetParam()), {x.data(), g.data(), dw.data()}, dims, 2,
               kernels::conv2d_weight_grad_scratch_bytes(p).constant(), 2);
  const double inf = HUGE_VAL;
  const double with[] = {4, inf, inf, 6, inf, inf, 4, 6, 4},
               without[] = {4, 6, 4, 6, 9, 6, 4, 6, 4};
  for (i64 t = 0; t < 9; ++t) {
    EXPECT_EQ(dw.get(t), with[t]) << "tap " << t;
    EXPECT_EQ(dw.get(9 + t), without[t]) << "tap " << t;
  }
}

TEST_P(Conv2dWeightGrad, of_no_images_is_zero) {
  check({.n = 0, .c = 2, .h = 3, .w = 3, .o = 5, .kh = 2, .kw = 2});
}

GEX_FOR_EACH_VARIANT(Conv2dWeightGrad);

}  // namespace
}  // namespace gex::test
