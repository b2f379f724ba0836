#include "backend/cpu/kernels/conv2d.hpp"

#include "base/error.hpp"
#include "conv_case.hpp"

namespace gex::test {
namespace {

using kernels::Conv2dProblem;

using Case = ConvCase;

struct Operands {
  HostTensor x, w, y;
  std::vector<double> x_numbers, w_numbers;
  std::vector<i64> xs, ws, ys, dims;
  i64 oh, ow, grid, scratch;

  Operands(const Case& t, std::mt19937& rng) : oh(t.out_size(0)), ow(t.out_size(1)) {
    xs = strides_in_order(t.x_sizes(), t.x_order);
    ws = strides_in_order(t.w_sizes(), t.w_order);
    ys = strides_in_order(t.y_sizes(), t.y_order);
    x = random_tensor(rng, t.problem.x, extent(t.x_sizes(), xs));
    w = random_tensor(rng, t.problem.w, extent(t.w_sizes(), ws));
    y = random_tensor(rng, t.problem.y, extent(t.y_sizes(), ys));
    x_numbers = numbers(x);
    w_numbers = numbers(w);
    dims = t.dims(xs, ws, ys);
    grid = conv2d_grid(t.problem, t.n, t.o, oh, ow).constant();
    scratch = conv2d_scratch_bytes(t.problem).constant();
  }
};

Sum reference(const Case& t, const Operands& v, i64 n, i64 o, i64 oy, i64 ox) {
  const auto& p = t.problem;
  const i64 per_group = t.c / p.groups, group = o / (t.o / p.groups);
  Sum sum;
  for (i64 c = 0; c < per_group; ++c)
    for (i64 ky = 0; ky < t.kh; ++ky)
      for (i64 kx = 0; kx < t.kw; ++kx) {
        const auto pixel = t.pixel(oy, ox, ky, kx);
        if (!pixel) continue;
        const auto [iy, ix] = *pixel;
        sum.add(v.x_numbers[place(v.xs, n, group * per_group + c, iy, ix)] *
                v.w_numbers[place(v.ws, o, c, ky, kx)]);
      }
  return sum;
}

std::string describe(const Case& t) {
  const auto& p = t.problem;
  return str(p.x, "*", p.w, "->", p.y, " n ", t.n, " c ", t.c, " h ", t.h, " w ", t.w, " o ", t.o,
             " kernel ", t.kh, "x", t.kw, " stride ", p.stride[0], "x", p.stride[1], " pad ",
             p.pad[0], "x", p.pad[1], " dilation ", p.dilation[0], "x", p.dilation[1], " up ",
             p.up[0], "x", p.up[1], " groups ", p.groups);
}

class Conv2d : public testing::TestWithParam<const kernels::Variant*> {
 protected:
  std::mt19937 rng{11};

  // Weights packed ahead of time change nothing.
  void check_packed(const Case& t, Operands& v, const HostTensor& whole) {
    Conv2dProblem p = t.problem;
    const kernels::ConvSizes sizes = kernels::conv_sizes(
        p.x, {p.stride[0], p.stride[1]}, {p.dilation[0], p.dilation[1]}, {p.pad[0], p.pad[1]},
        {p.up[0], p.up[1]}, p.groups, false, v.dims.data());
    const DType source = p.w;
    if (p.x != DType::f64 && source != DType::f64) p.w = DType::f32;
    p.winograd = sizes.winograd_pays();
    if (!conv2d_packs_weights(p, sizes)) return;
    ++packed_cases;
    const std::vector<i64> dims =
        conv2d_pack_dims(p, source, sizes, std::span<const i64, 4>(v.ws.data(), 4));
    HostTensor packed =
        random_tensor(rng, p.w, conv2d_packed_elements(p, t.o, sizes.depth()).constant());
    run_in_steps(make_conv2d_pack(p, GetParam()), {v.w.data(), packed.data()}, dims,
                 conv2d_pack_grid(p, t.o).constant(), 0, 2);
    p.w_packed = true;
    if (p.winograd) return check_winograd(t, v, p, packed);
    HostTensor y = random_tensor(rng, p.y, v.y.numel());
    HostTensor expected = y;
    const std::vector<void*> buffers = {v.x.data(), packed.data(), y.data()};
    run_in_steps(make_conv2d(p, std::nullopt, GetParam()), buffers, v.dims, v.grid, v.scratch, 3);
    for (i64 n = 0; n < t.n; ++n)
      for (i64 o = 0; o < t.o; ++o)
        for (i64 i = 0; i < v.oh * v.ow; ++i) {
          const i64 at = place(v.ys, n, o, i / v.ow, i % v.ow);
          expected.set(at, whole.get(at));
        }
    ASSERT_EQ(expected, y) << describe(t) << " differs with packed weights";
  }

  // Transformed weights: within a bound of the direct sums, the same bits for every split.
  void check_winograd(const Case& t, Operands& v, const Conv2dProblem& p, HostTensor& packed) {
    ++winograd_cases;
    const HostTensor direct = v.y;
    const std::vector<void*> buffers = {v.x.data(), packed.data(), v.y.data()};
    const auto kernel = make_conv2d(p, std::nullopt, GetParam());
    run_in_steps(kernel, buffers, v.dims, v.grid, v.scratch, std::max<i64>(v.grid, 1));
    check_against_reference(t, v, 4);
    const HostTensor whole = v.y;
    for (const i64 step : {1, 7}) {
      run_in_steps(kernel, buffers, v.dims, v.grid, v.scratch, step);
      ASSERT_EQ(whole, v.y) << describe(t) << " differs in steps of " << step;
    }
    v.y = direct;
  }

  int winograd_cases = 0;
  int packed_cases = 0, computed_cases = 0;

  // Computed by a prologue: the same images, for any split.
  void check_computed(Case t, Operands& v) {
    const bool as_summed = t.problem.x == DType::f32 || t.problem.x == DType::f64;
    if (t.problem.groups != 1 || !as_summed || v.xs[3] != 1) return;
    ++computed_cases;
    t.problem.x_computed = true;
    kernels::Attached attached;
    attached.prologues.push_back(read_from_memory(t.problem.x, 0, 3));
    const auto kernel = make_conv2d(t.problem, attached, GetParam());
    const std::vector<void*> buffers = {nullptr, v.w.data(), v.y.data(), v.x.data()};
    const i64 scratch = conv2d_scratch_bytes(t.problem).constant();
    run_in_steps(kernel, buffers, v.dims, v.grid, scratch, std::max<i64>(v.grid, 1));
    check_against_reference(t, v);
    const HostTensor whole = v.y;
    run_in_steps(kernel, buffers, v.dims, v.grid, scratch, 1);
    ASSERT_EQ(whole, v.y) << describe(t) << " differs where images are computed";
  }

  void check(const Case& t) {
    Operands v(t, rng);
    const auto kernel = make_conv2d(t.problem, std::nullopt, GetParam());
    const std::vector<void*> buffers = {v.x.data(), v.w.data(), v.y.data()};
    run_in_steps(kernel, buffers, v.dims, v.grid, v.scratch, std::max<i64>(v.grid, 1));
    check_against_reference(t, v);
    const HostTensor whole = v.y;
    check_packed(t, v, whole);
    for (const i64 step : {1, 3}) {
      run_in_steps(kernel, buffers, v.dims, v.grid, v.scratch, step);
      ASSERT_EQ(whole, v.y) << describe(t) << " differs in steps of " << step;
    }
    check_computed(t, v);
  }

  // `slack`: times the error of direct sums.
  static void check_against_reference(const Case& t, const Operands& v, double slack = 1) {
    for (i64 n = 0; n < t.n; ++n)
      for (i64 o = 0; o < t.o; ++o)
        for (i64 y = 0; y < v.oh; ++y)
          for (i64 x = 0; x < v.ow; ++x) {
            const Sum want = reference(t, v, n, o, y, x);
            ASSERT_NEAR(v.y.get(place(v.ys, n, o, y, x)), want.value,
                        slack * t.tolerance(want.value, want.magnitude))
                << describe(t) << " at " << n << "," << o << "," << y << "," << x;
          }
  }
};

TEST_P(Conv2d, common_shapes) {
  check({.problem = {.pad = {1, 1}}, .n = 2, .c = 3, .h = 19, .w = 23, .o = 16, .kh = 3, .kw = 3});
  check({.problem = {.stride = {2, 2}, .pad = {3, 3}},
         .c = 3,
         .h = 33,
         .w = 40,
         .o = 8,
         .kh = 7,
         .kw = 7});
  check({.c = 70, .h = 9, .w = 50, .o = 110, .kh = 1, .kw = 1});
  check({.problem = {.stride = {2, 2}}, .c = 20, .h = 9, .w = 11, .o = 12, .kh = 1, .kw = 1});
  check({.problem = {.pad = {1, 1}}, .c = 40, .h = 7, .w = 7, .o = 101, .kh = 3, .kw = 3});
  EXPECT_EQ(computed_cases, 5);
}

TEST_P(Conv2d, pixels_as_rows) {
  // More input than one padded copy holds, with a kernel of several slices of K.
  check({.problem = {.pad = {1, 1}}, .c = 40, .h = 64, .w = 64, .o = 16, .kh = 3, .kw = 3});
  // Read in place: whole images, with steps, and the corner of an image.
  check({.c = 33, .h = 20, .w = 21, .o = 64, .kh = 1, .kw = 1});
  check({.problem = {.stride = {2, 3}}, .c = 9, .h = 23, .w = 31, .o = 32, .kh = 3, .kw = 2});
  // Split by channel and by pixel, with remainders of both.
  check({.problem = {.pad = {1, 1}}, .n = 2, .c = 64, .h = 20, .w = 20, .o = 47, .kh = 3, .kw = 3});
  check({.problem = {.pad = {1, 1}}, .c = 8, .h = 21, .w = 20, .o = 95, .kh = 3, .kw = 3});
  // Wide groups, weights with channels last, 16-bit storage.
  check({.problem = {.x = DType::bf16, .w = DType::f16, .pad = {2, 0}, .groups = 2},
         .c = 20,
         .h = 6,
         .w = 9,
         .o = 96,
         .kh = 5,
         .kw = 1,
         .x_order = {0, 2, 3, 1},
         .w_order = {0, 2, 3, 1}});
  check({.problem = {.pad = {1, 1}, .groups = 2},
         .c = 20,
         .h = 6,
         .w = 9,
         .o = 2 * 47,
         .kh = 3,
         .kw = 3,
         .w_order = {0, 2, 3, 1}});
  EXPECT_EQ(packed_cases, 7);
}

// Whole and partial tiles, channels and rows of tiles that are split into blocks; borders of any
// width, images with channels last, results with gaps.
TEST_P(Conv2d, three_by_three_by_winograd) {
  const Conv2dProblem same = {.pad = {1, 1}};
  check({.problem = same, .n = 2, .c = 32, .h = 20, .w = 17, .o = 48, .kh = 3, .kw = 3});
  check({.problem = same, .c = 33, .h = 31, .w = 30, .o = 35, .kh = 3, .kw = 3});
  check({.problem = {.pad = {0, 0}}, .c = 64, .h = 16, .w = 22, .o = 40, .kh = 3, .kw = 3});
  check({.problem = {.pad = {2, 0}}, .c = 270, .h = 14, .w = 13, .o = 32, .kh = 3, .kw = 3});
  check({.problem = same, .c = 40, .h = 6, .w = 420, .o = 40, .kh = 3, .kw = 3});
  check({.problem = same,
         .n = 2,
         .c = 40,
         .h = 18,
         .w = 18,
         .o = 64,
         .kh = 3,
         .kw = 3,
         .x_order = {0, 2, 3, 1},
         .w_order = {0, 2, 3, 1},
         .y_order = {0, 2, 3, 1}});
  for (const DType d : {DType::bf16, DType::f16})
    check({.problem = {.x = d, .w = d, .y = d, .pad = {1, 1}},
           .c = 35,
           .h = 19,
           .w = 33,
           .o = 48,
           .kh = 3,
           .kw = 3});
  EXPECT_EQ(winograd_cases, 8);
}

TEST_P(Conv2d, transposed_phase_by_phase) {
  const Conv2dProblem twice = {.pad = {1, 1}, .up = {2, 2}};
  check({.problem = twice, .n = 2, .c = 33, .h = 5, .w = 7, .o = 40, .kh = 4, .kw = 4});
  // Phases with different numbers of taps, with none, and results beyond the last window.
  check(
      {.problem = twice, .c = 9, .h = 6, .w = 20, .o = 17, .kh = 3, .kw = 3, .pad_after = {0, 0}});
  check({.problem = {.up = {3, 2}}, .c = 5, .h = 4, .w = 9, .o = 33, .kh = 2, .kw = 1});
  check(
      {.problem = {.pad = {4, 0}, .up = {2, 3}}, .c = 7, .h = 9, .w = 4, .o = 8, .kh = 5, .kw = 5});
  // Rows of the result that are longer than a window; one step of one; more than one copy holds.
  check({.problem = {.pad = {0, 4}, .up = {1, 8}},
         .c = 24,
         .h = 1,
         .w = 90,
         .o = 12,
         .kh = 1,
         .kw = 16});
  check({.problem = twice, .c = 8, .h = 3, .w = 500, .o = 16, .kh = 4, .kw = 4});
  check({.problem = {.up = {2, 2}}, .c = 600, .h = 12, .w = 14, .o = 35, .kh = 4, .kw = 4});
  // Channels last, a border after the last pixel alone, other numbers.
  check({.problem = {.pad = {0, 1}, .up = {2, 2}},
         .n = 2,
         .c = 18,
         .h = 7,
         .w = 6,
         .o = 9,
         .kh = 3,
         .kw = 4,
         .pad_after = {2, 0},
         .x_order = {0, 2, 3, 1},
         .w_order = {1, 0, 2, 3},
         .y_order = {0, 2, 3, 1}});
  for (const DType d : {DType::bf16, DType::f64})
    check({.problem = {.x = d, .w = d, .y = d, .pad = {1, 1}, .up = {2, 2}},
           .c = 20,
           .h = 9,
           .w = 8,
           .o = 24,
           .kh = 4,
           .kw = 4});
  EXPECT_EQ(packed_cases, 10);
  EXPECT_EQ(computed_cases, 8);
}

// 1x1 kernels over planes of whole and partial vectors, read where they lie.
TEST_P(Conv2d, shallow_products_of_whole_planes) {
  for (const auto& [h, w] : std::vector<std::pair<i64, i64>>{{1, 16}, {14, 14}, {21, 19}, {24, 36}})
    for (const i64 c : {1, 24, 130})
      for (const i64 o : {5, 24, 33, 70}) {
        check({.n = 2, .c = c, .h = h, .w = w, .o = o, .kh = 1, .kw = 1});
        if (c == 24 && o == 70)
          check({.problem = {.x = DType::f64, .w = DType::f64, .y = DType::f64, .groups = 2},
                 .c = c,
                 .h = h,
                 .w = w,
                 .o = o,
                 .kh = 1,
                 .kw = 1});
      }
  EXPECT_GT(packed_cases, 0);
}

// As those of 1-d convolutions are: some columns are copied at a time.
// Fewer output channels than vectors need for independent sums, over one and over many slices of K.
TEST_P(Conv2d, results_of_few_channels) {
  for (const i64 o : {1, 2, 3, 4, 5}) {
    check({.n = 2, .c = 65, .h = 19, .w = 23, .o = o, .kh = 1, .kw = 1});
    check({.c = 300, .h = 5, .w = 97, .o = o, .kh = 1, .kw = 1});
    check({.problem = {.pad = {1, 1}}, .c = 40, .h = 9, .w = 140, .o = o, .kh = 3, .kw = 3});
  }
}

TEST_P(Conv2d, groups_of_some_channels) {
  for (const i64 stride : {1, 2})
    for (const i64 taps : {3, 5})
      for (const auto& [in, out] : {std::pair<i64, i64>{4, 4}, {8, 8}, {8, 3}, {2, 8}, {3, 5}})
        check({.problem = {.stride = {stride, stride}, .pad = {1, 2}, .groups = 3},
               .n = 2,
               .c = 3 * in,
               .h = 13,
               .w = 37,
               .o = 3 * out,
               .kh = taps,
               .kw = taps});
}

TEST_P(Conv2d, rows_too_long_to_be_copied_whole) {
  for (const i64 stride : {1, 2})
    for (const i64 dilation : {1, 3}) {
      const Conv2dProblem line = {
          .stride = {1, stride}, .dilation = {1, dilation}, .pad = {0, dilation}};
      check({.problem = line, .c = 200, .h = 1, .w = 1100, .o = 33, .kh = 1, .kw = 3});
      const Conv2dProblem rows = {
          .stride = {stride, stride}, .dilation = {1, dilation}, .pad = {1, 2}};
      check({.problem = rows, .c = 100, .h = 4, .w = 600, .o = 16, .kh = 3, .kw = 3});
    }
  Conv2dProblem halves = {DType::bf16, DType::bf16, DType::f32};
  halves.pad[1] = 1;
  check({.problem = halves, .c = 200, .h = 1, .w = 900, .o = 16, .kh = 1, .kw = 3});
  EXPECT_GT(packed_cases, 0);
  EXPECT_GT(computed_cases, 0);
}

TEST_P(Conv2d, deeper_than_packed_weights_may_be) {
  check({.problem = {.pad = {1, 1}}, .c = 600, .h = 3, .w = 4, .o = 40, .kh = 3, .kw = 3});
}

TEST_P(Conv2d, depthwise_and_thin_groups) {
  for (const i64 stride : {1, 2})
    for (const i64 multiplier : {1, 2, 4})
      check(
          {.problem = {.stride = {stride, stride}, .dilation = {1, 2}, .pad = {1, 2}, .groups = 6},
           .n = 2,
           .c = 6,
           .h = 13,
           .w = 29,
           .o = 6 * multiplier,
           .kh = 3,
           .kw = 3});
  check({.problem = {.pad = {0, 1}}, .c = 5, .h = 2, .w = 500, .o = 2, .kh = 1, .kw = 3});
}

TEST_P(Conv2d, single_channels_with_few_taps) {
  for (const Case& t : single_channels_with_few_taps()) check(t);
  // More rows than are finished at a time.
  check({.problem = {.pad = {1, 1}, .groups = 1},
         .c = 1,
         .h = 70,
         .w = 131,
         .o = 1,
         .kh = 3,
         .kw = 3});
}

TEST_P(Conv2d, thin_groups_plane_by_plane) {
  // Several blocks of rows; a border wider than the kernel; channels on either side; rows with
  // gaps.
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
         .o = 8,
         .kh = 3,
         .kw = 2});
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
         .h = 30,
         .w = 6,
         .o = 3,
         .kh = 3,
         .kw = 3,
         .x_order = {2, 0, 1, 3},
         .y_order = {2, 1, 0, 3}});
  check({.problem = {.groups = 2}, .n = 2, .c = 2, .h = 5, .w = 40, .o = 4, .kh = 2, .kw = 1});
}

// A channel in each lane: planes of a few pixels and of several strips, groups of channels that end
// in the middle of an image, rows that are cut by the border, any stride and dilation.
TEST_P(Conv2d, depthwise_with_a_channel_in_each_lane) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  int i = 0;
  for (const i64 kernel : {2, 5, 7})
    for (const i64 stride : {1, 2, 3})
      for (const auto& [h, w] : std::vector<std::pair<i64, i64>>{{1, 3}, {5, 5}, {30, 9}})
        for (const i64 pad : {i64{0}, kernel / 2, kernel + 1}) {
          const DType d = dtypes[i++ % 4];
          Case t{.problem = {.x = d,
                             .w = d,
                             .y = d == DType::f64 ? d : DType::f32,
                             .stride = {stride, stride},
                             .dilation = {1, i % 2 + 1},
                             .pad = {pad, pad},
                             .groups = 21},
                 .n = 2,
                 .c = 21,
                 .h = h,
                 .w = w,
                 .o = 21,
                 .kh = kernel,
                 .kw = kernel};
          if (t.out_size(0) >= 1 && t.out_size(1) >= 1) check(t);
        }
  check({.problem = {.pad = {3, 3}, .groups = 17},
         .c = 17,
         .h = 70,
         .w = 61,
         .o = 17,
         .kh = 7,
         .kw = 7});
  check({.problem = {.dilation = {1, 2}, .pad = {0, 30}, .groups = 20},
         .n = 3,
         .c = 20,
         .h = 1,
         .w = 133,
         .o = 20,
         .kh = 1,
         .kw = 31,
         .w_order = {2, 3, 0, 1},
         .y_order = {1, 0, 2, 3}});
}

// Weights times shifted rows: widths of whole and partial vectors, columns sorted by the stride,
// parts that no tap reads, more rows than fit the copy, computed images.
TEST_P(Conv2d, few_channels_by_shifted_rows) {
  for (const i64 stride : {1, 2, 3})
    for (const i64 dilation : {1, 2})
      for (const i64 width : {9, 32, 67})
        for (const i64 out : {3, 23}) {
          const i64 kernel = 1 + 2 * (width % 3);
          check({.problem = {.stride = {stride, stride},
                             .dilation = {dilation, dilation},
                             .pad = {kernel / 2, kernel / 2 + 1}},
                 .n = 2,
                 .c = 17,
                 .h = 11,
                 .w = width,
                 .o = out,
                 .kh = kernel,
                 .kw = kernel});
        }
  check({.problem = {.pad = {1, 1}}, .c = 20, .h = 95, .w = 95, .o = 5, .kh = 3, .kw = 3});
  check({.problem = {.x = DType::bf16, .w = DType::f16, .stride = {2, 1}, .pad = {0, 4}},
         .c = 40,
         .h = 1,
         .w = 4200,
         .o = 5,
         .kh = 1,
         .kw = 9,
         .x_order = {0, 2, 3, 1}});
  EXPECT_GT(packed_cases, 20);
  EXPECT_GT(computed_cases, 20);
}

TEST_P(Conv2d, one_dimension_and_no_output) {
  check({.problem = {.stride = {1, 3}, .pad = {0, 4}},
         .n = 2,
         .c = 17,
         .h = 1,
         .w = 151,
         .o = 9,
         .kh = 1,
         .kw = 9});
  check({.c = 2, .h = 3, .w = 3, .o = 5, .kh = 4, .kw = 1});
  check({.n = 0, .c = 2, .h = 3, .w = 3, .o = 5, .kh = 1, .kw = 1});
  check({.c = 0, .h = 3, .w = 3, .o = 5, .kh = 2, .kw = 2});
}

TEST_P(Conv2d, random_problems) {
  const DType low[] = {DType::f32, DType::f16, DType::bf16};
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {0, 2, 3, 1}, {1, 0, 3, 2}};
  for (int i = 0; i < 60; ++i) {
    Case t{.n = pick(rng, {1, 2}),
           .c = 0,
           .h = pick(rng, {1, 6, 17}),
           .w = pick(rng, {5, 16, 37}),
           .o = 0,
           .kh = pick(rng, {1, 2, 3}),
           .kw = pick(rng, {1, 3, 5})};
    auto& p = t.problem;
    p.groups = pick(rng, {1, 1, 2, 3});
    t.c = p.groups * pick(rng, {1, 3, 8});
    t.o = p.groups * pick(rng, {1, 4, 5, 13, 30});
    p.stride = {pick(rng, {1, 2}), pick(rng, {1, 2, 3})};
    p.dilation = {pick(rng, {1, 2}), pick(rng, {1, 2})};
    p.pad = {pick(rng, {0, 1, 3}), pick(rng, {0, 2, 9})};
    t.pad_after = {pick(rng, {-1, 0, 2}), pick(rng, {-1, 1, 4})};
    if (t.out_size(0) < 1 || t.out_size(1) < 1) continue;
    t.x_order = orders[rng() % orders.size()];
    t.w_order = orders[rng() % orders.size()];
    t.y_order = orders[rng() % orders.size()];
    p.x = low[rng() % 3];
    p.w = low[rng() % 3];
    p.y = low[rng() % 3];
    if (i % 5 == 0) p.x = p.w = p.y = DType::f64;
    check(t);
  }
}

// out[i] = max(0, acc[i] + bias[channel]); dims: [channels, plane]
void bias_relu(const void*, void* const* buffers, const i64* dims, i64 begin, i64 end, std::byte*) {
  const auto* acc = static_cast<const float*>(buffers[0]);
  const auto* bias = static_cast<const float*>(buffers[1]);
  auto* out = static_cast<float*>(buffers[2]);
  for (i64 i = begin; i < end; ++i) out[i] = std::max(0.0f, acc[i] + bias[i / dims[1] % dims[0]]);
}

TEST_P(Conv2d, epilogue_sees_the_dense_output_grid) {
  for (const i64 groups : {1, 4, 12, 24}) {
    const i64 kernel = groups == 24 ? 7 : 3;
    Case t{.problem = {.pad = {kernel / 2, kernel / 2}, .groups = groups},
           .n = 2,
           .c = groups == 24 ? 24 : 12,
           .h = 15,
           .w = 31,
           .o = 24,
           .kh = kernel,
           .kw = kernel};
    Operands v(t, rng);
    HostTensor bias = random_tensor(rng, DType::f32, t.o);
    HostTensor out(DType::f32, {t.n * t.o * v.oh * v.ow});
    std::vector<i64> dims = v.dims;
    dims.push_back(t.o);
    dims.push_back(v.oh * v.ow);
    const kernels::Epilogue epilogue{
        {&bias_relu, nullptr, nullptr}, 2, problems::conv2d_dims::count, 2};
    run_in_steps(make_conv2d(t.problem, epilogue, GetParam()),
                 {v.x.data(), v.w.data(), bias.data(), out.data()}, dims, v.grid, v.scratch, 5);
    i64 linear = 0;
    for (i64 n = 0; n < t.n; ++n)
      for (i64 o = 0; o < t.o; ++o)
        for (i64 y = 0; y < v.oh; ++y)
          for (i64 x = 0; x < v.ow; ++x, ++linear)
            ASSERT_NEAR(out.get(linear),
                        std::max(0.0, reference(t, v, n, o, y, x).value + bias.get(o)), 1e-4)
                << describe(t);
  }
}

GEX_FOR_EACH_VARIANT(Conv2d);

TEST(Conv2dProblem, impossible_attributes_are_refused) {
  EXPECT_THROW(kernels::make_conv2d({.stride = {0, 1}}), UserError);
  EXPECT_THROW(kernels::make_conv2d({.dilation = {1, 0}}), UserError);
  EXPECT_THROW(kernels::make_conv2d({.groups = 0}), UserError);
  EXPECT_THROW(kernels::make_conv2d({.x = DType::i8}), UserError);
}

}  // namespace
}  // namespace gex::test
