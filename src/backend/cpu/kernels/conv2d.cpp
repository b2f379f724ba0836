#include "backend/cpu/kernels/conv2d.hpp"

#include <array>

#include "backend/cpu/kernels/bind.hpp"
#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/integer_conv2d.hpp"

namespace gex::kernels {

namespace {

std::int64_t panel_channels(const Conv2dProblem& p) { return kPanelBytes / accumulator_bytes(p.x); }

bool has_packed_form(const Conv2dProblem& p) {
  return p.w == (p.x == DType::f64 ? DType::f64 : DType::f32);
}

Conv2dContext context_of(const Conv2dProblem& p) {
  return {p.x,
          p.w,
          p.y,
          {p.stride[0], p.stride[1]},
          {p.dilation[0], p.dilation[1]},
          {p.pad[0], p.pad[1]},
          {p.up[0], p.up[1]},
          p.groups,
          p.w_packed,
          p.winograd,
          Form::by_rule,
          {},
          {}};
}

bool is_transposed(const Conv2dProblem& p) { return p.up != std::array<std::int64_t, 2>{1, 1}; }

void check_geometry(const Conv2dProblem& p) {
  for (int i = 0; i < 2; ++i)
    if (p.stride[i] < 1 || p.dilation[i] < 1)
      fail(ErrorCode::invalid_argument, "conv2d: stride and dilation must be at least 1, got ",
           p.stride[i], " and ", p.dilation[i]);
  for (int i = 0; i < 2 && is_transposed(p); ++i)
    if (p.up[i] < 1 || p.stride[i] != 1 || p.dilation[i] != 1 || p.groups != 1)
      fail(ErrorCode::invalid_argument,
           "conv2d: a transposed convolution has strides and dilations of 1 and one group, got ",
           p.stride[i], ", ", p.dilation[i], " and ", p.groups);
  if (p.groups < 1)
    fail(ErrorCode::invalid_argument, "conv2d: groups must be at least 1, got ", p.groups);
}

}  // namespace

Dim conv2d_grid(const Conv2dProblem& problem, Dim images, Dim out_channels, Dim out_h, Dim out_w) {
  return images * problem.groups *
         ceildiv(floordiv(out_channels, problem.groups), kConvUnitChannels) *
         ceildiv(out_h * out_w, kConvUnitPixels);
}

Dim conv2d_scratch_bytes(const Conv2dProblem& problem) {
  return conv_scratch_bytes(accumulator_bytes(problem.x)) +
         staged_bytes(problem.x_computed, problem.x);
}

program::Callable make_conv2d(const Conv2dProblem& p, const Attached& attached,
                              const Variant* variant, Form form) {
  if (is_integer_product(p)) return make_integer_conv2d(p, attached);
  check_product_dtypes("conv2d", p.x, p.w, p.y, attached.epilogue.has_value());
  check_geometry(p);
  GEX_CHECK(!p.w_packed || has_packed_form(p), "packed weights of ", p.w);
  Conv2dContext context = context_of(p);
  context.form = form;
  context.epilogue = epilogue_call(attached.epilogue);
  context.prologue = prologue_call(attached, p.x_computed, 0);
  return bind_kernel(choose_variant(variant).conv2d, context, attached);
}

std::optional<ConvSizes> conv2d_constant_sizes(const Conv2dProblem& p,
                                               std::span<const Dim> launch_dims) {
  namespace at = conv2d_dims;
  std::array<std::int64_t, at::count> d{};
  for (int k = 0; k < at::count; ++k) {
    const Dim dim = launch_dims[static_cast<std::size_t>(k)];
    const bool needed = k < at::x_strides ? k != at::n : k >= at::w_strides && k < at::y_strides;
    if (needed && !dim.is_const()) return std::nullopt;
    d[static_cast<std::size_t>(k)] = dim.as_const().value_or(0);
  }
  return conv_sizes(p.x, {p.stride[0], p.stride[1]}, {p.dilation[0], p.dilation[1]},
                    {p.pad[0], p.pad[1]}, {p.up[0], p.up[1]}, p.groups, p.x_computed, d.data());
}

bool conv2d_packs_weights(const Conv2dProblem& problem, const ConvSizes& sizes) {
  return has_packed_form(problem) && (problem.winograd || reads_panels(sizes.by_rule()));
}

Dim conv2d_pack_grid(const Conv2dProblem& problem, Dim out_channels) {
  return ceildiv(floordiv(out_channels, problem.groups), panel_channels(problem)) * problem.groups;
}

std::vector<std::int64_t> conv2d_pack_dims(const Conv2dProblem& p, DType source,
                                           const ConvSizes& sizes,
                                           std::span<const std::int64_t, 4> w_strides) {
  std::vector<std::int64_t> dims = {sizes.out * p.groups, sizes.in, sizes.kernel_h, sizes.kernel_w};
  dims.insert(dims.end(), w_strides.begin(), w_strides.end());
  dims.push_back(p.winograd ? 1 : 0);
  for (const auto& values : {p.up, p.pad})
    for (const std::int64_t value : values) dims.push_back(is_transposed(p) ? value : 0);
  dims.push_back(static_cast<std::int64_t>(source));
  return dims;
}

Dim conv2d_packed_elements(const Conv2dProblem& problem, Dim out_channels, Dim depth) {
  if (problem.winograd) depth = floordiv(depth, 9) * kWinogradPositions;
  return conv2d_pack_grid(problem, out_channels) * panel_channels(problem) * depth;
}

program::Callable make_conv2d_pack(const Conv2dProblem& problem, const Variant* variant) {
  if (is_integer_product(problem)) return make_integer_conv2d_pack(problem);
  GEX_CHECK(has_packed_form(problem), "packed weights of ", problem.w);
  return bind_kernel(choose_variant(variant).conv2d_pack, context_of(problem));
}

Dim conv2d_weight_grad_grid(const Conv2dProblem& problem, Dim out_channels, Dim taps) {
  return problem.groups * ceildiv(taps, kUnitRows) *
         ceildiv(floordiv(out_channels, problem.groups), kUnitCols);
}

Dim conv2d_weight_grad_scratch_bytes(const Conv2dProblem& problem) {
  return tile_scratch_bytes(problem.x);
}

program::Callable make_conv2d_weight_grad(const Conv2dProblem& p, const Variant* variant) {
  check_product_dtypes("conv2d_weight_grad", p.x, p.w, p.y, false);
  check_geometry(p);
  return bind_kernel(choose_variant(variant).conv2d_weight_grad, context_of(p));
}

Dim conv2d_input_grad_grid(Dim images, Dim channels) { return images * channels; }

Dim conv2d_input_grad_scratch_bytes(const Conv2dProblem& problem) {
  return tile_scratch_bytes(problem.y);
}

program::Callable make_conv2d_input_grad(const Conv2dProblem& p, const Variant* variant) {
  check_product_dtypes("conv2d_input_grad", p.y, p.w, p.x, false);
  check_geometry(p);
  return bind_kernel(choose_variant(variant).conv2d_input_grad, context_of(p));
}

}  // namespace gex::kernels
