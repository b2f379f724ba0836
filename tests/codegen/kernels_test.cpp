// The hand-written kernels of tests/loop, compiled.

#include "harness.hpp"

namespace gex::codegen {
namespace {

std::vector<std::int64_t> sizes(std::initializer_list<std::int64_t> s) { return s; }

TEST(HandWritten, SoftmaxForRowsOfEveryKindOfLength) {
  for (std::int64_t cols : {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 1000})
    check(random_case(hand_written("softmax"), {5, cols}));
}

TEST(HandWritten, LayerNorm) {
  for (std::int64_t cols : {1, 16, 37, 129})
    check(random_case(hand_written("layer_norm"), {4, cols}), 64);
}

TEST(HandWritten, Variance) {
  for (std::int64_t n : {1, 5, 33, 257}) {
    auto kernel = hand_written("variance");
    check(random_case(kernel, std::vector<std::int64_t>(kernel.symbols().size(), n)), 64);
  }
}

TEST(HandWritten, ArgmaxWithNaNAndTies) {
  for (std::int64_t cols : {1, 7, 16, 50, 200}) {
    Case c = random_case(hand_written("argmax"), {9, cols});
    HostTensor& x = buffer(c, "x");
    for (std::int64_t i = 0; i < x.numel(); ++i)
      x.set(i, static_cast<double>(static_cast<std::int64_t>(x.get(i))));
    if (cols > 6) x.set(cols + 6, NAN);
    for (std::int64_t j = 0; j < cols; ++j) x.set(2 * cols + j, -INFINITY);
    check(c, 0);
  }
}

TEST(HandWritten, Cumsum) {
  for (std::int64_t cols : {0, 1, 5, 40}) check(random_case(hand_written("cumsum"), {6, cols}), 32);
}

TEST(HandWritten, SumOverTheFirstAxis) {
  for (std::int64_t cols : {1, 3, 16, 100})
    check(random_case(hand_written("sum_axis0"), {33, cols}), 32);
}

TEST(HandWritten, Cat) {
  for (auto s : {sizes({2, 2, 1}), sizes({3, 0, 5}), sizes({7, 33, 20}), sizes({1, 16, 0})})
    check(random_case(hand_written("cat"), s), 0);
}

TEST(HandWritten, Matmul) {
  auto kernel = hand_written("matmul");
  for (std::int64_t n : {1, 7, 40})
    check(random_case(kernel, std::vector<std::int64_t>(kernel.symbols().size(), n)), 64);
}

TEST(HandWritten, MaxPoolWithIndices) {
  for (auto s : {sizes({2, 5, 6}), sizes({1, 1, 1}), sizes({3, 20, 37})})
    check(random_case(hand_written("max_pool"), s), 0);
}

TEST(HandWritten, Bilinear) {
  auto kernel = hand_written("bilinear");
  for (std::int64_t n : {2, 5, 19})
    check(random_case(kernel, std::vector<std::int64_t>(kernel.symbols().size(), n)), 32);
}

TEST(HandWritten, EmbeddingGradient) {
  for (auto s : {sizes({20, 1, 10}), sizes({50, 37, 10}), sizes({1, 16, 10})})
    check(random_case(hand_written("embedding_gradient"), s), 32);
}

TEST(HandWritten, RotaryEmbeddingIntoTheCache) {
  for (auto s : {sizes({1, 1, 1, 1, 10}), sizes({2, 3, 5, 8, 10}), sizes({1, 2, 4, 33, 12})})
    check(random_case(hand_written("rotary_kv"), s));
}

TEST(HandWritten, DropoutDrawsTheBitsOfTheReference) {
  auto kernel = hand_written("dropout");
  for (std::int64_t n : {1, 17, 100})
    check(random_case(kernel, std::vector<std::int64_t>(kernel.symbols().size(), n)), 1);
}

}  // namespace
}  // namespace gex::codegen
