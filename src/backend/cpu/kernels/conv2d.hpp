#pragma once
// The convolution of problems/conv2d.hpp on the CPU, as an implicit matmul with a packed column
// matrix. The epilogue is called for segments of one [OH*OW] plane, or for some whole planes.

#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/form.hpp"
#include "backend/cpu/kernels/pack_dims.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "base/dim/dim.hpp"
#include "problems/conv2d.hpp"

namespace gex::kernels {

struct Variant;

using problems::Conv2dProblem;

// For floats; integer_conv2d.hpp is for integers.
Dim conv2d_grid(const Conv2dProblem& problem, Dim images, Dim out_channels, Dim out_h, Dim out_w);
// Scratch of a worker, without that of the epilogue.
Dim conv2d_scratch_bytes(const Conv2dProblem& problem);

// UserError for unsupported dtypes and for strides, dilations or groups below 1.
program::Callable make_conv2d(const Conv2dProblem& problem, const Attached& attached = {},
                              const Variant* variant = nullptr, Form form = Form::by_rule);

// The sizes of a launch, if all that matter for packed weights are constant: all but the number of
// images and the strides of the image and the result.
std::optional<ConvSizes> conv2d_constant_sizes(const Conv2dProblem& problem,
                                               std::span<const Dim> launch_dims);

// Frozen weights packed ahead of time as numbers of the accumulators' dtype, if the kernel would
// otherwise pack them in each call: panels
// [groups][ceil(O/groups/panel)][C/groups*kh*kw][panel]; or, if the problem says winograd,
// transformed weights [ceil(O/panel)][kWinogradPositions][C][panel]; or, of a transposed
// convolution, [ceil(O/panel)][phase][C][taps of the phase][panel]. Launch: buffers [W, packed],
// dims conv_pack_dims, no scratch.
bool conv2d_packs_weights(const Conv2dProblem& problem, const ConvSizes& sizes);
Dim conv2d_pack_grid(const Conv2dProblem& problem, Dim out_channels);
// For weights of dtype `source` with these strides.
std::vector<std::int64_t> conv2d_pack_dims(const Conv2dProblem& problem, DType source,
                                           const ConvSizes& sizes,
                                           std::span<const std::int64_t, 4> w_strides);
// For weights of `depth` elements for each output channel.
Dim conv2d_packed_elements(const Conv2dProblem& problem, Dim out_channels, Dim depth);
program::Callable make_conv2d_pack(const Conv2dProblem& problem, const Variant* variant = nullptr);

// The gradient of the weights.
Dim conv2d_weight_grad_grid(const Conv2dProblem& problem, Dim out_channels, Dim taps);
Dim conv2d_weight_grad_scratch_bytes(const Conv2dProblem& problem);
program::Callable make_conv2d_weight_grad(const Conv2dProblem& problem,
                                          const Variant* variant = nullptr);

// The gradient of the input, for at most kRowTaps taps and at most kRowGroup channels per group.
Dim conv2d_input_grad_grid(Dim images, Dim channels);
Dim conv2d_input_grad_scratch_bytes(const Conv2dProblem& problem);
program::Callable make_conv2d_input_grad(const Conv2dProblem& problem,
                                         const Variant* variant = nullptr);

}  // namespace gex::kernels
