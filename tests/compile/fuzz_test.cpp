// Random graphs, compiled and fused, against the interpreter. GEX_FUZZ_SEEDS=n runs more of them.

#include <cstdlib>

#include "harness.hpp"
#include "ops/build.hpp"

namespace gex::test {
namespace {

class GraphFuzzer {
 public:
  explicit GraphFuzzer(unsigned seed) : random_(seed) {}

  struct Sample {
    std::string text;
    std::vector<HostTensor> inputs;
  };

  Sample make() {
    Graph graph("fuzz");
    Dim s0 = Dim::symbol("s0", {2, 64}), s1 = Dim::symbol("s1", {2, 64});
    std::int64_t n0 = 2 + pick(9), n1 = 2 + pick(40);
    bool symbolic = pick(2) == 0;
    rows_ = symbolic ? s0 : Dim(n0);
    columns_ = symbolic ? s1 : Dim(n1);
    std::vector<Shape> shapes = {
        {rows_, columns_}, {columns_}, {rows_, Dim(1)}, {rows_, columns_, Dim(4)}};
    Sample sample;
    for (const Shape& shape : shapes) {
      Value* input =
          graph.add_input(Type::tensor(DType::f32, shape), "x" + std::to_string(values_.size()));
      values_.push_back(input);
      std::vector<std::int64_t> sizes;
      for (Dim d : shape) {
        sizes.push_back(d.eval([&](Dim s) { return s == s0 ? n0 : n1; }));
      }
      sample.inputs.push_back(random_tensor(DType::f32, sizes, random_));
    }
    int steps = 3 + pick(14);
    for (int k = 0; k < steps; ++k) {
      if (Value* v = grow(graph)) values_.push_back(v);
    }
    std::size_t outputs = 1 + static_cast<std::size_t>(pick(3));
    for (std::size_t k = 0; k < outputs; ++k) graph.add_output(values_[values_.size() - 1 - k]);
    sample.text = print(graph);
    return sample;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Value* any() {
    // Recent values more often: chains make deeper fusions.
    std::size_t n = values_.size();
    return values_[n - 1 -
                   std::min<std::size_t>(
                       n - 1, static_cast<std::size_t>(pick(4) == 0 ? pick(static_cast<int>(n))
                                                                    : pick(3)))];
  }

  Value* grow(Graph& g) {
    Value* x = any();
    int rank = x->type().rank();
    switch (pick(14)) {
      case 0:
        return ops::tanh(g, x);
      case 1:
        return ops::sigmoid(g, x);
      case 2:
        return ops::abs(g, x);
      case 3:
      case 4: {
        Value* y = any();
        if (x->type().shape != y->type().shape) return ops::mul(g, x, 0.5);
        return pick(2) == 0 ? ops::add(g, x, y) : ops::mul(g, x, ops::tanh(g, y));
      }
      case 5:
        if (rank == 0) return nullptr;
        return ops::sub(g, x, ops::reduce_mean(g, x, {pick(rank)}, true));
      case 6:
        if (rank == 0) return nullptr;
        return pick(2) == 0 ? ops::reduce_sum(g, x, {pick(rank)}, pick(2) == 0)
                            : ops::reduce_max(g, x, {pick(rank)}, pick(2) == 0);
      case 7:
        if (rank == 0) return nullptr;
        return ops::softmax(g, x, pick(rank));
      case 8: {
        if (rank < 2) return nullptr;
        return ops::swap_axes(g, x, pick(rank), pick(rank));
      }
      case 9:
        return ops::reshape(g, x, {x->type().numel()});
      case 10: {
        if (rank < 2) return nullptr;
        Shape shape = x->type().shape;
        Dim joined = shape[0] * shape[1];
        shape.erase(shape.begin());
        shape[0] = joined;
        return ops::reshape(g, x, shape);
      }
      case 11: {
        if (rank == 0) return nullptr;
        return ops::cat(g, {x, ops::neg(g, x)}, pick(rank));
      }
      case 12: {
        if (rank < 2) return nullptr;
        Shape shape = x->type().shape;
        return ops::matmul(g, x, ops::swap_axes(g, ops::tanh(g, x), rank - 2, rank - 1));
      }
      default: {
        if (rank == 0) return nullptr;
        int axis = pick(rank);
        Dim size = x->type().shape[static_cast<std::size_t>(axis)];
        if (!provably_nonnegative(size - Dim(2))) return nullptr;
        return ops::slice(g, x, axis, Dim(1), size - Dim(1));
      }
    }
  }

  std::mt19937 random_;
  std::vector<Value*> values_;
  Dim rows_, columns_;
};

TEST(Fuzz, CompiledGraphsAgreeWithTheInterpreter) {
  const char* wanted = std::getenv("GEX_FUZZ_SEEDS");
  const char* first = std::getenv("GEX_FUZZ_FIRST");
  int from = first ? std::atoi(first) : 0;
  int seeds = wanted ? std::atoi(wanted) : 60;
  for (int seed = from; seed < from + seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphFuzzer::Sample sample = GraphFuzzer(static_cast<unsigned>(seed)).make();
    try {
      check(sample.text, sample.inputs, 1e-4);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << sample.text;
    }
  }
}

}  // namespace
}  // namespace gex::test
