#include "kernels/conv2d.hpp"

#include "kernels/bind.hpp"
#include "kernels/conv_tiles.hpp"

namespace gex::kernels {

Hash Conv2dProblem::hash() const {
  const std::int64_t fields[] = {static_cast<std::int64_t>(x),
                                 static_cast<std::int64_t>(w),
                                 static_cast<std::int64_t>(y),
                                 stride[0],
                                 stride[1],
                                 dilation[0],
                                 dilation[1],
                                 pad[0],
                                 pad[1],
                                 groups};
  return hash_bytes(fields, sizeof fields);
}

Dim conv2d_grid(const Conv2dProblem& problem, Dim images, Dim out_channels, Dim out_h, Dim out_w) {
  return images * problem.groups *
         ceildiv(floordiv(out_channels, problem.groups), kConvUnitChannels) *
         ceildiv(out_h * out_w, kConvUnitPixels);
}

Dim conv2d_scratch_bytes(const Conv2dProblem& problem) {
  return conv_scratch_bytes(accumulator_bytes(problem.x));
}

program::Callable make_conv2d(const Conv2dProblem& p, const std::optional<Epilogue>& epilogue,
                              const Variant* variant) {
  check_product_dtypes("conv2d", p.x, p.w, p.y, epilogue.has_value());
  for (int i = 0; i < 2; ++i)
    if (p.stride[i] < 1 || p.dilation[i] < 1)
      fail(ErrorCode::invalid_argument, "conv2d: stride and dilation must be at least 1, got ",
           p.stride[i], " and ", p.dilation[i]);
  if (p.groups < 1)
    fail(ErrorCode::invalid_argument, "conv2d: groups must be at least 1, got ", p.groups);
  Conv2dContext context = {p.x,
                           p.w,
                           p.y,
                           {p.stride[0], p.stride[1]},
                           {p.dilation[0], p.dilation[1]},
                           {p.pad[0], p.pad[1]},
                           p.groups,
                           epilogue_call(epilogue)};
  return bind_kernel(choose_variant(variant).conv2d, context, epilogue);
}

}  // namespace gex::kernels
