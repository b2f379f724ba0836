#pragma once
// Layers of networks under GE's names: norms, pooling, convolutions, losses, attention; images are
// NCHW. And variables and control flow in GE's form.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/compat/ge_ops_shape.hpp"

namespace ge::es {

namespace detail {

inline void CheckNchw(const char* op, const char* data_format) {
  if (std::string(data_format) != "NCHW")
    throw gex::es::Error(GEX_UNSUPPORTED, std::string(op) + ": data_format is " + data_format +
                                              "; only NCHW is supported");
}
// The size along each channel, as [channels, 1, ..., 1] for an image.
inline EsTensorHolder PerChannel(const EsTensorHolder& image, const EsTensorHolder& values) {
  Sizes shape(image.rank() - 1, 1);
  shape.at(0) = values.sizes().at(0);
  return gex::es::Reshape(values, shape);
}
// Top, bottom, left and right: pads, or those of a mode.
inline Axes PadsOf(const char* op, const EsTensorHolder& x, const Axes& window, const Axes& strides,
                   const std::string& mode, const Axes& pads) {
  if (mode == "VALID") return {0, 0, 0, 0};
  if (mode == "CALCULATED") return pads;
  if (mode != "SAME")
    throw gex::es::Error(GEX_INVALID_ARGUMENT, std::string(op) + ": the padding mode '" + mode +
                                                   "' is unknown; use SAME, VALID or CALCULATED");
  const std::vector<std::int64_t> sizes = x.shape();
  Axes same;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::int64_t size = sizes.at(k + 2);
    if (size < 0)
      throw gex::es::Error(GEX_UNSUPPORTED,
                           std::string(op) + ": SAME needs known sizes, got " + x.type());
    const std::int64_t outputs = (size + strides[k] - 1) / strides[k];
    const std::int64_t all =
        std::max<std::int64_t>((outputs - 1) * strides[k] + window[k] - size, 0);
    same.push_back(all / 2);
    same.push_back(all - all / 2);
  }
  return same;
}
// Equal pads on both sides become attributes of the window op (second result); other pads are
// applied to the image.
inline std::pair<EsTensorHolder, Axes> Padded(const EsTensorHolder& x, const Axes& pads,
                                              double value) {
  if (pads.size() != 4)
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "pads are (top, bottom, left, right)");
  if (pads[0] == pads[1] && pads[2] == pads[3]) return {x, {pads[0], pads[2]}};
  return {gex::es::Pad(x, {0, 0, pads[0], pads[2]}, {0, 0, pads[1], pads[3]}, value), {0, 0}};
}

}  // namespace detail

// --- norms ---------------------------------------------------------------------------------------

struct BatchNormOutput {
  EsTensorHolder y, batch_mean, batch_variance, reserve_space_1, reserve_space_2, reserve_space_3;
};
// In training the statistics are those of the batch; otherwise they are the operands.
inline BatchNormOutput BatchNorm(const EsTensorHolder& x, const EsTensorHolder& scale,
                                 const EsTensorHolder& offset,
                                 const EsTensorHolder& mean = EsTensorHolder(),
                                 const EsTensorHolder& variance = EsTensorHolder(),
                                 float epsilon = 1e-4F, const char* data_format = "NCHW",
                                 bool is_training = true) {
  detail::CheckNchw("BatchNorm", data_format);
  if (!is_training) {
    if (mean.empty() || variance.empty())
      throw gex::es::Error(GEX_INVALID_ARGUMENT,
                           "BatchNorm: without training it needs mean and variance");
    return {gex::es::BatchNorm(x, scale, offset, mean, variance, epsilon),
            mean,
            variance,
            mean,
            variance,
            EsTensorHolder()};
  }
  Axes axes = {0};
  for (std::size_t k = 2; k < x.rank(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  const auto [spread, centre] = gex::es::Variance(x, axes, false, 0.0);
  return {gex::es::BatchNorm(x, scale, offset, centre, spread, epsilon),
          centre,
          spread,
          centre,
          spread,
          EsTensorHolder()};
}
inline EsTensorHolder BNInference(const EsTensorHolder& x, const EsTensorHolder& mean,
                                  const EsTensorHolder& variance,
                                  const EsTensorLike& scale = nullptr,
                                  const EsTensorLike& offset = nullptr, float epsilon = 1e-5F) {
  return gex::es::BatchNorm(x, scale, offset, mean, variance, epsilon);
}
struct LayerNormOutput {
  EsTensorHolder y, mean, variance;
};
// Over the axes from begin_norm_axis on.
inline LayerNormOutput LayerNorm(const EsTensorHolder& x, const EsTensorHolder& gamma,
                                 const EsTensorHolder& beta, std::int64_t begin_norm_axis = 0,
                                 std::int64_t begin_params_axis = 0, float epsilon = 1e-7F) {
  const std::int64_t first = detail::AxisOf(x, begin_norm_axis);
  if (detail::AxisOf(x, begin_params_axis) != first)
    throw gex::es::Error(GEX_UNSUPPORTED, "LayerNorm: begin_params_axis must be begin_norm_axis");
  const auto [y, mean, reciprocal] =
      gex::es::LayerNorm(x, gamma, beta, static_cast<std::int64_t>(x.rank()) - first, epsilon);
  return {y, mean,
          gex::es::Sub(gex::es::Reciprocal(gex::es::Mul(reciprocal, reciprocal)), epsilon)};
}
struct LayerNormV3Output {
  EsTensorHolder y, mean, rstd;
};
inline LayerNormV3Output LayerNormV3(const EsTensorHolder& x, const EsTensorHolder& gamma,
                                     const EsTensorHolder& beta, std::int64_t begin_norm_axis = 0,
                                     std::int64_t begin_params_axis = 0, float epsilon = 1e-5F) {
  const std::int64_t first = detail::AxisOf(x, begin_norm_axis);
  if (detail::AxisOf(x, begin_params_axis) != first)
    throw gex::es::Error(GEX_UNSUPPORTED, "LayerNormV3: begin_params_axis must be begin_norm_axis");
  const auto [y, mean, reciprocal] =
      gex::es::LayerNorm(x, gamma, beta, static_cast<std::int64_t>(x.rank()) - first, epsilon);
  return {y, mean, reciprocal};
}
struct RmsNormOutput {
  EsTensorHolder y, rstd;
};
inline RmsNormOutput RmsNorm(const EsTensorHolder& x, const EsTensorHolder& gamma,
                             float epsilon = 1e-6F) {
  const auto [y, reciprocal] =
      gex::es::RmsNorm(x, gamma, static_cast<std::int64_t>(gamma.rank()), epsilon);
  return {y, reciprocal};
}
struct AddRmsNormOutput {
  EsTensorHolder y, rstd, x;
};
inline AddRmsNormOutput AddRmsNorm(const EsTensorHolder& x1, const EsTensorHolder& x2,
                                   const EsTensorHolder& gamma, float epsilon = 1e-6F) {
  const EsTensorHolder sum = gex::es::Add(x1, x2);
  const RmsNormOutput norm = RmsNorm(sum, gamma, epsilon);
  return {norm.y, norm.rstd, sum};
}
// x / max(|x|, eps) along axes.
inline EsTensorHolder L2Normalize(const EsTensorHolder& x, const Axes& axis = {},
                                  float eps = 1e-4F) {
  const EsTensorHolder squares =
      gex::es::ReduceSum(gex::es::Mul(x, x), detail::AxesOf(x, axis), true);
  return gex::es::Div(x, gex::es::Maximum(gex::es::Sqrt(squares), eps));
}

// --- windows -------------------------------------------------------------------------------------

inline EsTensorHolder MaxPoolV3(const EsTensorHolder& x, const Axes& ksize, const Axes& strides,
                                const char* padding_mode = "CALCULATED",
                                const Axes& pads = {0, 0, 0, 0}, const char* data_format = "NCHW",
                                bool global_pooling = false, bool ceil_mode = false) {
  detail::CheckNchw("MaxPoolV3", data_format);
  if (global_pooling) return gex::es::ReduceMax(x, {2, 3}, true);
  const Axes window = detail::OfPixels("MaxPoolV3: ksize", ksize),
             step = detail::OfPixels("MaxPoolV3: strides", strides);
  const auto [image, padding] =
      detail::Padded(x, detail::PadsOf("MaxPoolV3", x, window, step, padding_mode, pads),
                     -std::numeric_limits<double>::infinity());
  return gex::es::MaxPool2d(image, window, step, padding, {1, 1}, ceil_mode).values;
}
inline EsTensorHolder MaxPool(const EsTensorHolder& x, const Axes& ksize, const Axes& strides,
                              const char* padding, const char* data_format = "NCHW") {
  return MaxPoolV3(x, ksize, strides, padding, {0, 0, 0, 0}, data_format);
}
// exclusive: padding is not counted.
inline EsTensorHolder AvgPoolV2(const EsTensorHolder& x, const Axes& ksize, const Axes& strides,
                                const char* padding_mode = "CALCULATED",
                                const Axes& pads = {0, 0, 0, 0}, const char* data_format = "NCHW",
                                bool global_pooling = false, bool ceil_mode = false,
                                bool exclusive = true) {
  detail::CheckNchw("AvgPoolV2", data_format);
  if (global_pooling) return gex::es::ReduceMean(x, {2, 3}, true);
  const Axes window = detail::OfPixels("AvgPoolV2: ksize", ksize),
             step = detail::OfPixels("AvgPoolV2: strides", strides);
  const Axes sides = detail::PadsOf("AvgPoolV2", x, window, step, padding_mode, pads);
  if (sides.size() != 4 || sides[0] != sides[1] || sides[2] != sides[3])
    throw gex::es::Error(GEX_UNSUPPORTED,
                         "AvgPoolV2: padding must be equal on both sides; put PadD before it");
  return gex::es::AvgPool2d(x, window, step, {sides[0], sides[2]}, {1, 1}, ceil_mode, !exclusive);
}
inline EsTensorHolder AvgPool(const EsTensorHolder& x, const Axes& ksize, const Axes& strides,
                              const char* padding, const char* data_format = "NCHW") {
  return AvgPoolV2(x, ksize, strides, padding, {0, 0, 0, 0}, data_format);
}
inline EsTensorHolder AdaptiveAvgPool2d(const EsTensorHolder& x, const Axes& output_size) {
  return gex::es::AdaptiveAvgPool2d(x, {output_size.at(0), output_size.at(1)});
}
inline EsTensorHolder GlobalAveragePool(const EsTensorHolder& x) {
  return gex::es::ReduceMean(x, {2, 3}, true);
}
// Filters [multiplier, channels, H, W]: each channel has its own.
inline EsTensorHolder DepthwiseConv2D(const EsTensorHolder& x, const EsTensorHolder& filter,
                                      const EsTensorLike& bias, const EsTensorLike& offset_w,
                                      const Axes& strides, const Axes& pads,
                                      const Axes& dilations = {1, 1, 1, 1},
                                      const char* data_format = "NCHW") {
  const std::int64_t channels = x.shape().at(1);
  const detail::Sizes sizes = filter.sizes();
  if (channels < 0 || sizes.size() != 4)
    throw gex::es::Error(GEX_SHAPE_MISMATCH,
                         "DepthwiseConv2D: filter is " + filter.type() + ", the image " + x.type());
  const EsTensorHolder by_channel =
      gex::es::Reshape(gex::es::Transpose(filter, {1, 0, 2, 3}),
                       {detail::Combine(sizes[0], "*", sizes[1]), 1, sizes[2], sizes[3]});
  return Conv2D(x, by_channel, bias, offset_w, strides, pads, dilations, channels, data_format);
}
// The transposed convolution to the given sizes.
inline EsTensorHolder Conv2DTransposeD(const EsTensorHolder& x, const EsTensorHolder& filter,
                                       const EsTensorLike& bias, const Axes& input_size,
                                       const Axes& strides, const Axes& pads,
                                       const Axes& dilations = {1, 1, 1, 1},
                                       std::int64_t groups = 1, const char* data_format = "NCHW") {
  detail::CheckNchw("Conv2DTransposeD", data_format);
  if (pads.size() != 4 || pads[0] != pads[1] || pads[2] != pads[3])
    throw gex::es::Error(GEX_UNSUPPORTED,
                         "Conv2DTransposeD: pads are (top, bottom, left, right), equal on both "
                         "sides");
  const EsTensorHolder y = gex::es::ConvTranspose2d(
      x, filter, {input_size.at(2), input_size.at(3)},
      detail::OfPixels("Conv2DTransposeD: strides", strides), {pads[0], pads[2]},
      detail::OfPixels("Conv2DTransposeD: dilations", dilations), groups);
  return detail::IsAbsent(bias) ? y : gex::es::Add(y, detail::PerChannel(y, bias.holder()));
}
inline EsTensorHolder ResizeNearestNeighborV2(const EsTensorHolder& x, const EsTensorLike& size) {
  return gex::es::Interpolate(x, detail::SizesOf("ResizeNearestNeighborV2", size, x), {},
                              "nearest");
}
inline EsTensorHolder ResizeBilinearV2(const EsTensorHolder& x, const EsTensorLike& size,
                                       bool align_corners = false) {
  return gex::es::Interpolate(x, detail::SizesOf("ResizeBilinearV2", size, x), {}, "linear",
                              align_corners);
}

// --- losses --------------------------------------------------------------------------------------

inline EsTensorHolder SigmoidCrossEntropyWithLogits(const EsTensorHolder& predict,
                                                    const EsTensorHolder& target) {
  // max(x, 0) - x * t + log(1 + exp(-|x|))
  return gex::es::Add(gex::es::Sub(gex::es::Relu(predict), gex::es::Mul(predict, target)),
                      gex::es::Log1p(gex::es::Exp(gex::es::Neg(gex::es::Abs(predict)))));
}
struct SoftmaxCrossEntropyWithLogitsOutput {
  EsTensorHolder loss, backprop;
};
// The loss of each row, and its gradient by `features`.
inline SoftmaxCrossEntropyWithLogitsOutput SoftmaxCrossEntropyWithLogits(
    const EsTensorHolder& features, const EsTensorHolder& labels) {
  const std::int64_t axis = static_cast<std::int64_t>(features.rank()) - 1;
  const EsTensorHolder log = gex::es::LogSoftmax(features, axis);
  return {gex::es::Neg(gex::es::ReduceSum(gex::es::Mul(labels, log), {axis})),
          gex::es::Sub(gex::es::Exp(log), labels)};
}

// --- variables and control flow ------------------------------------------------------------------

using gex::es::Assign;

inline std::vector<EsTensorHolder> If(const EsTensorHolder& condition,
                                      const std::vector<EsTensorHolder>& inputs,
                                      std::int64_t output_num, std::unique_ptr<Graph> then_branch,
                                      std::unique_ptr<Graph> else_branch) {
  return gex::es::If(condition, {inputs.begin(), inputs.end()},
                     static_cast<std::size_t>(output_num), *then_branch, *else_branch);
}
inline std::vector<EsTensorHolder> While(const std::vector<EsTensorHolder>& inputs,
                                         std::int64_t output_num, std::unique_ptr<Graph> condition,
                                         std::unique_ptr<Graph> body,
                                         std::int64_t /*parallel_iterations*/ = 10) {
  const auto& building = gex::es::detail::CommonBuilding("while", {inputs.begin(), inputs.end()});
  const auto count = static_cast<std::size_t>(output_num);
  return gex::es::detail::AddNode(building, "while", inputs, {{"carried", output_num}}, count,
                                  {condition->handle(), body->handle()});
}

}  // namespace ge::es
