#include "backend/cuda/conv2d_forms_text.hpp"

#include "base/error.hpp"

namespace gex::backend::cuda {

std::string_view conv_sizes_text() {
  return R"cuda(
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
template <class T>
struct Place { T outer, y, x; };  // (channel, tap, tap) or (image, row, column)
template <class T>
GEX_FN Place<T> place_of(T flat, T height, T width) {
  Place<T> p;
  const T rest = flat / width;
  p.x = flat - rest * width;
  p.outer = rest / height;
  p.y = rest - p.outer * height;
  return p;
}
// An element of the gathered operand is the sum of the position of its line (a column of the
// matmul) and that of its step of the depth: an offset, a row and a column of the image. `left` is
// the offset of the step in the other operand, negative where that is reversed; nowhere() is outside
// of every image.
enum { kNoStep = -2147483647 - 1 };
struct __align__(16) Position { int at, y, x, left; };
GEX_FN Position nowhere() {
  const Position p = {0, -(1 << 28), 0, kNoStep};
  return p;
}
// Where the results of a column go: those of the rows are `Task::point_row` and `Task::result_row`
// apart.
struct Column { i64 point, result; };
)cuda";
}

namespace {

// Rows: output channels of a group. Columns: pixels of all results. Depth: channel and taps.
constexpr std::string_view kForward = R"cuda(
struct Task {
  Image image;
  Weights weights;
  Finish done;
  Sizes s;
  i64 group, group_in, group_out;
  bool left_by_depth, right_by_depth;
  enum { kDivideY = kUpY, kDivideX = kUpX };
  GEX_METHOD void set_batch(i64 batch) { group = batch; }
  GEX_METHOD Acc left(i64 row, i64 k) const {
    const Place<i64> t = place_of<i64>(k, s.taps_y, s.taps_x);
    return weights((group * group_out + row) * s.w[0] + t.outer * s.w[1] + t.y * s.w[2] + t.x * s.w[3]);
  }
  GEX_METHOD Acc right(i64 k, i64 col) const {
    const Place<i64> t = place_of<i64>(k, s.taps_y, s.taps_x), p = place_of<i64>(col, s.out_height, s.out_width);
    i64 y = p.y * kStepY - kPadY + t.y * kDilationY, x = p.x * kStepX - kPadX + t.x * kDilationX;
    if (kUpY > 1 || kUpX > 1) {
      y = p.y + kPadY - t.y, x = p.x + kPadX - t.x;
      if (y % kUpY != 0 || x % kUpX != 0) return (Acc)0;
      y /= kUpY, x /= kUpX;
    }
    if (y < 0 || x < 0 || y >= s.height || x >= s.width) return (Acc)0;
    return image(p.outer * s.x[0] + (group * group_in + t.outer) * s.x[1] + y * s.x[2] + x * s.x[3]);
  }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const { finish(column(col), row, sum); }

  GEX_METHOD Position line(int col) const {
    const Place<int> p = place_of<int>(col, (int)s.out_height, (int)s.out_width);
    const bool up = kUpY > 1 || kUpX > 1;
    Position r;
    r.y = up ? p.y + (int)kPadY : p.y * (int)kStepY - (int)kPadY;
    r.x = up ? p.x + (int)kPadX : p.x * (int)kStepX - (int)kPadX;
    r.at = (int)(p.outer * s.x[0] + group * group_in * s.x[1]);
    r.left = 0;
    return r;
  }
  GEX_METHOD Position step(int k) const {
    const Place<int> t = place_of<int>(k, (int)s.taps_y, (int)s.taps_x);
    const bool up = kUpY > 1 || kUpX > 1;
    Position r;
    r.y = up ? -t.y : t.y * (int)kDilationY;
    r.x = up ? -t.x : t.x * (int)kDilationX;
    r.at = (int)(t.outer * s.x[1]);
    r.left = (int)(t.outer * s.w[1] + t.y * s.w[2] + t.x * s.w[3]);
    return r;
  }
  GEX_METHOD int image_height() const { return (int)s.height; }
  GEX_METHOD int image_width() const { return (int)s.width; }
  GEX_METHOD i64 row_stride() const { return s.x[2]; }
  GEX_METHOD i64 column_stride() const { return s.x[3]; }
  GEX_METHOD i64 left_line(i64 row) const { return (group * group_out + row) * s.w[0]; }
  GEX_METHOD Column column(i64 col) const {
    const Place<i64> p = place_of<i64>(col, s.out_height, s.out_width);
    const Column c = {(p.outer * s.outputs * s.out_height + p.y) * s.out_width + p.x,
                      p.outer * s.y[0] + p.y * s.y[2] + p.x * s.y[3]};
    return c;
  }
  GEX_METHOD void finish(const Column& c, i64 row, Acc sum) const {
    const i64 o = group * group_out + row;
    done(c.point + o * (s.out_height * s.out_width), c.result + o * s.y[1], sum);
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
  enum { kDivideY = 1, kDivideX = 1 };
  GEX_METHOD void set_batch(i64 batch) { group = batch; }
  GEX_METHOD Acc left(i64 row, i64 k) const {
    const Place<i64> p = place_of<i64>(k, s.out_height, s.out_width);
    return weights(p.outer * s.y[0] + (group * group_out + row) * s.y[1] + p.y * s.y[2] + p.x * s.y[3]);
  }
  GEX_METHOD Acc right(i64 k, i64 col) const {
    const Place<i64> t = place_of<i64>(col, s.taps_y, s.taps_x), p = place_of<i64>(k, s.out_height, s.out_width);
    const i64 y = p.y * kStepY - kPadY + t.y * kDilationY, x = p.x * kStepX - kPadX + t.x * kDilationX;
    if (y < 0 || x < 0 || y >= s.height || x >= s.width) return (Acc)0;
    return image(p.outer * s.x[0] + (group * group_in + t.outer) * s.x[1] + y * s.x[2] + x * s.x[3]);
  }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const { finish(column(col), row, sum); }

  GEX_METHOD Position line(int col) const {
    const Place<int> t = place_of<int>(col, (int)s.taps_y, (int)s.taps_x);
    Position r;
    r.y = t.y * (int)kDilationY;
    r.x = t.x * (int)kDilationX;
    r.at = (int)((group * group_in + t.outer) * s.x[1]);
    r.left = 0;
    return r;
  }
  GEX_METHOD Position step(int k) const {
    const Place<int> p = place_of<int>(k, (int)s.out_height, (int)s.out_width);
    Position r;
    r.y = p.y * (int)kStepY - (int)kPadY;
    r.x = p.x * (int)kStepX - (int)kPadX;
    r.at = (int)(p.outer * s.x[0]);
    r.left = (int)(p.outer * s.y[0] + p.y * s.y[2] + p.x * s.y[3]);
    return r;
  }
  GEX_METHOD int image_height() const { return (int)s.height; }
  GEX_METHOD int image_width() const { return (int)s.width; }
  GEX_METHOD i64 row_stride() const { return s.x[2]; }
  GEX_METHOD i64 column_stride() const { return s.x[3]; }
  GEX_METHOD i64 left_line(i64 row) const { return (group * group_out + row) * s.y[1]; }
  GEX_METHOD Column column(i64 col) const {
    const Place<i64> t = place_of<i64>(col, s.taps_y, s.taps_x);
    const Column c = {0, t.outer * s.w[1] + t.y * s.w[2] + t.x * s.w[3]};
    return c;
  }
  GEX_METHOD void finish(const Column& c, i64 row, Acc sum) const {
    done(0, c.result + (group * group_out + row) * s.w[0], sum);
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
  enum { kDivideY = kStepY, kDivideX = kStepX };
  GEX_METHOD void set_batch(i64 batch) { group = batch; }
  GEX_METHOD Acc left(i64 row, i64 k) const {
    const Place<i64> t = place_of<i64>(k, s.taps_y, s.taps_x);
    return weights((group * group_out + t.outer) * s.w[0] + row * s.w[1] + t.y * s.w[2] + t.x * s.w[3]);
  }
  GEX_METHOD Acc right(i64 k, i64 col) const {
    const Place<i64> t = place_of<i64>(k, s.taps_y, s.taps_x), p = place_of<i64>(col, s.height, s.width);
    const i64 y = p.y + kPadY - t.y * kDilationY, x = p.x + kPadX - t.x * kDilationX;
    if (y < 0 || x < 0 || y % kStepY != 0 || x % kStepX != 0) return (Acc)0;
    if (y / kStepY >= s.out_height || x / kStepX >= s.out_width) return (Acc)0;
    return image(p.outer * s.y[0] + (group * group_out + t.outer) * s.y[1] + y / kStepY * s.y[2] +
                 x / kStepX * s.y[3]);
  }
  GEX_METHOD void finish(i64 row, i64 col, Acc sum) const { finish(column(col), row, sum); }

  GEX_METHOD Position line(int col) const {
    const Place<int> p = place_of<int>(col, (int)s.height, (int)s.width);
    Position r;
    r.y = p.y + (int)kPadY;
    r.x = p.x + (int)kPadX;
    r.at = (int)(p.outer * s.y[0] + group * group_out * s.y[1]);
    r.left = 0;
    return r;
  }
  GEX_METHOD Position step(int k) const {
    const Place<int> t = place_of<int>(k, (int)s.taps_y, (int)s.taps_x);
    Position r;
    r.y = -t.y * (int)kDilationY;
    r.x = -t.x * (int)kDilationX;
    r.at = (int)(t.outer * s.y[1]);
    r.left = (int)((group * group_out + t.outer) * s.w[0] + t.y * s.w[2] + t.x * s.w[3]);
    return r;
  }
  GEX_METHOD int image_height() const { return (int)s.out_height; }
  GEX_METHOD int image_width() const { return (int)s.out_width; }
  GEX_METHOD i64 row_stride() const { return s.y[2]; }
  GEX_METHOD i64 column_stride() const { return s.y[3]; }
  GEX_METHOD i64 left_line(i64 row) const { return row * s.w[1]; }
  GEX_METHOD Column column(i64 col) const {
    const Place<i64> p = place_of<i64>(col, s.height, s.width);
    const Column c = {0, p.outer * s.x[0] + p.y * s.x[2] + p.x * s.x[3]};
    return c;
  }
  GEX_METHOD void finish(const Column& c, i64 row, Acc sum) const {
    done(0, c.result + (group * group_in + row) * s.x[1], sum);
  }
  GEX_METHOD i64 rows() const { return group_in; }
  GEX_METHOD i64 cols() const { return s.images * s.height * s.width; }
  GEX_METHOD i64 depth() const { return group_out * s.taps_y * s.taps_x; }
};
)cuda";

}  // namespace

std::string_view conv_task_text(ConvForm form) {
  switch (form) {
    case ConvForm::forward:
      return kForward;
    case ConvForm::weight_grad:
      return kWeightGrad;
    case ConvForm::input_grad:
      return kInputGrad;
  }
  GEX_CHECK(false, "a form of convolution");
}

}  // namespace gex::backend::cuda
