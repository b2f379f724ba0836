// Convolutions whose groups have few channels, such as depthwise ones: too few rows for a matmul of
// tiles, and little to share between results.

#include "backend/cuda/conv2d_forms_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

constexpr std::string_view kDirectForward = R"cuda(
GEX_FN void conv_direct(const Task& task, Blocks block) {
  const Sizes& s = task.s;
  const Index H = (Index)s.height, W = (Index)s.width, outputs = (Index)s.outputs;
  const i64 results = s.images * s.outputs * s.out_height * s.out_width;
  for (i64 flat = block.index * 256 + threadIdx.x; flat < results; flat += block.count * 256) {
    const Place<Index> p = place_of<Index>((Index)flat, (Index)s.out_height, (Index)s.out_width);
    const Index n = p.outer / outputs, o = p.outer - n * outputs, group = o / (Index)task.group_out;
    const bool up = kUpY > 1 || kUpX > 1;  // as struct Task
    const Index y0 = up ? p.y + (Index)kPadY : p.y * (Index)kStepY - (Index)kPadY;
    const Index x0 = up ? p.x + (Index)kPadX : p.x * (Index)kStepX - (Index)kPadX;
    Acc sum = (Acc)0;
    for (Index c = 0; c < (Index)task.group_in; ++c) {
      const Index image = n * (Index)s.x[0] + (group * (Index)task.group_in + c) * (Index)s.x[1];
      const Index weights = o * (Index)s.w[0] + c * (Index)s.w[1];
      for (Index i = 0; i < (Index)s.taps_y; ++i) {
        Index y = up ? y0 - i : y0 + i * (Index)kDilationY;
        if (y < 0 || y % (Index)kUpY != 0) continue;
        y /= (Index)kUpY;
        if (y >= H) continue;
        for (Index j = 0; j < (Index)s.taps_x; ++j) {
          Index x = up ? x0 - j : x0 + j * (Index)kDilationX;
          if (x < 0 || x % (Index)kUpX != 0) continue;
          x /= (Index)kUpX;
          if (x >= W) continue;
          sum = mul_add(task.image(image + y * (Index)s.x[2] + x * (Index)s.x[3]),
                        task.weights(weights + i * (Index)s.w[2] + j * (Index)s.w[3]), sum);
        }
      }
    }
    task.done(flat, n * s.y[0] + o * s.y[1] + p.y * s.y[2] + p.x * s.y[3], sum);
  }
}
)cuda";

constexpr std::string_view kDirectInputGrad = R"cuda(
GEX_FN void conv_direct(const Task& task, Blocks block) {
  const Sizes& s = task.s;
  const Index H = (Index)s.out_height, W = (Index)s.out_width, channels = (Index)s.channels;
  const i64 results = s.images * s.channels * s.height * s.width;
  for (i64 flat = block.index * 256 + threadIdx.x; flat < results; flat += block.count * 256) {
    const Place<Index> p = place_of<Index>((Index)flat, (Index)s.height, (Index)s.width);
    const Index n = p.outer / channels, c = p.outer - n * channels, group = c / (Index)task.group_in;
    Acc sum = (Acc)0;
    for (Index i = 0; i < (Index)s.taps_y; ++i) {
      const Index y = p.y + (Index)kPadY - i * (Index)kDilationY;
      if (y < 0 || y % (Index)kStepY != 0 || y / (Index)kStepY >= H) continue;
      for (Index j = 0; j < (Index)s.taps_x; ++j) {
        const Index x = p.x + (Index)kPadX - j * (Index)kDilationX;
        if (x < 0 || x % (Index)kStepX != 0 || x / (Index)kStepX >= W) continue;
        const Index image = n * (Index)s.y[0] + y / (Index)kStepY * (Index)s.y[2] + x / (Index)kStepX * (Index)s.y[3];
        const Index weights = (c - group * (Index)task.group_in) * (Index)s.w[1] + i * (Index)s.w[2] + j * (Index)s.w[3];
        for (Index o = group * (Index)task.group_out; o < (group + 1) * (Index)task.group_out; ++o)
          sum = mul_add(task.image(image + o * (Index)s.y[1]), task.weights(weights + o * (Index)s.w[0]), sum);
      }
    }
    task.done(0, n * s.x[0] + c * s.x[1] + p.y * s.x[2] + p.x * s.x[3], sum);
  }
}
)cuda";

constexpr std::string_view kDirectWeightGrad = R"cuda(
GEX_FN void conv_direct(const Task& task, Blocks block) {
  const Sizes& s = task.s;
  const Index H = (Index)s.height, W = (Index)s.width, pixels = (Index)(s.images * s.out_height * s.out_width);
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  GEX_DECLARE_LOCALS
  Acc* const sums = (Acc*)gex_locals;  // of warps
  const i64 results = s.outputs * task.group_in * s.taps_y * s.taps_x;
  for (i64 flat = block.index; flat < results; flat += block.count) {
    const Place<Index> t = place_of<Index>((Index)flat, (Index)s.taps_y, (Index)s.taps_x);
    const Index o = t.outer / (Index)task.group_in, c = t.outer - o * (Index)task.group_in;
    const Index channel = o / (Index)task.group_out * (Index)task.group_in + c;
    Acc sum = (Acc)0;
    for (Index k = (Index)threadIdx.x; k < pixels; k += 256) {
      const Place<Index> p = place_of<Index>(k, (Index)s.out_height, (Index)s.out_width);
      const Index y = p.y * (Index)kStepY - (Index)kPadY + t.y * (Index)kDilationY;
      const Index x = p.x * (Index)kStepX - (Index)kPadX + t.x * (Index)kDilationX;
      if (y < 0 || x < 0 || y >= H || x >= W) continue;
      const Acc value = task.image(p.outer * (Index)s.x[0] + channel * (Index)s.x[1] + y * (Index)s.x[2] + x * (Index)s.x[3]);
      const Acc grad = task.weights(p.outer * (Index)s.y[0] + o * (Index)s.y[1] + p.y * (Index)s.y[2] + p.x * (Index)s.y[3]);
      sum = mul_add(value, grad, sum);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += from_lane_below(sum, lanes);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 1; i < 8; ++i) sum += sums[i];
      task.done(0, o * s.w[0] + c * s.w[1] + t.y * s.w[2] + t.x * s.w[3], sum);
    }
    __syncthreads();
  }
}
)cuda";

}  // namespace

std::string_view conv_direct_text(ConvForm form) {
  switch (form) {
    case ConvForm::forward:
      return kDirectForward;
    case ConvForm::weight_grad:
      return kDirectWeightGrad;
    case ConvForm::input_grad:
      return kDirectInputGrad;
  }
  GEX_CHECK(false, "a form of convolution");
}

}  // namespace gex::backend::cuda
