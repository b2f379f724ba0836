// RNN, GRU and LSTM: one matmul for the inputs of all steps, then the steps: unrolled if there are
// few, else a loop of the graph.

#include <algorithm>

#include "frontend/onnx/activation.hpp"
#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/matmul.hpp"
#include "ops/control.hpp"

namespace gex::onnx {
Expr Activation::operator()(Expr x) const {
  if (name == "sigmoid") return sigmoid(x);
  if (name == "tanh") return tanh(x);
  if (name == "relu") return max(x, 0);
  if (name == "affine") return x * alpha + beta;
  if (name == "leakyrelu") return where(x >= 0, x, x * alpha);
  if (name == "thresholdedrelu") return where(x > alpha, x, x.number(0));
  if (name == "scaledtanh") return tanh(x * beta) * alpha;
  if (name == "hardsigmoid") return max(min(x * alpha + beta, 1), 0);
  if (name == "elu") return where(x > 0, x, unary("expm1", min(x, 0)) * alpha);
  if (name == "softsign") return x / (abs(x) + 1);
  if (name == "softplus") return max(x, 0) + unary("log1p", exp(-abs(x)));
  fail(ErrorCode::unsupported, "activation ", name);
}

double default_alpha(const std::string& name) {
  if (name == "leakyrelu") return 0.01f;
  if (name == "hardsigmoid") return 0.2f;
  return 1;
}

namespace {

constexpr std::int64_t kUnrolledSteps = 32;  // steps that are unrolled

struct Cell {
  std::string kind;  // RNN, GRU, LSTM
  std::vector<Activation> activations;
  double clip = 0;
  bool linear_before_reset = false, input_forget = false;
  std::int64_t hidden = 0;

  Expr clipped(Expr x) const { return clip > 0 ? max(min(x, clip), -clip) : x; }
  Expr gate(Expr x, std::int64_t k) const { return slice(x, 1, k * hidden, hidden); }

  // inputs: the step's part of the matmul with W, with biases added where possible. weights: R^T,
  // the recurrent bias of GRU's hidden gate, peepholes.
  std::pair<Expr, Expr> step(Expr inputs, Expr h, Expr c, std::span<Value* const> weights) const {
    Graph& g = h.g;
    Expr r(g, weights[0]);
    const auto& f = activations;
    if (kind == "RNN") return {f[0](clipped(inputs + matmul(h, r))), c};
    if (kind == "GRU") {
      Expr bias(g, weights[1]);
      Expr zr = slice(inputs, 1, 0, 2 * hidden) + matmul(h, slice(r, 1, 0, 2 * hidden));
      Expr z = f[0](clipped(gate(zr, 0))), reset = f[0](clipped(gate(zr, 1)));
      Expr rh = slice(r, 1, 2 * hidden, hidden);
      Expr inner =
          linear_before_reset ? reset * (matmul(h, rh) + bias) : matmul(reset * h, rh) + bias;
      Expr next = f[1](clipped(gate(inputs, 2) + inner));
      return {(1.0 - z) * next + z * h, c};
    }
    Expr all = inputs + matmul(h, r);
    Expr i = gate(all, 0), o = gate(all, 1), forget = gate(all, 2), cell = gate(all, 3);
    const bool peep = weights.size() > 1;
    const auto peephole = [&](std::int64_t k) {
      return slice(Expr(g, weights[1]), 0, k * hidden, hidden);
    };
    if (peep) {
      i = i + peephole(0) * c;
      forget = forget + peephole(2) * c;
    }
    i = f[0](clipped(i));
    forget = input_forget ? 1.0 - i : f[0](clipped(forget));
    Expr next = forget * c + i * f[1](clipped(cell));
    if (peep) o = o + peephole(1) * next;
    return {f[0](clipped(o)) * f[2](next), next};
  }
};

struct Direction {
  Expr all, h, c;  // [time, batch, hidden], [batch, hidden], [batch, hidden]
};

// After the end of a sequence the state stays and the step returns zeros.
struct Masked {
  Expr h, c, y;
};
Masked masked(Expr step_h, Expr step_c, Expr h, Expr c, Value* lengths, Expr time) {
  if (lengths == nullptr) return {step_h, step_c, step_h};
  Expr on = unsqueeze(time < Expr(h.g, lengths).to(DType::i64), 1);
  return {where(on, step_h, h), where(on, step_c, c), where(on, step_h, h.number(0))};
}

Direction looped(const Cell& cell, Expr xw, Expr h, Expr c, const std::vector<Value*>& weights,
                 Value* lengths, bool backwards) {
  Graph& g = xw.g;
  const Shape s = xw.shape();
  Value* buffer = ops::full(g, xw.dtype(), 0, {s[0], s[1], Dim(cell.hidden)});
  std::vector<Value*> operands{ops::scalar_int(g, DType::i64, 0),
                               ops::dim_value(g, s[0]),
                               ops::scalar_int(g, DType::i64, 1),
                               h,
                               c,
                               buffer,
                               xw};
  operands.insert(operands.end(), weights.begin(), weights.end());
  if (lengths != nullptr) operands.push_back(lengths);
  auto body = std::make_unique<Graph>("step");
  Graph& b = *body;
  std::vector<Value*> given{b.add_input(Type::tensor(DType::i64, {}))};
  for (std::size_t k = 3; k < operands.size(); ++k) {
    const Type& type = operands[k]->type();
    given.push_back(b.add_input(Type::tensor(type.dtype, type.shape)));
  }
  Expr index(b, given[0]), h0(b, given[1]), c0(b, given[2]);
  Expr time = backwards ? Expr(b, ops::dim_value(b, s[0] - 1)) - index : index;
  Expr at = reshape(time, {Dim(1)});
  Expr inputs = reshape(take(Expr(b, given[4]), at, 0), {s[1], s[2]});
  const std::vector<Value*> inner(given.begin() + 5,
                                  given.begin() + 5 + static_cast<std::ptrdiff_t>(weights.size()));
  const auto [h1, c1] = cell.step(inputs, h0, c0, inner);
  const Masked m = masked(h1, c1, h0, c0, lengths != nullptr ? given.back() : nullptr, time);
  Value* put = ops::index_put(b, given[3], unsqueeze(m.y, 0), {at.v}, {0});
  b.set_outputs({m.h, m.c, put});
  std::vector<std::unique_ptr<Graph>> graphs;
  graphs.push_back(std::move(body));
  const Node* node = g.add(op("for"), operands, to_attr_list(ops::For{3}), std::move(graphs));
  return {{g, node->output(2)}, {g, node->output(0)}, {g, node->output(1)}};
}

Direction unrolled(const Cell& cell, Expr xw, Expr h, Expr c, const std::vector<Value*>& weights,
                   Value* lengths, bool backwards, std::int64_t length) {
  Graph& g = xw.g;
  std::vector<Value*> rows(static_cast<std::size_t>(length));
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t t = backwards ? length - 1 - k : k;
    const auto [h1, c1] = cell.step(select(xw, 0, t), h, c, weights);
    const Masked m = masked(h1, c1, h, c, lengths, {g, ops::scalar_int(g, DType::i64, t)});
    h = m.h;
    c = m.c;
    rows[static_cast<std::size_t>(t)] = unsqueeze(m.y, 0);
  }
  if (rows.empty())
    return {{g, ops::full(g, xw.dtype(), 0, {Dim(0), xw.shape()[1], Dim(cell.hidden)})}, h, c};
  return {{g, rows.size() == 1 ? rows[0] : ops::cat(g, rows, 0)}, h, c};
}

class Recurrent {
 public:
  // `quantised_at`: input number of the scale and zero point of W, followed by those of R; 0: none.
  Recurrent(Row& r, const char* kind, std::int64_t gates, std::vector<std::string> defaults,
            std::size_t quantised_at = 0)
      : r_(r), g_(r.g), gates_(gates), defaults_(std::move(defaults)), quantised_at_(quantised_at) {
    cell_.kind = kind;
    cell_.clip = r.float_attr("clip", 0);
    cell_.linear_before_reset = r.int_attr("linear_before_reset", 0) != 0;
    cell_.input_forget = r.int_attr("input_forget", 0) != 0;
    const Shape& recurrent = r.shape(2);
    const auto hidden = (quantised_at == 0 ? recurrent[2] : recurrent[1]).as_const();
    if (!hidden) r.refuse("the size of the state is not known");
    cell_.hidden = *hidden;
    batch_first_ = r.int_attr("layout", 0) != 0;
    x_ = batch_first_ ? transpose(wide(r, 0), {1, 0, 2}).v : wide(r, 0).v;
  }

  Items run() {
    const std::string direction = r_.string_attr("direction", "forward");
    const std::int64_t count = direction == "bidirectional" ? 2 : 1;
    std::vector<Value*> all, hs, cs;
    for (std::int64_t d = 0; d < count; ++d) {
      const Direction out = one(d, direction == "reverse" || d == 1);
      all.push_back(unsqueeze(out.all, 1));
      hs.push_back(unsqueeze(out.h, 0));
      cs.push_back(unsqueeze(out.c, 0));
    }
    const auto joined = [&](const std::vector<Value*>& parts, std::int64_t axis) {
      return Expr(g_, parts.size() == 1 ? parts[0] : ops::cat(g_, parts, axis)).to(r_.dtype());
    };
    Expr y = joined(all, 1), h = joined(hs, 0), c = joined(cs, 0);
    if (batch_first_) {
      y = transpose(y, {2, 0, 1, 3});
      h = transpose(h, {1, 0, 2});
      c = transpose(c, {1, 0, 2});
    }
    Items items{Item::tensor(y, r_.elem()), Item::tensor(h, r_.elem())};
    if (cell_.kind == "LSTM") items.push_back(Item::tensor(c, r_.elem()));
    return items;
  }

 private:
  Expr part(std::size_t i, std::int64_t d) { return select(wide(r_, i), 0, d); }
  // W or R of a direction as the right operand of a matmul: [inputs, gates].
  Expr weight(std::size_t i, std::int64_t d) {
    if (quantised_at_ == 0) return transpose(part(i, d), {1, 0});
    const std::size_t scale = quantised_at_ + (i - 1) * 2;
    const auto row = [&](std::size_t k) { return select(expr(r_, k).to(DType::f32), 0, d); };
    return (select(expr(r_, i).to(DType::f32), 0, d) - row(scale + 1)) * row(scale);
  }

  void choose_activations(std::int64_t d) {
    const auto names = r_.strings_attr("activations");
    const auto alphas = r_.floats_attr("activation_alpha"),
               betas = r_.floats_attr("activation_beta");
    cell_.activations.clear();
    for (std::size_t k = 0; k < defaults_.size(); ++k) {
      const std::size_t at = static_cast<std::size_t>(d) * defaults_.size() + k;
      std::string name = at < names.size() ? names[at] : defaults_[k];
      std::ranges::transform(name, name.begin(), [](unsigned char ch) { return std::tolower(ch); });
      const double beta = name == "hardsigmoid" ? 0.5 : name == "scaledtanh" ? 1 : 0;
      cell_.activations.push_back({name, at < alphas.size() ? alphas[at] : default_alpha(name),
                                   at < betas.size() ? betas[at] : beta});
    }
  }

  Expr initial(std::size_t i, std::int64_t d) {
    const Dim batch = x_->type().shape[1];
    if (!r_.has(i)) return {g_, ops::full(g_, x_->type().dtype, 0, {batch, Dim(cell_.hidden)})};
    Expr h = wide(r_, i);
    return batch_first_ ? select(h, 1, d) : select(h, 0, d);
  }

  Direction one(std::int64_t d, bool backwards) {
    choose_activations(d);
    const std::int64_t h = cell_.hidden;
    Expr xw(g_, matmul_any_rank(g_, x_, weight(1, d)));
    std::vector<Value*> weights{weight(2, d)};
    Expr late_bias(g_, ops::full(g_, xw.dtype(), 0, {Dim(h)}));
    if (r_.has(3)) {
      Expr both = part(3, d);
      Expr wb = slice(both, 0, 0, gates_ * h), rb = slice(both, 0, gates_ * h, gates_ * h);
      if (cell_.kind == "GRU") {  // the hidden gate's recurrent bias goes inside the reset
        late_bias = slice(rb, 0, 2 * h, h);
        rb = {g_,
              ops::cat(g_, {slice(rb, 0, 0, 2 * h).v, ops::full(g_, xw.dtype(), 0, {Dim(h)})}, 0)};
      }
      xw = xw + wb + rb;
    }
    if (cell_.kind == "GRU") weights.push_back(late_bias);
    if (cell_.kind == "LSTM" && r_.has(7)) weights.push_back(part(7, d));
    Value* lengths = r_.in_or_null(4);
    Expr h0 = initial(5, d);
    Expr c0 = cell_.kind == "LSTM" ? initial(6, d) : h0;
    const auto length = xw.shape()[0].as_const();
    if (length && *length <= kUnrolledSteps)
      return unrolled(cell_, xw, h0, c0, weights, lengths, backwards, *length);
    return looped(cell_, xw, h0, c0, weights, lengths, backwards);
  }

  Row& r_;
  Graph& g_;
  std::int64_t gates_;
  std::vector<std::string> defaults_;
  std::size_t quantised_at_;
  Cell cell_;
  bool batch_first_ = false;
  Value* x_ = nullptr;
};

}  // namespace

void add_recurrent_rows() {
  add_row("RNN", [](Row& r) { return Recurrent(r, "RNN", 1, {"Tanh"}).run(); });
  add_row("GRU", [](Row& r) { return Recurrent(r, "GRU", 3, {"Sigmoid", "Tanh"}).run(); });
  add_row("LSTM",
          [](Row& r) { return Recurrent(r, "LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}).run(); });
  // The weights are 8-bit integers; the matmuls are computed in f32, without quantising the inputs.
  add_row("com.microsoft", "DynamicQuantizeLSTM",
          [](Row& r) { return Recurrent(r, "LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}, 8).run(); });
}

}  // namespace gex::onnx
