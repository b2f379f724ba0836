#include "conv_case.hpp"

namespace gex::test {
namespace {

// Its y is the incoming gradient, its x the result.
using Case = ConvCase;

class Conv2dInputGrad : public testing::TestWithParam<const kernels::Variant*> {
 protected:
  std::mt19937 rng{13};

  void check(const Case& t) {
    const auto& p = t.problem;
    const i64 oh = t.out_size(0), ow = t.out_size(1);
    const i64 group_in = t.c / p.groups, group_out = t.o / p.groups;
    const auto xs = strides_in_order(t.x_sizes(), t.x_order),
               gs = strides_in_order(t.y_sizes(), t.y_order),
               ws = strides_in_order(t.w_sizes(), t.w_order);
    HostTensor dx = random_tensor(rng, p.x, extent(t.x_sizes(), xs));
    HostTensor w = random_tensor(rng, p.w, extent(t.w_sizes(), ws));
    HostTensor g = random_tensor(rng, p.y, extent(t.y_sizes(), gs));
    const std::vector<i64> dims = t.dims(xs, ws, gs);
    const i64 grid = kernels::conv2d_input_grad_grid(t.n, t.c).constant();
    const i64 scratch = kernels::conv2d_input_grad_scratch_bytes(p).constant();
    const auto kernel = make_conv2d_input_grad(p, GetParam());
    const std::vector<void*> buffers = {g.data(), w.data(), dx.data()};
    run_in_steps(kernel, buffers, dims, grid, scratch, std::max<i64>(grid, 1));
    const auto wv = numbers(w), gv = numbers(g);
    std::vector<Sum> sums(static_cast<std::size_t>(extent(t.x_sizes(), xs)));
    for (i64 n = 0; n < t.n; ++n)
      for (i64 o = 0; o < t.o; ++o)
        for (i64 y = 0; y < oh; ++y)
          for (i64 x = 0; x < ow; ++x)
            for (i64 c = 0; c < group_in; ++c)
              for (i64 ky = 0; ky < t.kh; ++ky)
                for (i64 kx = 0; kx < t.kw; ++kx)
                  if (const auto pixel = t.pixel(y, x, ky, kx)) {
                    const i64 channel = o / group_out * group_in + c;
                    const i64 at = place(xs, n, channel, pixel->first, pixel->second);
                    sums[static_cast<std::size_t>(at)].add(gv[place(gs, n, o, y, x)] *
                                                           wv[place(ws, o, c, ky, kx)]);
                  }
    for (std::size_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(
          dx.get(static_cast<i64>(i)), sums[i].value,
          t.tolerance(sums[i].value, sums[i].magnitude) + std::fabs(sums[i].value) * unit_of(p.x))
          << "element " << i << " of n " << t.n << " c " << t.c << " o " << t.o << " " << t.h << "x"
          << t.w << " taps " << t.kh << " pad " << p.pad[0] << "x" << p.pad[1] << " of " << p.y;
    const HostTensor whole = dx;
    for (const i64 step : {1, 3}) {
      run_in_steps(kernel, buffers, dims, grid, scratch, step);
      ASSERT_EQ(whole, dx) << "differs in steps of " << step;
    }
  }
};

TEST_P(Conv2dInputGrad, rows_of_any_length_and_any_padding) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  int at = 0;
  for (const i64 taps : {3, 5})
    for (const i64 width : {5, 8, 14, 15, 16, 31, 32, 33, 70})
      for (const i64 pad : {0, 1, 2, 7}) {
        const DType d = dtypes[at % 4];
        const i64 multiplier = at % 3 == 2 ? 2 : 1;
        check({.problem = {.x = d,
                           .w = d,
                           .y = d,
                           .stride = {2, 2},
                           .pad = {(pad + at) % 3, pad},
                           .groups = 3},
               .n = 2,
               .c = 3,
               .h = 5 + at % 4,
               .w = width,
               .o = 3 * multiplier,
               .kh = taps,
               .kw = taps});
        ++at;
      }
}

TEST_P(Conv2dInputGrad, groups_of_several_channels_and_other_layouts) {
  check({.problem = {.stride = {2, 2}, .pad = {1, 1}, .groups = 2},
         .n = 2,
         .c = 6,
         .h = 9,
         .w = 20,
         .o = 16,
         .kh = 3,
         .kw = 3});
  check({.problem = {.stride = {2, 2}, .pad = {2, 2}, .groups = 2},
         .n = 2,
         .c = 16,
         .h = 6,
         .w = 7,
         .o = 4,
         .kh = 5,
         .kw = 5,
         .x_order = {0, 2, 3, 1},
         .w_order = {1, 0, 3, 2},
         .y_order = {1, 0, 2, 3}});
  // More rows than are finished at a time, and some after the last window.
  check({.problem = {.stride = {2, 2}, .pad = {1, 1}, .groups = 1},
         .c = 1,
         .h = 61,
         .w = 150,
         .o = 1,
         .kh = 3,
         .kw = 3,
         .pad_after = {0, 0}});
}

TEST_P(Conv2dInputGrad, sums_of_bf16_leave_as_f32) {
  check({.problem = {.x = DType::f32,
                     .w = DType::bf16,
                     .y = DType::bf16,
                     .stride = {2, 2},
                     .pad = {1, 1},
                     .groups = 4},
         .n = 1,
         .c = 4,
         .h = 10,
         .w = 10,
         .o = 4,
         .kh = 3,
         .kw = 3});
}

GEX_FOR_EACH_VARIANT(Conv2dInputGrad);

}  // namespace
}  // namespace gex::test
