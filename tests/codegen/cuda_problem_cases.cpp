#include <cmath>
#include <deque>
#include <iterator>
#include <numeric>

#include "cuda_problems.hpp"
#include "harness.hpp"

namespace gex::codegen {

using problems::AttentionProblem;
using problems::Causal;
using problems::Conv2dProblem;
using problems::MaskKind;
using problems::MatmulProblem;
using std::int64_t;
using Sizes = std::vector<int64_t>;

namespace {

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

Sizes dense(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

void append(Sizes& to, const Sizes& more) { to.insert(to.end(), more.begin(), more.end()); }

class Builder {
 public:
  std::deque<ProblemCase> cases;  // references to cases stay valid

  ProblemCase& start(const std::string& name, const problems::Problem& problem) {
    cases.push_back({});
    cases.back().name = name;
    cases.back().problem = problem;
    cases.back().constant_dims = cases.size() % 3 != 0;
    return cases.back();
  }

  static void buffer(ProblemCase& c, DType dtype, int64_t elements, bool written = false,
                     double low = -1, double high = 1) {
    HostTensor tensor(dtype, {std::max<int64_t>(elements, 1)});
    if (!is_float(dtype)) low = dtype == DType::u8 ? 0 : -9, high = 9;
    if (!written) fill(tensor, 11 + static_cast<unsigned>(c.buffers.size()), low, high);
    c.buffers.push_back(std::move(tensor));
    c.written.push_back(written);
  }

  // ---- products ----

  struct Layout {
    bool a_by_columns = false, b_by_columns = false;  // transposed in memory
    int64_t pad = 0;                                  // elements between rows
    bool b_broadcast = false;                         // one B for all of the batch
    int64_t offset = 0;                               // unused elements before A and B
  };

  ProblemCase& product(const std::string& name, const MatmulProblem& p, const Sizes& s,
                       const Layout& layout) {
    ProblemCase& c = start(name, p);
    const int64_t m = s[2], n = s[3], k = s[4];
    c.dims = s;
    const auto matrix = [&](int64_t rows, int64_t cols, bool by_columns, bool broadcast) {
      const int64_t row = by_columns ? 1 : cols + layout.pad;
      const int64_t col = by_columns ? rows + layout.pad : 1;
      const int64_t size = by_columns ? col * cols : row * rows;
      append(c.dims, {broadcast ? 0 : s[1] * size, broadcast ? 0 : size, row, col});
      return size * (broadcast ? 1 : s[0] * s[1]);
    };
    const int64_t a = matrix(m, k, layout.a_by_columns, false);
    const int64_t b = matrix(k, n, layout.b_by_columns, layout.b_broadcast);
    const int64_t result = matrix(m, n, false, false);
    buffer(c, p.a, a);
    buffer(c, p.b, b);
    buffer(c, p.c, result, true);
    c.tolerance = p.a == DType::f64 ? 1e-12 : 2e-6 * std::sqrt(static_cast<double>(k) + 1);
    return c;
  }

  void products() {
    const MatmulProblem f32;
    product("one element", f32, {1, 1, 1, 1, 1}, {});
    product("partial tiles", f32, {1, 1, 70, 67, 37}, {});
    product("batches", f32, {2, 3, 17, 33, 20}, {false, false, 3});
    product("transposed", f32, {1, 2, 65, 40, 50}, {true, true});
    product("broadcast", f32, {2, 2, 9, 130, 16}, {false, false, 0, true});
    for (const int64_t m : {1, 4, 11}) product("few rows", f32, {1, 2, m, 37, 132}, {false, true});
    product("large tiles", f32, {1, 1, 130, 140, 40}, {});
    product("no depth", f32, {1, 1, 5, 6, 0}, {});
    product("f64", {DType::f64, DType::f64, DType::f64}, {1, 1, 33, 70, 41}, {});
    product("f64 to f32", {DType::f64, DType::f64, DType::f32}, {1, 1, 3, 7, 4}, {});
    product("mixed", {DType::f16, DType::f32, DType::bf16}, {1, 1, 20, 30, 40}, {});
    for (const DType dtype : {DType::f16, DType::bf16}) {
      MatmulProblem p{dtype, dtype, dtype};
      for (const int64_t m : {1, 5, 16, 33, 64, 100, 130})
        for (const bool b_by_columns : {false, true})
          product("half", p, {1, 1, m, 72, 96}, {m % 2 == 1, b_by_columns});
      product("half unaligned", p, {1, 1, 40, 35, 45}, {});
      product("half batch", p, {2, 2, 20, 72, 64}, {false, true, 8});
      product("half long", p, {1, 1, 3, 264, 1000}, {false, true});
      product("half decode", p, {1, 1, 1, 520, 2048}, {false, true});
      product("half wide", p, {1, 1, 2, 520, 512}, {});
      for (const int64_t m : {24, 25, 40, 41, 100, 101})
        product("half shared depth", p, {1, 1, m, 136, 1096}, {false, m % 2 == 0});
      product("half tall", p, {1, 1, 260, 136, 72}, {false, true});
      p.c = DType::f32;
      product("half to f32", p, {1, 1, 24, 136, 80}, {});
      p.any_rows = true;
      product("half any rows", p, {1, 1, 3, 136, 80}, {});
    }
  }

  // bias and a residual, rounded to the result's dtype; the sums themselves as a second result.
  void epilogue(ProblemCase& c, DType dtype, int64_t rows, int64_t cols, DType acc = DType::f32) {
    const std::string t(name_of(dtype)), a(name_of(acc));
    c.epilogue = std::make_shared<loop::Kernel>(loop::parse_kernel(
        "kernel finish(sums: in " + a + "[m, n], bias: in " + t + "[n], more: in " + t +
        "[m, n], y: out " + t + "[m, n], raw: out " + a + "[m, n]) grid(i < m, j < n) {\n" +
        "stage {\n  s = load sums[i, j]\n  h = cast s : " + t + "\n  b = load bias[j]\n" +
        "  hb = add h, b\n  zero = const 0 : " + t + "\n  r = max hb, zero\n" +
        "  x = load more[i, j]\n  y0 = add r, x\n  store y[i, j] = y0\n  store raw[i, j] = "
        "s\n}\n}"));
    c.buffers.pop_back();
    c.written.pop_back();
    c.epilogue_dims_begin = static_cast<int>(c.dims.size());
    append(c.dims, {rows, cols});
    c.extra_buffers = 4;
    buffer(c, dtype, cols);
    buffer(c, dtype, rows * cols);
    buffer(c, dtype, rows * cols, true);
    buffer(c, acc, rows * cols, true);
    // One place of the result's dtype, where the sums round to different neighbours.
    c.tolerance = dtype == DType::f16 ? 4e-3 : dtype == DType::bf16 ? 3e-2 : c.tolerance;
  }

  // relu(x) * 2 of an input of the same size.
  void prologue(ProblemCase& c, int operand, DType dtype, int64_t elements,
                DType acc = DType::f32) {
    const std::string t(name_of(dtype)), a(name_of(acc));
    auto kernel = std::make_shared<loop::Kernel>(loop::parse_kernel(
        "kernel prepare(x: in " + t + "[n], y: out " + a + "[n]) grid(i < n) {\n" +
        "stage {\n  v = load x[i]\n  zero = const 0 : " + t + "\n  r = max v, zero\n" +
        "  d = add r, r\n  w = cast d : " + a + "\n  store y[i] = w\n}\n}"));
    c.prologues.push_back(
        {kernel, operand, static_cast<int>(c.buffers.size()), 1, static_cast<int>(c.dims.size())});
    append(c.dims, {elements});
    buffer(c, dtype, elements);
    c.buffers[at(operand)] = HostTensor(dtype, {1});  // not read
  }

  void attached_products() {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      const DType acc = dtype == DType::f64 ? dtype : DType::f32;
      for (const int64_t m : {1, 20, 70, 129}) {
        const bool transposed = m != 20;
        epilogue(product("epilogue", {dtype, dtype, dtype}, {1, 1, m, 72, 48}, {false, transposed}),
                 dtype, m, 72, acc);
      }
      MatmulProblem p{dtype, dtype, dtype};
      p.computed = 1;
      prologue(product("prologue of A", p, {1, 1, 24, 40, 64}, {}), 0, dtype, 24 * 64, acc);
      p.computed = 3;
      ProblemCase& c = product("both prologues", p, {1, 2, 24, 40, 64}, {false, true});
      epilogue(c, dtype, 2 * 24, 40, acc);
      prologue(c, 0, dtype, 2 * 24 * 64, acc);
      prologue(c, 1, dtype, 2 * 40 * 64, acc);
    }
  }

  // m, n, k
  ProblemCase& quantised(const std::string& name, const problems::QuantisedMatmulProblem& p,
                         const Sizes& s, bool turned = false) {
    ProblemCase& c = start(name, p);
    const int64_t m = s[0], n = s[1], k = s[2];
    const int64_t stored = p.bits == 4 ? (k + 1) / 2 : k;
    const int64_t entries = p.group == 0 ? 1 : (k + p.group - 1) / p.group;
    c.dims = s;
    append(c.dims, {k, 1, turned ? 1 : stored, turned ? n : 1});
    append(c.dims, {entries, 1, entries, 1, n, 1});
    buffer(c, p.a, m * k);
    buffer(c, p.q, n * stored);
    for (int64_t i = 0; p.bits == 4 && i < n * stored; ++i)
      c.buffers.back().set(i, static_cast<double>(i * 37 % 256));
    if (p.has_scale) buffer(c, p.scale, n * entries);
    if (p.has_offset) buffer(c, DType::f32, n * entries);
    buffer(c, p.c, m * n, true);
    c.tolerance = 2e-5 * std::sqrt(static_cast<double>(k) + 1);
    return c;
  }

  void quantised_products() {
    for (const DType a : {DType::f32, DType::f16, DType::bf16})
      for (const int64_t bits : {8, 4}) {
        problems::QuantisedMatmulProblem p;
        p.a = p.scale = p.c = a;
        p.bits = bits;
        p.q = bits == 4 ? DType::u8 : DType::i8;
        p.zero = bits == 4 ? 8 : 0;
        p.has_scale = true;
        quantised("quantised", p, {1, 40, 1024});
        epilogue(quantised("quantised, epilogue", p, {5, 24, 128}), a, 5, 24);
        p.group = 32;
        quantised("quantised in groups", p, {3, 17, 192});
        p.has_offset = true;
        quantised("quantised with offsets", p, {6, 9, 96});
        quantised("quantised, odd", p, {2, 5, 41});
        if (bits == 8) quantised("quantised, turned", p, {2, 33, 64}, true);
      }
    problems::QuantisedMatmulProblem plain;
    plain.q = DType::u8;
    plain.zero = 3;
    quantised("quantised without scales", plain, {4, 8, 64});
  }

  void groups() {
    for (const DType dtype : {DType::f32, DType::f16}) {
      for (const DType ends : {DType::i64, DType::i32}) {
        for (const bool grad : {false, true}) {
          problems::GroupedMatmulProblem p{{dtype, dtype, dtype}, ends};
          const Sizes group_ends = {3, 3, 70, 80, 150};
          const int64_t rows = 160, inner = 24, cols = 40, count = 5;
          ProblemCase& c = grad ? start("grouped gradient", problems::GroupedWeightGradProblem{p})
                                : start("grouped", p);
          if (grad) {
            c.dims = {1, 1, inner, cols, rows,         0, 0,    1, inner,
                      0, 0, cols,  1,    inner * cols, 0, cols, 1, count};
            buffer(c, dtype, rows * inner);
            buffer(c, dtype, rows * cols);
          } else {
            c.dims = {1, 1,    rows, cols, inner, 0,    0, inner, 1, inner * cols,
                      0, cols, 1,    0,    0,     cols, 1, count};
            buffer(c, dtype, rows * inner);
            buffer(c, dtype, count * inner * cols);
          }
          HostTensor end(ends, {count});
          for (int64_t g = 0; g < count; ++g) end.set_int(g, group_ends[at(g)]);
          c.buffers.push_back(end);
          c.written.push_back(false);
          buffer(c, dtype, grad ? count * inner * cols : rows * cols, true);
        }
      }
    }
  }

  // ---- convolutions ----

  ProblemCase& conv(const std::string& name, const problems::Problem& problem,
                    const Conv2dProblem& p, Sizes s) {
    // s: n, c, h, w, o, kh, kw
    ProblemCase& c = start(name, problem);
    const auto out_size = [&](int64_t size, int64_t taps, std::size_t axis) {
      return (size + 2 * p.pad[axis] - p.dilation[axis] * (taps - 1) - 1) / p.stride[axis] + 1;
    };
    const int64_t oh = out_size(s[2], s[5], 0), ow = out_size(s[3], s[6], 1);
    c.dims = {s[0], s[1], s[2], s[3], s[4], oh, ow, s[5], s[6]};
    const Sizes x = {s[0], s[1], s[2], s[3]}, w = {s[4], s[1] / p.groups, s[5], s[6]};
    const Sizes y = {s[0], s[4], oh, ow};
    for (const Sizes& shape : {x, w, y}) append(c.dims, dense(shape));
    const auto count = [](const Sizes& shape) {
      return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    };
    if (problem.index() == 1) {
      buffer(c, p.x, count(x)), buffer(c, p.w, count(w)), buffer(c, p.y, count(y), true);
    } else if (problem.index() == 2) {
      buffer(c, p.x, count(x)), buffer(c, p.w, count(y)), buffer(c, p.y, count(w), true);
    } else {
      buffer(c, p.y, count(y)), buffer(c, p.w, count(w)), buffer(c, p.x, count(x), true);
    }
    c.tolerance = p.x == DType::f64 ? 1e-12 : 2e-5;
    return c;
  }

  void convolutions() {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      Conv2dProblem p{dtype, dtype, dtype};
      conv("conv 1x1", p, p, {2, 20, 5, 7, 33, 1, 1});
      p.pad = {1, 1};
      conv("conv 3x3", p, p, {2, 16, 9, 11, 24, 3, 3});
      conv("weight gradient", problems::Conv2dWeightGradProblem{p}, p, {2, 5, 9, 11, 7, 3, 3});
      p.stride = {2, 2};
      conv("input gradient", problems::Conv2dInputGradProblem{p}, p, {2, 5, 9, 11, 7, 3, 3});
      p.pad = {2, 1};
      p.dilation = {2, 1};
      p.groups = 3;
      conv("groups", p, p, {1, 6, 13, 12, 9, 3, 2});
      conv("groups weight gradient", problems::Conv2dWeightGradProblem{p}, p,
           {2, 6, 9, 11, 9, 3, 2});
      Conv2dProblem attached{dtype, dtype, dtype};
      attached.x_computed = true;
      ProblemCase& c = conv("conv attached", attached, attached, {1, 4, 6, 6, 10, 3, 3});
      const DType acc = dtype == DType::f64 ? dtype : DType::f32;
      epilogue(c, dtype, 10, 16, acc);
      prologue(c, 0, dtype, 4 * 6 * 6, acc);
    }
    for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
      Conv2dProblem depthwise{dtype, dtype, dtype};
      depthwise.groups = 8;
      depthwise.stride = {2, 1};
      depthwise.pad = {1, 1};
      const Sizes sizes = {2, 8, 10, 11, 8, 3, 3};
      conv("depthwise", depthwise, depthwise, sizes);
      conv("depthwise weight gradient", problems::Conv2dWeightGradProblem{depthwise}, depthwise,
           sizes);
      conv("depthwise input gradient", problems::Conv2dInputGradProblem{depthwise}, depthwise,
           sizes);
      depthwise.groups = 4;
      conv("groups of 2", depthwise, depthwise, {2, 8, 7, 6, 12, 3, 3});
    }
    convolutions_by_tiles();
    sums_of_integers();
  }

  // Larger than f32 can count.
  void sums_of_integers() {
    const auto largest = [](ProblemCase& c) {
      for (std::size_t b = 0; b < 2; ++b)
        for (int64_t i = 0; i < c.buffers[b].numel(); ++i)
          c.buffers[b].set_int(i, b == 0 ? 255 : 127);
    };
    largest(product("integers", {DType::u8, DType::i8, DType::i32}, {1, 1, 5, 7, 1201}, {}));
    const Conv2dProblem p{DType::u8, DType::i8, DType::i32};
    largest(conv("conv of integers", p, p, {1, 135, 4, 3, 2, 3, 3}));
  }

  // Sizes for each of the tiles, whose depth is divided or not, and operands of every layout.
  void convolutions_by_tiles() {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      Conv2dProblem p{dtype, dtype, dtype};
      for (const int64_t channels : {24, 40, 130})
        conv("conv of tiles", p, p, {1, 96, 9, 17, channels, 1, 1});
      p.pad = {1, 1};
      conv("conv of a large tile", p, p, {1, 8, 16, 17, 130, 3, 3});
      conv("conv of 3 channels", p, p, {2, 3, 13, 12, 20, 5, 5});
      conv("conv of many channels", p, p, {1, 200, 6, 7, 20, 3, 3});
      conv("weight gradient of rows", problems::Conv2dWeightGradProblem{p}, p,
           {2, 20, 8, 12, 72, 3, 3});
      conv("weight gradient of odd sizes", problems::Conv2dWeightGradProblem{p}, p,
           {3, 10, 7, 7, 40, 3, 3});
      conv("input gradient of step 1", problems::Conv2dInputGradProblem{p}, p,
           {1, 40, 9, 11, 24, 3, 3});
      Conv2dProblem grouped = p;
      grouped.groups = 2;
      conv("large groups", grouped, grouped, {2, 32, 9, 8, 48, 3, 3});
      conv("large groups, input gradient", problems::Conv2dInputGradProblem{grouped}, grouped,
           {2, 32, 9, 8, 48, 3, 3});
      ProblemCase& c = conv("conv with an epilogue", p, p, {2, 16, 6, 9, 20, 3, 3});
      epilogue(c, dtype, 2 * 20, 54, DType::f32);
      Conv2dProblem up{dtype, dtype, dtype};
      up.up = {2, 2};
      up.pad = {1, 1};
      transposed("transposed conv", up, {1, 20, 5, 6, 24, 4, 4});
      up.up = {3, 2};
      up.groups = 2;
      transposed("transposed conv of small groups", up, {2, 6, 5, 4, 8, 4, 3});
    }
    const Conv2dProblem f32;
    // Sums that only grow, so that errors of one direction add up.
    ProblemCase& growing = conv("conv of a large sum", f32, f32, {1, 160, 5, 6, 24, 3, 3});
    for (std::size_t b = 0; b < 2; ++b)
      for (int64_t i = 0; i < growing.buffers[b].numel(); ++i)
        growing.buffers[b].set(i, 0.75 + growing.buffers[b].get(i) / 4);
    growing.tolerance = 1e-6;
    // Infinite elements, which are no sums of terms, spoil only the results that read them.
    ProblemCase& c = conv("conv of infinite elements", f32, f32, {1, 16, 9, 9, 24, 3, 3});
    c.buffers[0].set(100, HUGE_VAL);
    c.buffers[0].set(900, NAN);
  }

  // s: n, c, h, w, o, kh, kw
  ProblemCase& transposed(const std::string& name, const Conv2dProblem& p, const Sizes& s) {
    ProblemCase& c = start(name, p);
    const auto out_size = [&](int64_t size, int64_t taps, std::size_t axis) {
      return (size - 1) * p.up[axis] + taps - 2 * p.pad[axis];
    };
    const int64_t oh = out_size(s[2], s[5], 0), ow = out_size(s[3], s[6], 1);
    c.dims = {s[0], s[1], s[2], s[3], s[4], oh, ow, s[5], s[6]};
    append(c.dims, dense({s[0], s[1], s[2], s[3]}));
    append(c.dims, dense({s[4], s[1] / p.groups, s[5], s[6]}));
    append(c.dims, dense({s[0], s[4], oh, ow}));
    buffer(c, p.x, s[0] * s[1] * s[2] * s[3]);
    buffer(c, p.w, s[4] * s[1] / p.groups * s[5] * s[6]);
    buffer(c, p.y, s[0] * s[4] * oh * ow, true);
    c.tolerance = 2e-5;
    return c;
  }

  // ---- attention ----

  // s: batch, heads, kv heads, queries, keys, head, value
  ProblemCase& attention(const std::string& name, const AttentionProblem& p, const Sizes& s,
                         bool by_tokens = false) {
    ProblemCase& c = start(name, p);
    c.dims = s;
    const auto strides = [&](int64_t heads, int64_t tokens, int64_t size) {
      append(c.dims, by_tokens ? Sizes{tokens * heads * size, size, heads * size, 1}
                               : Sizes{heads * tokens * size, tokens * size, size, 1});
      return s[0] * heads * tokens * size;
    };
    const int64_t q = strides(s[1], s[3], s[5]), k = strides(s[2], s[4], s[5]);
    const int64_t v = strides(s[2], s[4], s[6]), out = strides(s[1], s[3], s[6]);
    buffer(c, p.qkv, q, false, -2, 2), buffer(c, p.qkv, k, false, -2, 2), buffer(c, p.qkv, v);
    if (p.mask != MaskKind::none) {
      append(c.dims, {s[3] * s[4], 0, s[4], 1});
      buffer(c, p.mask == MaskKind::boolean ? DType::boolean : p.mask_dtype, s[0] * s[3] * s[4]);
      // The first query of each batch sees nothing.
      HostTensor& mask = c.buffers.back();
      for (int64_t b = 0; b < s[0]; ++b)
        for (int64_t j = 0; j < s[4]; ++j) {
          if (p.mask == MaskKind::boolean)
            mask.set_int(b * s[3] * s[4] + j, 0);
          else
            mask.set(b * s[3] * s[4] + j, -HUGE_VAL);
        }
    }
    buffer(c, p.out, out, true);
    c.tolerance = p.qkv == DType::f64 ? 1e-11 : is_low_float(p.qkv) ? 4e-3 : 2e-5;
    if (p.qkv == DType::bf16) c.tolerance = 2e-2;
    return c;
  }

  void attentions() {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      AttentionProblem p;
      p.qkv = p.out = dtype;
      attention("plain", p, {2, 4, 2, 20, 70, 16, 24});
      attention("one query", p, {1, 4, 2, 1, 300, 64, 64}, true);
      attention("few queries", p, {1, 8, 2, 3, 200, 64, 64});
      attention("no keys", p, {1, 1, 1, 2, 0, 8, 8});
      attention("odd sizes", p, {1, 2, 2, 5, 33, 20, 12});
      p.causal = Causal::top_left;
      attention("top left", p, {1, 2, 2, 70, 70, 64, 64});
      p.causal = Causal::bottom_right;
      attention("bottom right", p, {1, 2, 1, 40, 100, 32, 32}, true);
      p.causal = Causal::none;
      p.scale = 0.25;
      p.mask = MaskKind::boolean;
      attention("boolean mask", p, {2, 2, 2, 33, 50, 32, 32});
      p.mask = MaskKind::additive;
      p.mask_dtype = dtype;
      attention("additive mask", p, {1, 2, 1, 18, 65, 128, 128});
      p.nan_if_fully_masked = true;
      attention("nan", p, {1, 2, 1, 18, 65, 16, 16});
      AttentionProblem with;
      with.qkv = with.out = dtype;
      const DType acc = dtype == DType::f64 ? dtype : DType::f32;
      epilogue(attention("epilogue", with, {2, 2, 2, 20, 30, 16, 16}), dtype, 2 * 2 * 20, 16, acc);
      with.computed = 1;
      prologue(attention("prologue", with, {1, 2, 2, 20, 30, 16, 16}), 0, dtype, 2 * 20 * 16, acc);
    }
    AttentionProblem large;
    large.qkv = large.out = DType::f16;
    attention("large heads", large, {1, 1, 1, 17, 40, 256, 256});
    attention("huge heads", large, {1, 1, 1, 3, 9, 576, 512});
  }

  // ---- sorting ----

  void sorts() {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      for (const int64_t length : {1, 7, 130}) {
        problems::SortProblem p;
        p.dtype = dtype;
        p.descending = length % 2 == 0;
        p.batch_rank = 2;
        p.values = length != 7;
        ProblemCase& c = start("sort", p);
        const int64_t kept = length == 130 ? 20 : length;
        // Rows lie in the middle: strided.
        c.dims = {length, kept, 2, 3, length * 3, 1, 3};
        if (p.values) append(c.dims, {kept * 3, kept, 1});
        append(c.dims, {kept * 3, kept, 1});
        buffer(c, dtype, 2 * 3 * length, false, -3, 3);
        if (is_float(dtype) && length > 10) {
          c.buffers[0].set(5, NAN);
          c.buffers[0].set(8, -0.0);
          c.buffers[0].set(14, 0.0);
          c.buffers[0].set(11, -HUGE_VAL);
        }
        if (p.values) buffer(c, dtype, 2 * 3 * kept, true);
        buffer(c, DType::i64, 2 * 3 * kept, true);
        c.tolerance = 0;
      }
    }
    problems::SortProblem p;
    ProblemCase& c = start("long row", p);
    c.dims = {40000, 40000, 1, 1, 1};
    buffer(c, DType::f32, 40000, false, -3, 3);
    buffer(c, DType::f32, 40000, true);
    buffer(c, DType::i64, 40000, true);
    p.descending = true;
    ProblemCase& top = start("few of a long row", p);
    top.dims = {40000, 50, 1, 1, 1};
    buffer(top, DType::f32, 40000, false, -3, 3);
    buffer(top, DType::f32, 50, true);
    buffer(top, DType::i64, 50, true);
    for (ProblemCase* longer : {&c, &top}) longer->tolerance = 0;
    // Many equal elements, several rows, all kinds of keys.
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::u8, DType::f64}) {
      problems::SortProblem few;
      few.dtype = dtype;
      few.descending = dtype != DType::i64;
      few.batch_rank = 1;
      ProblemCase& s = start("few of rows", few);
      s.dims = {5000, 40, 2, 5000, 1, 40, 1, 40, 1};
      buffer(s, dtype, 2 * 5000, false, -3, 3);
      if (is_float(dtype)) s.buffers[0].set(4000, NAN);
      buffer(s, dtype, 80, true);
      buffer(s, DType::i64, 80, true);
      s.tolerance = 0;
    }
  }
};

}  // namespace

std::vector<ProblemCase> problem_cases() {
  Builder b;
  b.products();
  b.attached_products();
  b.quantised_products();
  b.groups();
  b.convolutions();
  b.attentions();
  b.sorts();
  return {std::make_move_iterator(b.cases.begin()), std::make_move_iterator(b.cases.end())};
}

}  // namespace gex::codegen
