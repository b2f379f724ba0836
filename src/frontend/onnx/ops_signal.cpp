// Signals: windows, DFT, STFT, mel weights. A transform is a matmul with a matrix of cosines and
// sines.

#include <cmath>

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {
namespace {

std::int64_t fixed(const Row& r, Dim d) {
  const auto n = d.as_const();
  if (!n) r.refuse("the length of the signal is not known at import");
  return *n;
}

// cos and sin of 2*pi*j*k/n as [inputs, outputs].
struct Waves {
  Expr cosines, sines;
};
Waves waves(Graph& g, std::int64_t inputs, std::int64_t outputs, std::int64_t n, DType t) {
  HostTensor c(DType::f64, {inputs, outputs}), s(DType::f64, {inputs, outputs});
  for (std::int64_t j = 0; j < inputs; ++j)
    for (std::int64_t k = 0; k < outputs; ++k) {
      const double angle = 2 * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n);
      c.set(j * outputs + k, std::cos(angle));
      s.set(j * outputs + k, std::sin(angle));
    }
  return {Expr(g, ops::constant(g, std::move(c))).to(t),
          Expr(g, ops::constant(g, std::move(s))).to(t)};
}

Expr stacked(Expr re, Expr im) {
  const std::int64_t axis = re.rank();
  return {re.g, ops::cat(re.g, {unsqueeze(re, axis).v, unsqueeze(im, axis).v}, axis)};
}

// x with exactly n elements on its last axis: truncated, or padded with zeros.
Expr fitted(const Row& r, Expr x, std::int64_t n) {
  const std::int64_t size = fixed(r, x.shape().back());
  const std::int64_t axis = x.rank() - 1;
  if (size >= n) return slice(x, axis, 0, n);
  Dims low(x.shape().size()), high(x.shape().size());
  high.back() = n - size;
  return {x.g, ops::pad(x.g, x, low, high, 0)};
}

// Along the last axis; the result has real and imaginary parts as a new last axis.
Expr transformed(const Row& r, Expr re, std::optional<Expr> im, std::int64_t n, bool inverse,
                 bool onesided) {
  const std::int64_t out = onesided ? n / 2 + 1 : n;
  re = fitted(r, re, n);
  const Waves w = waves(re.g, n, out, n, re.dtype());
  Expr real = matmul(re, w.cosines), imaginary = -matmul(re, w.sines);
  if (inverse) imaginary = -imaginary;
  if (im) {
    Expr other = fitted(r, *im, n);
    Expr a = matmul(other, w.sines), b = matmul(other, w.cosines);
    real = inverse ? real - a : real + a;
    imaginary = imaginary + b;
  }
  Expr y = stacked(real, imaginary);
  return inverse ? y / static_cast<double>(n) : y;
}

// One-sided spectrum to a real signal of n elements.
Expr real_inverse(const Row& r, Expr re, Expr im, std::int64_t n) {
  const std::int64_t half = n / 2 + 1;
  re = fitted(r, re, half);
  im = fitted(r, im, half);
  HostTensor factor(DType::f32, {half});
  for (std::int64_t k = 0; k < half; ++k)
    factor.set(k, k == 0 || (n % 2 == 0 && k == n / 2) ? 1 : 2);
  Expr f = Expr(re.g, ops::constant(re.g, std::move(factor))).to(re.dtype());
  const Waves w = waves(re.g, half, n, n, re.dtype());
  return (matmul(re * f, w.cosines) - matmul(im * f, w.sines)) / static_cast<double>(n);
}

Items dft(Row& r) {
  Expr x = wide(r, 0);
  const int rank = r.rank();
  std::int64_t axis = r.opset < 20 ? r.int_attr("axis", 1) : (r.has(2) ? r.integer(2, "axis") : -2);
  axis = normal_axis(axis, rank);
  const bool inverse = r.int_attr("inverse", 0) != 0, onesided = r.int_attr("onesided", 0) != 0;
  const std::int64_t size = fixed(r, x.shape()[static_cast<std::size_t>(axis)]);
  std::int64_t n = inverse && onesided ? 2 * (size - 1) : size;
  if (r.has(1)) n = r.integer(1, "length of the transform");
  const bool complex = fixed(r, x.shape().back()) == 2;
  // The transformed axis becomes the last one of the real and imaginary parts.
  const auto part = [&](std::int64_t k) {
    Expr p = select(x, rank - 1, k);
    return Expr(r.g, axis == rank - 2 ? p.v : ops::swap_axes(r.g, p, axis, rank - 2));
  };
  if (inverse && onesided) {
    Expr zero = part(0) * 0.0;
    Expr y = real_inverse(r, part(0), complex ? part(1) : zero, n);
    if (axis != rank - 2) y = {r.g, ops::swap_axes(r.g, y, axis, rank - 2)};
    return r.one(unsqueeze(y, rank - 1).to(r.dtype()));
  }
  Expr y = transformed(r, part(0), complex ? std::optional(part(1)) : std::nullopt, n, inverse,
                       onesided);
  if (axis != rank - 2) y = {r.g, ops::swap_axes(r.g, y, axis, rank - 2)};
  return r.one(y.to(r.dtype()));
}

Items stft(Row& r) {
  Graph& g = r.g;
  Expr x = wide(r, 0);
  if (x.rank() == 3)
    x = select(x, 2, 0);
  else if (x.rank() != 2)
    r.refuse("the signal must have batch, time and one value");
  if (r.rank() == 3 && !(r.shape()[2] == Dim(1))) r.refuse("complex signals are not supported");
  const std::int64_t length = fixed(r, x.shape()[1]), step = r.integer(1, "frame_step");
  std::int64_t frame = length;
  if (r.has(2)) frame = fixed(r, r.shape(2)[0]);
  if (r.has(3)) frame = r.integer(3, "frame_length");
  const std::int64_t frames = 1 + (length - frame) / step;
  HostTensor places(DType::i64, {frames, frame});
  for (std::int64_t f = 0; f < frames; ++f)
    for (std::int64_t k = 0; k < frame; ++k) places.set_int(f * frame + k, f * step + k);
  Expr windows = take(x, {g, ops::constant(g, std::move(places))}, 1);
  if (r.has(2)) windows = windows * wide(r, 2).to(x.dtype());
  const bool onesided = r.int_attr("onesided", 1) != 0;
  return r.one(transformed(r, windows, std::nullopt, frame, false, onesided).to(r.dtype()));
}

Items window(Row& r, const std::function<double(double)>& f) {
  const std::int64_t n = r.integer(0, "length of the window");
  const auto elem = static_cast<Elem>(r.int_attr("output_datatype", 1));
  const bool periodic = r.int_attr("periodic", 1) != 0;
  HostTensor values(storage_dtype(elem), {n});
  for (std::int64_t k = 0; k < n; ++k)
    values.set(k, f(static_cast<double>(k) / static_cast<double>(periodic ? n : n - 1)));
  return {r.state.constant(std::move(values), elem)};
}

Items mel_weights(Row& r) {
  const std::int64_t bins = r.integer(0, "num_mel_bins"), length = r.integer(1, "dft_length");
  const std::int64_t rate = r.integer(2, "sample_rate");
  const double low = r.number(3, "lower edge").get(0), high = r.number(4, "upper edge").get(0);
  const auto elem = static_cast<Elem>(r.int_attr("output_datatype", 1));
  const auto mel = [](double hz) { return 2595 * std::log1p(hz / 700) / std::log(10.0); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t k = 0; k < bins + 2; ++k) {
    const double m = static_cast<double>(k) * step + mel(low);
    const double hz = 700 * std::expm1(m / 2595 * std::log(10.0));
    edges.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(length + 1) * hz / static_cast<double>(rate))));
  }
  HostTensor out(storage_dtype(elem), {length / 2 + 1, bins});
  const auto put = [&](std::int64_t row, std::int64_t column, double v) {
    if (row >= 0 && row < length / 2 + 1) out.set(row * bins + column, v);
  };
  for (std::int64_t k = 0; k < bins; ++k) {
    const std::int64_t a = edges[static_cast<std::size_t>(k)],
                       b = edges[static_cast<std::size_t>(k) + 1],
                       c = edges[static_cast<std::size_t>(k) + 2];
    if (b == a) put(b, k, 1);
    for (std::int64_t j = a; b > a && j <= b; ++j)
      put(j, k, static_cast<double>(j - a) / static_cast<double>(b - a));
    for (std::int64_t j = b; c > b && j < c; ++j)
      put(j, k, static_cast<double>(c - j) / static_cast<double>(c - b));
  }
  return {r.state.constant(std::move(out), elem)};
}

}  // namespace

void add_signal_rows() {
  add_row("DFT", dft);
  add_row("STFT", stft);
  add_row("MelWeightMatrix", mel_weights);
  add_row("HannWindow", [](Row& r) {
    return window(r, [](double x) { return std::sin(M_PI * x) * std::sin(M_PI * x); });
  });
  add_row("HammingWindow", [](Row& r) {
    return window(r, [](double x) { return 25.0 / 46 - 21.0 / 46 * std::cos(2 * M_PI * x); });
  });
  add_row("BlackmanWindow", [](Row& r) {
    return window(r, [](double x) {
      return 0.42 - 0.5 * std::cos(2 * M_PI * x) + 0.08 * std::cos(4 * M_PI * x);
    });
  });
}

}  // namespace gex::onnx
