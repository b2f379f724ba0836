#include "check/generate_training.hpp"

#include <functional>
#include <random>

#include "base/error.hpp"
#include "ops/core/build.hpp"

namespace gex::check {
namespace {

class TrainingStep {
 public:
  explicit TrainingStep(std::uint64_t seed) : random_(seed) {}

  std::unique_ptr<Graph> run(int layers) {
    const DType dtypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16};
    dtype_ = dtypes[below(5)];
    rows_ = below(3) == 0 ? Dim(std::int64_t{2} + below(7)) : Dim::symbol("s0", {1, 64});
    width_ = 2 * (1 + below(4));
    last_ = input({rows_, width_});
    kept_.push_back(last_);
    for (int k = 0; k < layers; ++k) add_layer();
    Value* gradient = below(2) == 0 ? input(last_->type().shape)
                                    : ops::full(g_, dtype_, 0.5, last_->type().shape);
    std::vector<Value*> outputs{last_};
    for (std::size_t k = backward_.size(); k-- > 0;) gradient = backward_[k](gradient);
    outputs.push_back(gradient);
    for (const auto& [parameter, its_gradient] : parameters_) {
      const bool in_place = below(2) == 0;
      if (in_place) g_.ties().push_back({static_cast<int>(outputs.size()), parameter->index()});
      outputs.push_back(in_place ? ops::sub(g_, parameter, ops::mul(g_, its_gradient, 0.125))
                                 : its_gradient);
    }
    g_.set_outputs(outputs);
    verify(g_);
    return std::move(graph_);
  }

 private:
  using Backward = std::function<Value*(Value*)>;

  unsigned below(std::size_t n) { return static_cast<unsigned>(random_() % n); }
  Value* input(Shape shape) {
    return g_.add_input(Type::tensor(dtype_, std::move(shape)), str("x_", g_.inputs().size()));
  }
  void learn(Value* parameter, Value* gradient) { parameters_.emplace_back(parameter, gradient); }

  // Replaces the current values by y, and records how the gradient of y becomes theirs.
  void then(Value* y, Backward backward) {
    last_ = y;
    kept_.push_back(y);
    backward_.push_back(std::move(backward));
  }

  void add_layer() {
    switch (below(8)) {
      case 0:
        return linear();
      case 1:
        return activation();
      case 2:
        return norm();
      case 3:
        return softmax();
      case 4:
        return scale();
      case 5:
        return shuffle();
      case 6:
        return gate();
      default:
        return residual();
    }
  }

  void linear() {
    Value* x = last_;
    const std::int64_t wide = 2 * (1 + below(4));
    const bool turned = below(2) == 0;  // stored as in PyTorch: [out, in]
    Value* w = input(turned ? Shape{wide, width_} : Shape{width_, wide});
    Value* b = input({wide});
    Value* right = turned ? ops::transpose(g_, w, {1, 0}) : w;
    width_ = wide;
    then(ops::add(g_, ops::matmul(g_, x, right), b), [=, this](Value* g) {
      Value* gw = ops::matmul(g_, ops::transpose(g_, x, {1, 0}), g);
      learn(w, turned ? ops::transpose(g_, gw, {1, 0}) : gw);
      learn(b, ops::reduce_sum(g_, g, {0}));
      return ops::matmul(g_, g, ops::transpose(g_, right, {1, 0}));
    });
  }

  void activation() {
    Value* x = last_;
    switch (below(3)) {
      case 0: {
        // Input in [-1, 1]: close to the ends of tanh, 1 - y*y would only show rounding errors.
        Value* y = ops::tanh(g_, ops::sin(g_, x));
        return then(y, [=, this](Value* g) {
          Value* slope = ops::sub(g_, ops::scalar(g_, dtype_, 1), ops::square(g_, y));
          return ops::mul(g_, ops::mul(g_, g, slope), ops::cos(g_, x));
        });
      }
      case 1:
        return then(ops::relu(g_, x), [=, this](Value* g) {
          Value* zero = ops::scalar(g_, dtype_, 0);
          return ops::where(g_, ops::gt(g_, x, zero), g, zero);
        });
      default: {
        Value* s = ops::sigmoid(g_, x);
        return then(ops::mul(g_, x, s), [=, this](Value* g) {
          Value* rest = ops::sub(g_, ops::scalar(g_, dtype_, 1), s);
          return ops::mul(g_, g, ops::mul(g_, s, ops::add(g_, ops::mul(g_, x, rest), 1)));
        });
      }
    }
  }

  void norm() {
    Value* x = last_;
    Value* weight = input({width_});
    Value* centred = ops::sub(g_, x, ops::reduce_mean(g_, x, {1}, true));
    Value* variance = ops::reduce_mean(g_, ops::square(g_, centred), {1}, true);
    Value* factor = ops::rsqrt(g_, ops::add(g_, variance, 0.125));
    Value* normed = ops::mul(g_, centred, factor);
    then(ops::mul(g_, normed, weight), [=, this](Value* g) {
      learn(weight, ops::reduce_sum(g_, ops::mul(g_, g, normed), {0}));
      Value* scaled = ops::mul(g_, g, weight);
      Value* mean = ops::reduce_mean(g_, scaled, {1}, true);
      Value* along = ops::reduce_mean(g_, ops::mul(g_, scaled, normed), {1}, true);
      Value* inner = ops::sub(g_, ops::sub(g_, scaled, mean), ops::mul(g_, normed, along));
      return ops::mul(g_, factor, inner);
    });
  }

  void softmax() {
    Value* y = ops::softmax(g_, last_, 1);
    then(y, [=, this](Value* g) {
      Value* total = ops::reduce_sum(g_, ops::mul(g_, g, y), {1}, true);
      return ops::mul(g_, y, ops::sub(g_, g, total));
    });
  }

  void scale() {
    Value* x = last_;
    Value* w = input(below(2) == 0 ? Shape{width_} : Shape{});
    then(ops::mul(g_, x, w), [=, this](Value* g) {
      learn(w, ops::sum_to(g_, ops::mul(g_, g, x), w->type().shape));
      return ops::mul(g_, g, w);
    });
  }

  // Pairs of adjacent columns become pairs of halves.
  void shuffle() {
    const std::int64_t half = width_ / 2;
    const Shape flat = last_->type().shape;
    const auto turned = [=, this](Value* v, std::int64_t a, std::int64_t b) {
      Value* apart = ops::reshape(g_, v, {rows_, a, b});
      return ops::reshape(g_, ops::transpose(g_, apart, {0, 2, 1}), flat);
    };
    then(turned(last_, half, 2), [=](Value* g) { return turned(g, 2, half); });
  }

  // Multiplies one half by the other, then restores the width.
  void gate() {
    Value* x = last_;
    const std::int64_t half = width_ / 2;
    Value* a = ops::slice(g_, x, 1, 0, half);
    Value* b = ops::slice(g_, x, 1, half, half);
    Value* product = ops::mul(g_, a, b);
    then(ops::cat(g_, {product, a}, 1), [=, this](Value* g) {
      Value* of_product = ops::slice(g_, g, 1, 0, half);
      Value* of_a = ops::add(g_, ops::mul(g_, of_product, b), ops::slice(g_, g, 1, half, half));
      return ops::cat(g_, {of_a, ops::mul(g_, of_product, a)}, 1);
    });
  }

  // Adds an earlier value; the gradient only follows the main path.
  void residual() {
    Value* other = kept_[below(kept_.size())];
    if (other->type().shape != last_->type().shape) return;
    then(ops::add(g_, last_, other), [](Value* g) { return g; });
  }

  std::mt19937_64 random_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>("training");
  Graph& g_ = *graph_;
  DType dtype_ = DType::f32;
  Dim rows_ = 1;
  std::int64_t width_ = 2;
  Value* last_ = nullptr;
  std::vector<Value*> kept_;
  std::vector<Backward> backward_;
  std::vector<std::pair<Value*, Value*>> parameters_;
};

}  // namespace

std::unique_ptr<Graph> random_training_step(std::uint64_t seed, int layers) {
  return TrainingStep(seed).run(layers);
}

}  // namespace gex::check
