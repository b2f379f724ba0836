// Convolutions and their gradients: which kernel computes them.

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cuda/conv2d_forms_text.hpp"
#include "backend/cuda/conv2d_mma_text.hpp"
#include "backend/cuda/mma_text.hpp"
#include "backend/cuda/tile_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace conv_dim = problems::conv2d_dims;

namespace {

constexpr int kConvBlocksEach = 8;  // on one multiprocessor
constexpr std::int64_t kFewRows = 16;

// ---- direct ----

// Groups of few channels leave most of a tile empty.
bool is_direct(const Conv& conv) {
  return conv.problem.groups > 1 && conv.rows.range().hi < kFewRows;
}

// The largest position of an operand, and a little more: at most this many elements apart.
Dim span_of(const Conv& conv, const std::array<int, 4>& sizes, int strides) {
  Dim span = 0;
  for (std::size_t i = 0; i < 4; ++i)
    span += conv.dims[static_cast<std::size_t>(sizes[i])] *
            conv.dims[static_cast<std::size_t>(strides) + i];
  return span;
}

KernelText direct_text(ProblemText& out, const Conv& conv, const std::string& body) {
  const auto size = [&](int i) { return conv.dims[static_cast<std::size_t>(i)]; };
  const Dim images = size(conv_dim::n) * size(conv_dim::c) * size(conv_dim::h) * size(conv_dim::w);
  const Dim outputs =
      size(conv_dim::n) * size(conv_dim::o) * size(conv_dim::oh) * size(conv_dim::ow);
  const bool by_weights = conv.form == ConvForm::weight_grad;
  const Dim results = by_weights ? Dim(conv.problem.groups) * conv.rows * conv.cols
                      : conv.form == ConvForm::forward ? outputs
                                                       : images;
  constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;
  bool fits = true;
  for (Dim elements :
       {images, outputs,
        span_of(conv, {conv_dim::n, conv_dim::c, conv_dim::h, conv_dim::w}, conv_dim::x_strides),
        span_of(conv, {conv_dim::o, conv_dim::c, conv_dim::kh, conv_dim::kw}, conv_dim::w_strides),
        span_of(conv, {conv_dim::n, conv_dim::o, conv_dim::oh, conv_dim::ow}, conv_dim::y_strides)})
    fits = fits && elements.range().hi < kMostPositions;
  out.text += str("typedef ", fits ? "int" : "i64", " Index;\n");
  out.text += conv_direct_text(conv.form);
  const Dim work = by_weights ? results : ceildiv(results, kTileThreads);
  return out.done(body + "  conv_direct(task, block);\n", kTileThreads,
                  capped_grid(work, out.limits, kConvBlocksEach), by_weights ? 64 : 0, 0);
}

// ---- on tensor cores ----

// How operands are split into 16-bit floats; 0: not at all.
int terms_of(const Conv& conv) {
  if (conv.image != conv.weights) return 0;
  return is_low_float(conv.image) ? 1 : conv.image == DType::f32 ? 3 : 0;
}

// Whether 8 steps of the depth are 16 aligned bytes of the left operand.
bool left_in_rows(const Conv& conv) {
  if (!is_low_float(conv.weights)) return false;
  const auto at = [&](int i) { return conv.dims[static_cast<std::size_t>(i)]; };
  const auto by_8 = [](Dim d) { return d.is_const() && d.constant() % 8 == 0; };
  switch (conv.form) {
    case ConvForm::forward:
      return by_8(conv.depth) && by_8(at(conv_dim::w_strides)) &&
             at(conv_dim::w_strides + 1) == at(conv_dim::kh) * at(conv_dim::kw) &&
             at(conv_dim::w_strides + 2) == at(conv_dim::kw) &&
             at(conv_dim::w_strides + 3) == Dim(1);
    case ConvForm::weight_grad:
      return by_8(at(conv_dim::oh) * at(conv_dim::ow)) && by_8(at(conv_dim::y_strides)) &&
             by_8(at(conv_dim::y_strides + 1)) && at(conv_dim::y_strides + 2) == at(conv_dim::ow) &&
             at(conv_dim::y_strides + 3) == Dim(1);
    case ConvForm::input_grad:
      return false;
  }
  return false;
}

// Cycles of one multiprocessor: multiplication of a step at the rate of mma instructions, ten
// instructions for each gathered element, and what a tile takes before and after its steps.
double cycles(const Conv& conv, const ConvTile& tile, int terms, bool in_rows,
              const DeviceLimits& limits) {
  const double count = static_cast<double>(conv.problem.groups) *
                       static_cast<double>(ceildiv(conv.rows, tile.rows).constant()) *
                       static_cast<double>(ceildiv(conv.cols, tile.cols).constant()) * tile.split;
  const double steps = static_cast<double>(ceildiv(ceildiv(conv.depth, 64), tile.split).constant());
  const double products = terms * (terms + 1) / 2;
  const double gathered = tile.cols + (in_rows ? 0 : tile.rows);
  const double step = products * tile.rows * tile.cols / 19.0 + gathered * (4.0 + terms) + 100;
  const double ends = 1000 + tile.rows * tile.cols / 16.0 + (tile.split > 1 ? 1000 : 0);
  const double waves = std::ceil(count / limits.multiprocessors);
  return waves * (steps * step + ends);
}

constexpr ConvTile kConvTiles[] = {
    {64, 128, 2, 4}, {64, 64, 2, 4}, {32, 128, 1, 8}, {128, 128, 2, 4}, {128, 64, 4, 2}};

ConvTile tile_of(const Form& form) {
  for (ConvTile tile : kConvTiles) {
    if (tile.rows != form.rows || tile.cols != form.cols) continue;
    tile.split = form.split;
    return tile;
  }
  GEX_CHECK(false, "no convolution has the form ", name_of(form));
}

// All tiles that fit, for constant sizes.
std::vector<Form> forms_of_conv(const Conv& conv, int terms, const DeviceLimits& limits) {
  const bool in_rows = left_in_rows(conv);
  std::vector<Form> forms;
  for (ConvTile tile : kConvTiles) {
    if (tile.bytes(terms) > limits.shared_bytes) continue;
    for (tile.split = 1; tile.split <= (limits.clusters ? 8 : 1); tile.split *= 2)
      forms.push_back({tile.rows, tile.cols, tile.split, 0,
                       cycles(conv, tile, terms, in_rows, limits) / kCyclesPerMicrosecond});
  }
  return forms;
}

ConvTile choose_tile(const Conv& conv, int terms, const DeviceLimits& limits) {
  // Sizes that are no constants take many registers.
  constexpr ConvTile kSmallest = kConvTiles[1];
  const ConvTile any_sizes = terms > 1 ? kSmallest : kConvTiles[0];
  if (limits.form) return tile_of(*limits.form);
  if (!conv.constant())
    return any_sizes.bytes(terms) <= limits.shared_bytes ? any_sizes : kSmallest;
  const std::vector<Form> forms = forms_of_conv(conv, terms, limits);
  if (forms.empty()) return kSmallest;
  return tile_of(*std::ranges::min_element(forms, {}, &Form::microseconds));
}

constexpr int kMmaBlocksEach = 2;

// Whether registers are enough for two blocks on a multiprocessor.
bool fits_twice(const Conv& conv, const ConvTile& tile, int terms) {
  return terms == 1 && tile.rows * tile.cols <= 64 * 64 &&
         std::all_of(conv.dims.begin(), conv.dims.end(), [](Dim dim) { return dim.is_const(); });
}

KernelText mma_text(ProblemText& out, const Conv& conv, int terms, std::string body) {
  const bool in_rows = left_in_rows(conv);
  const bool computed = conv.problem.x_computed && conv.form == ConvForm::forward;
  const bool halves = terms == 1 && !computed;
  const ConvTile tile = choose_tile(conv, terms, out.limits);
  out.constant("kBf16", terms > 1 || conv.image == DType::bf16 ? 1 : 0);
  out.constant("kTerms", terms);
  out.constant("kGathersHalves", halves ? 1 : 0);
  out.constant("kLeftInRows", in_rows ? 1 : 0);
  out.constant("kLinesApart", conv.form == ConvForm::weight_grad ? 1 : 0);
  out.text += str("typedef ", halves ? "unsigned short" : "float", " Gathered;\n");
  out.text += mma_fragments_text();
  out.text += conv_mma_text();
  const Dim work =
      Dim(conv.problem.groups) * ceildiv(conv.rows, tile.rows) * ceildiv(conv.cols, tile.cols);
  body += str("  if (conv_fits(task)) {\n    GEX_DECLARE_LOCALS\n    conv_product<", tile.rows,
              ", ", tile.cols, ", ", tile.warp_rows, ", ", tile.warp_cols, ", ", tile.split,
              ">(task, block, (char*)gex_locals);\n    return;\n  }\n",
              "  all_tiles<4, true>(task, block, kGroups, task.rows(), task.cols(), "
              "task.depth());\n");
  const Dim most(std::max(1, out.limits.multiprocessors * kMmaBlocksEach / tile.split));
  return out.done(body, kMmaThreads, min(work, most) * Dim(tile.split), tile.bytes(terms), 0,
                  fits_twice(conv, tile, terms) ? kMmaBlocksEach : 1, tile.split);
}

// ---- all of them ----

constexpr std::string_view kTask = R"cuda(
  Task task;
  task.image.bind(words);
  task.weights.bind(words);
  task.done.bind(words);
  task.s.bind(dims);
  task.group_in = task.s.channels / kGroups;
  task.group_out = task.s.outputs / kGroups;
  task.left_by_depth = true;
  task.right_by_depth = kRightByDepth;
)cuda";

KernelText conv_text(const std::string& name, const Conv& conv, const AttachedKernels& attached,
                     const DeviceLimits& limits) {
  const problems::Conv2dProblem& p = conv.problem;
  GEX_CHECK(!p.w_packed, "CUDA convolutions read W in its own layout, not packed");
  ProblemText out(name, attached, 2, 1, false, conv.dims, limits);
  out.accumulator(p.x);
  out.operand("Image", 0, conv.image);
  out.operand("Weights", 1, conv.weights);
  out.finish(conv.result);
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
  out.constant("kRightByDepth", conv.form == ConvForm::weight_grad ? 1 : 0);
  out.text += conv_sizes_text();
  out.text += conv_task_text(conv.form);
  const std::string body(kTask);
  if (is_direct(conv)) return direct_text(out, conv, body);
  out.tile_product(p.x);
  if (const int terms = terms_of(conv); terms > 0) return mma_text(out, conv, terms, body);
  const Dim work = Dim(p.groups) * ceildiv(conv.rows, kTileRows) * ceildiv(conv.cols, kTileCols);
  return out.done(
      body + "  tiled_product(task, block, kGroups, task.rows(), task.cols(), task.depth());\n",
      kTileThreads, capped_grid(work, limits, kConvBlocksEach), 0, 0);
}

Dim per_group(Dim channels, const problems::Conv2dProblem& p) {
  return floordiv(channels, Dim(p.groups));
}
Dim taps(std::span<const Dim> dims) { return dims[conv_dim::kh] * dims[conv_dim::kw]; }
Dim result_pixels(std::span<const Dim> dims) {
  return dims[conv_dim::n] * dims[conv_dim::oh] * dims[conv_dim::ow];
}

Conv forward(const problems::Conv2dProblem& p, std::span<const Dim> dims) {
  return {ConvForm::forward,
          p,
          dims,
          p.x,
          p.w,
          p.y,
          per_group(dims[conv_dim::o], p),
          result_pixels(dims),
          per_group(dims[conv_dim::c], p) * taps(dims)};
}
Conv weight_grad(const problems::Conv2dProblem& p, std::span<const Dim> dims) {
  return {ConvForm::weight_grad,
          p,
          dims,
          p.x,
          p.w,
          p.y,
          per_group(dims[conv_dim::o], p),
          per_group(dims[conv_dim::c], p) * taps(dims),
          result_pixels(dims)};
}
Conv input_grad(const problems::Conv2dProblem& p, std::span<const Dim> dims) {
  return {ConvForm::input_grad,
          p,
          dims,
          p.y,
          p.w,
          p.x,
          per_group(dims[conv_dim::c], p),
          dims[conv_dim::n] * dims[conv_dim::h] * dims[conv_dim::w],
          per_group(dims[conv_dim::o], p) * taps(dims)};
}

std::vector<Form> forms(const Conv& conv, const DeviceLimits& limits) {
  const int terms = terms_of(conv);
  if (terms == 0 || is_direct(conv) || conv.problem.x_computed || !conv.constant()) return {};
  std::vector<Form> all = forms_of_conv(conv, terms, limits);
  if (all.empty()) return {};
  const Form rule = *std::ranges::min_element(all, {}, &Form::microseconds);
  return worth_trying(rule, std::move(all));
}

}  // namespace

KernelText conv2d_text(const problems::Conv2dProblem& p, const AttachedKernels& attached,
                       std::span<const Dim> dims, const DeviceLimits& limits) {
  return conv_text("gex_conv2d", forward(p, dims), attached, limits);
}

KernelText conv2d_weight_grad_text(const problems::Conv2dProblem& p, std::span<const Dim> dims,
                                   const DeviceLimits& limits) {
  return conv_text("gex_conv2d_weight_grad", weight_grad(p, dims), {}, limits);
}

KernelText conv2d_input_grad_text(const problems::Conv2dProblem& p, std::span<const Dim> dims,
                                  const DeviceLimits& limits) {
  return conv_text("gex_conv2d_input_grad", input_grad(p, dims), {}, limits);
}

std::vector<Form> conv2d_forms(const problems::Conv2dProblem& p, std::span<const Dim> dims,
                               const DeviceLimits& limits) {
  return forms(forward(p, dims), limits);
}
std::vector<Form> conv2d_forms(const problems::Conv2dWeightGradProblem& p,
                               std::span<const Dim> dims, const DeviceLimits& limits) {
  return forms(weight_grad(p.conv, dims), limits);
}
std::vector<Form> conv2d_forms(const problems::Conv2dInputGradProblem& p, std::span<const Dim> dims,
                               const DeviceLimits& limits) {
  return forms(input_grad(p.conv, dims), limits);
}

}  // namespace gex::backend::cuda
