// A transformer block: norm, attention with four heads, residual, norm, feed-forward, residual.

#include "show.hpp"

using namespace gex::es;

namespace {

constexpr std::int64_t kWidth = 64, kHeads = 4, kHidden = 128;

class Block {
 public:
  explicit Block(EsGraphBuilder& builder) : builder_(builder) {}

  EsTensorHolder operator()(const EsTensorHolder& x) {
    auto y = x + Attend(Norm(x));
    return y + Linear(Gelu(Linear(Norm(y), kHidden)), kWidth);
  }

 private:
  EsTensorHolder Norm(const EsTensorHolder& x) {
    return LayerNorm(x, Weights({kWidth}), Weights({kWidth}), 1).result;
  }
  EsTensorHolder Linear(const EsTensorHolder& x, std::int64_t width) {
    const std::int64_t from = x.shape().back();
    return Matmul(x, Weights({from, width}) * (1 / std::sqrt(static_cast<double>(from)))) +
           Weights({width});
  }
  // [tokens, kWidth] -> [kHeads, tokens, kWidth / kHeads]
  EsTensorHolder Heads(const EsTensorHolder& x) {
    return Transpose(Reshape(x, {x.sizes()[0], kHeads, kWidth / kHeads}), {1, 0, 2});
  }
  EsTensorHolder Attend(const EsTensorHolder& x) {
    auto q = Heads(Linear(x, kWidth)), k = Heads(Linear(x, kWidth)), v = Heads(Linear(x, kWidth));
    auto scores = Matmul(q, Transpose(k, {0, 2, 1})) * (1 / std::sqrt(kWidth / kHeads));
    auto y = Transpose(Matmul(Softmax(scores, -1), v), {1, 0, 2});
    return Linear(Reshape(y, x.sizes()), kWidth);
  }
  EsTensorHolder Weights(std::vector<std::int64_t> shape) {
    return builder_.CreateConst(examples::Numbers(std::move(shape), phase_ += 0.3f));
  }

  EsGraphBuilder& builder_;
  float phase_ = 0;
};

}  // namespace

int main() {
  EsGraphBuilder builder("transformer_block");
  auto x = builder.CreateInput(0, "x", DType::f32, {"tokens", kWidth});
  const auto program = examples::Show(*builder.BuildAndReset({Block(builder)(x)}));
  for (std::int64_t tokens : {5, 12}) examples::Run(program, {examples::Numbers({tokens, kWidth})});
}
