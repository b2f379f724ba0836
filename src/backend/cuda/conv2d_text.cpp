// Convolutions and their gradients as matmuls whose right operand is gathered from the image.

#include "backend/cuda/problem_text.hpp"
#include "backend/cuda/tile_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace conv_dim = problems::conv2d_dims;

namespace {

constexpr int kConvBlocksEach = 8;  // on one multiprocessor

constexpr std::string_view kConvSizes = R"cuda(
struct Sizes {
  i64 images, channels, height, width, outputs, out_height, out_width, taps_y, taps_x;
  i64 x[4], w[4], y[4];  // strides
  GEX_METHOD void bind(const i64* dims) {
    images = dims[0]; channels = dims[1]; height = dims[2]; width = dims[3];
    outputs = dims[4]; out_height = dims[5]; out_width = dims[6]; taps_y = dims[7]; taps_x = dims[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = dims[9 + i], w[i] = dims[13 + i], y[i] = dims[17 + i];
  }
};
struct Place { i64 outer, y, x; };  // (channel, tap, tap) or (image, row, column)
GEX_FN Place place_of(i64 flat, i64 height, i64 width) {
  Place p;
  const i64 rest = flat / width;
  p.x = flat - rest * width;
  p.outer = rest / height;
  p.y = rest - p.outer * height;
  return p;
}
)cuda";

// Rows: output channels of a group. Columns: pixels of all results. Depth: channel and taps.
constexpr std::string_view kForward = R"cuda(
struct Task {
  Image image;
  Weights weights;
  Finish done;
  Sizes s;
  i64 group, group_in, group_out;
  bool left_by_depth, right_by_depth;
  GEX_METHOD void set_batch(i64 batch) { group = batch; }
  GEX_METHOD Acc left(i64 row, i64 k) const {
    const Place t = place_of(k, s.taps_y, s.taps_x);
    return weights((group * group_out + row) * s.w[0] + t.outer * s.w[1] + t.y * s.w[2] + t.x * s.w[3]);
  }
  GEX_METHOD Acc right(i64 k, i64 col) const {
    const Place t = place_of(k, s.taps_y, s.taps_x), p = place_of(col, s.out_height, s.out_width);
    i64 y = p.y * kStepY - kPadY + t.y * kDilationY, x = p.x * kStepX - kPadX + t.x * kDilationX;
    if (kUpY > 1 || kUpX > 1) {
      y = p.y + kPadY - t.y, x = p.x + kPadX - t.x;
      if (y % kUpY != 0 || x % kUpX != 0) return (Acc)0;
      y /= kUpY, x /= kUpX;
    }
    if (y < 0 || x < 0 || y >= s.height || x >= s.width) return (Acc)0;
    return image(p.outer * s.x[0] + (group * group_in + t.outer) * s.x[1] + y * s.x[2] + x * s.x[3]);
  }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const {
    const Place p = place_of(col, s.out_height, s.out_width);
    const i64 o = group * group_out + row;
    done(((p.outer * s.outputs + o) * s.out_height + p.y) * s.out_width + p.x,
         p.outer * s.y[0] + o * s.y[1] + p.y * s.y[2] + p.x * s.y[3], sum);
  }
  GEX_METHOD i64 rows() const { return group_out; }
  GEX_METHOD i64 cols() const { return s.images * s.out_height * s.out_width; }
  GEX_METHOD i64 depth() const { return group_in * s.taps_y * s.taps_x; }
};
)cuda";

// Rows: output channels of a group. Columns: channel and taps. Depth: pixels of all results.
constexpr std::string_view kWeightGrad = R"cuda(
struct Task {
  Image image;
  Weights weights;  // the gradient of the result
  Finish done;
  Sizes s;
  i64 group, group_in, group_out;
  bool left_by_depth, right_by_depth;
  GEX_METHOD void set_batch(i64 batch) { group = batch; }
  GEX_METHOD Acc left(i64 row, i64 k) const {
    const Place p = place_of(k, s.out_height, s.out_width);
    return weights(p.outer * s.y[0] + (group * group_out + row) * s.y[1] + p.y * s.y[2] + p.x * s.y[3]);
  }
  GEX_METHOD Acc right(i64 k, i64 col) const {
    const Place t = place_of(col, s.taps_y, s.taps_x), p = place_of(k, s.out_height, s.out_width);
    const i64 y = p.y * kStepY - kPadY + t.y * kDilationY, x = p.x * kStepX - kPadX + t.x * kDilationX;
    if (y < 0 || x < 0 || y >= s.height || x >= s.width) return (Acc)0;
    return image(p.outer * s.x[0] + (group * group_in + t.outer) * s.x[1] + y * s.x[2] + x * s.x[3]);
  }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const {
    const Place t = place_of(col, s.taps_y, s.taps_x);
    done(0, (group * group_out + row) * s.w[0] + t.outer * s.w[1] + t.y * s.w[2] + t.x * s.w[3], sum);
  }
  GEX_METHOD i64 rows() const { return group_out; }
  GEX_METHOD i64 cols() const { return group_in * s.taps_y * s.taps_x; }
  GEX_METHOD i64 depth() const { return s.images * s.out_height * s.out_width; }
};
)cuda";

// Rows: input channels of a group. Columns: pixels of all images. Depth: output channel and taps.
constexpr std::string_view kInputGrad = R"cuda(
struct Task {
  Image image;  // the gradient of the result
  Weights weights;
  Finish done;
  Sizes s;
  i64 group, group_in, group_out;
  bool left_by_depth, right_by_depth;
  GEX_METHOD void set_batch(i64 batch) { group = batch; }
  GEX_METHOD Acc left(i64 row, i64 k) const {
    const Place t = place_of(k, s.taps_y, s.taps_x);
    return weights((group * group_out + t.outer) * s.w[0] + row * s.w[1] + t.y * s.w[2] + t.x * s.w[3]);
  }
  GEX_METHOD Acc right(i64 k, i64 col) const {
    const Place t = place_of(k, s.taps_y, s.taps_x), p = place_of(col, s.height, s.width);
    const i64 y = p.y + kPadY - t.y * kDilationY, x = p.x + kPadX - t.x * kDilationX;
    if (y < 0 || x < 0 || y % kStepY != 0 || x % kStepX != 0) return (Acc)0;
    if (y / kStepY >= s.out_height || x / kStepX >= s.out_width) return (Acc)0;
    return image(p.outer * s.y[0] + (group * group_out + t.outer) * s.y[1] + y / kStepY * s.y[2] +
                 x / kStepX * s.y[3]);
  }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const {
    const Place p = place_of(col, s.height, s.width);
    done(0, p.outer * s.x[0] + (group * group_in + row) * s.x[1] + p.y * s.x[2] + p.x * s.x[3], sum);
  }
  GEX_METHOD i64 rows() const { return group_in; }
  GEX_METHOD i64 cols() const { return s.images * s.height * s.width; }
  GEX_METHOD i64 depth() const { return group_out * s.taps_y * s.taps_x; }
};
)cuda";

constexpr std::string_view kConvBody = R"cuda(
  Task task;
  task.image.bind(words);
  task.weights.bind(words);
  task.done.bind(words);
  task.s.bind(dims);
  task.group_in = task.s.channels / kGroups;
  task.group_out = task.s.outputs / kGroups;
  task.left_by_depth = true;
  task.right_by_depth = kRightByDepth;
  tiled_product(task, block, kGroups, task.rows(), task.cols(), task.depth());
)cuda";

struct Form {
  const char* name;
  std::string_view task;
  int image, weights;  // which operands these are
  DType image_dtype, weights_dtype, result_dtype;
  Dim rows, cols;  // of one group
  bool right_by_depth;
};

KernelText conv_text(const problems::Conv2dProblem& p, const Form& form,
                     const AttachedKernels& attached, std::span<const Dim> dims,
                     const DeviceLimits& limits) {
  GEX_CHECK(!p.w_packed, "CUDA convolutions read W in its own layout, not packed");
  ProblemText out(form.name, attached, 2, 1, false, dims, limits);
  out.accumulator(p.x);
  out.operand("Image", form.image, form.image_dtype);
  out.operand("Weights", form.weights, form.weights_dtype);
  out.finish(form.result_dtype);
  out.constant("kStepY", p.stride[0]);
  out.constant("kStepX", p.stride[1]);
  out.constant("kDilationY", p.dilation[0]);
  out.constant("kDilationX", p.dilation[1]);
  out.constant("kPadY", p.pad[0]);
  out.constant("kPadX", p.pad[1]);
  out.constant("kUpY", p.up[0]);
  out.constant("kUpX", p.up[1]);
  out.constant("kGroups", p.groups);
  out.constant("kMultiprocessors", limits.multiprocessors);
  out.constant("kRightByDepth", form.right_by_depth ? 1 : 0);
  out.text += kConvSizes;
  out.text += form.task;
  out.tile_product(p.x);
  const Dim work = Dim(p.groups) * ceildiv(form.rows, kTileRows) * ceildiv(form.cols, kTileCols);
  return out.done(std::string(kConvBody), kTileThreads, capped_grid(work, limits, kConvBlocksEach),
                  0, 0);
}

Dim per_group(Dim channels, const problems::Conv2dProblem& p) {
  return floordiv(channels, Dim(p.groups));
}

}  // namespace

KernelText conv2d_text(const problems::Conv2dProblem& p, const AttachedKernels& attached,
                       std::span<const Dim> dims, const DeviceLimits& limits) {
  return conv_text(p,
                   {"gex_conv2d", kForward, 0, 1, p.x, p.w, p.y, per_group(dims[conv_dim::o], p),
                    dims[conv_dim::n] * dims[conv_dim::oh] * dims[conv_dim::ow], false},
                   attached, dims, limits);
}

KernelText conv2d_weight_grad_text(const problems::Conv2dProblem& p, std::span<const Dim> dims,
                                   const DeviceLimits& limits) {
  return conv_text(
      p,
      {"gex_conv2d_weight_grad", kWeightGrad, 0, 1, p.x, p.w, p.y, per_group(dims[conv_dim::o], p),
       per_group(dims[conv_dim::c], p) * dims[conv_dim::kh] * dims[conv_dim::kw], true},
      {}, dims, limits);
}

KernelText conv2d_input_grad_text(const problems::Conv2dProblem& p, std::span<const Dim> dims,
                                  const DeviceLimits& limits) {
  return conv_text(
      p,
      {"gex_conv2d_input_grad", kInputGrad, 0, 1, p.y, p.w, p.x, per_group(dims[conv_dim::c], p),
       dims[conv_dim::n] * dims[conv_dim::h] * dims[conv_dim::w], false},
      {}, dims, limits);
}

}  // namespace gex::backend::cuda
