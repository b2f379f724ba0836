#include "check/generate_mutations.hpp"

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "ops/control.hpp"
#include "ops/core/build.hpp"

namespace gex::check {
namespace {

// A program over variables of one type. Each starts as an input; statements assign new values; at
// the end changed variables are written back.
class Mutations {
 public:
  explicit Mutations(std::uint64_t seed) : random_(seed) {}

  std::unique_ptr<Graph> run(int statements) {
    is_square_ = below(3) == 0;
    const Dim rows = is_square_      ? Dim(kColumns)
                     : below(3) == 0 ? Dim::symbol("s0", {3, 64})
                                     : Dim(std::int64_t{3} + below(4));
    type_ = Type::tensor(DType::f32, {rows, Dim(kColumns)});
    const std::size_t count = 2 + below(4);
    for (std::size_t k = 0; k < count; ++k) variables_.push_back(g_.add_input(type_, str("x_", k)));
    for (int k = 0; k < statements; ++k) add_statement();
    finish();
    verify(g_);
    return std::move(graph_);
  }

 private:
  static constexpr std::int64_t kColumns = 4;

  unsigned below(std::size_t n) { return static_cast<unsigned>(random_() % n); }
  Value*& any() { return variables_[below(variables_.size())]; }

  void add_statement() {
    switch (below(12)) {
      case 0:
      case 1:
        any() = any();
        return;
      case 2:
        std::swap(any(), any());
        return;
      case 3: {
        Value *&a = any(), *&b = any(), *&c = any();
        Value* old = a;
        a = b;
        b = c;
        c = old;
        return;
      }
      case 4:
      case 5:
        any() = arithmetic();
        return;
      case 6:
        return write_part();
      case 7:
        return write_flat_part();
      case 8:
        return turn();
      case 9:
        return control();
      case 10:
        return scatter_rows();
      default:
        return read();
    }
  }

  Value* arithmetic() {
    Value *a = any(), *b = any();
    switch (below(4)) {
      case 0:
        return ops::add(g_, a, b);
      case 1:
        return ops::mul(g_, a, 0.5);
      case 2:  // lerp
        return ops::add(g_, a, ops::mul(g_, ops::sub(g_, b, a), 0.25));
      default:
        return ops::sub(g_, a, ops::reduce_mean(g_, b, {1}, true));
    }
  }

  // Copies some columns or rows of one variable to another.
  void write_part() {
    Value*& to = any();
    if (below(2) == 0) {
      Value* part = ops::slice(g_, any(), 1, Dim(std::int64_t{below(3)}), 2);
      to = ops::slice_update(g_, to, part, {Dim(0), Dim(std::int64_t{below(3)})}, {1, 1});
    } else {
      Value* part = ops::slice(g_, any(), 0, Dim(std::int64_t{below(2)}), 2);
      to = ops::slice_update(g_, to, part, {Dim(std::int64_t{below(2)}), Dim(0)}, {1, 1});
    }
  }

  // The same through a reshaped view.
  void write_flat_part() {
    Value*& to = any();
    const Dim all = type_.numel();
    Value* part = ops::slice(g_, ops::reshape(g_, any(), {all}), 0, Dim(std::int64_t{below(4)}), 5);
    Value* flat = ops::slice_update(g_, ops::reshape(g_, to, {all}), part,
                                    {Dim(std::int64_t{below(4)})}, {1});
    to = ops::reshape(g_, flat, type_.shape);
  }

  // Permutes elements; a matmul if possible.
  void turn() {
    Value*& to = any();
    if (!is_square_)
      to = ops::flip(g_, any(), {static_cast<std::int64_t>(below(2))});
    else if (below(2) == 0)
      to = ops::transpose(g_, any(), {1, 0});
    else
      to = ops::mul(g_, ops::matmul(g_, any(), any()), 0.125);
  }

  void scatter_rows() {
    Value*& to = any();
    const std::vector<std::int64_t> rows{below(3), below(2)};
    Value* index = ops::constant(g_, HostTensor::of_i64({2}, rows));
    to = ops::index_put(g_, to, ops::slice(g_, any(), 0, Dim(0), 2), {index}, {0}, "add");
  }

  // Branches and bodies that return their inputs in another order.
  void control() {
    Value *&a = any(), *&b = any();
    const Type plain = Type::tensor(DType::f32, type_.shape);
    if (below(2) == 0) {
      std::vector<std::unique_ptr<Graph>> branches;
      branches.push_back(body("then", plain, false));
      branches.push_back(body("else", plain, false));
      Value* condition =
          g_.add_input(Type::tensor(DType::boolean, {}), str("condition_", g_.inputs().size()));
      Node* node = g_.add(op("if"), {condition, a, b}, AttrList{}, std::move(branches));
      a = node->output(0);
      b = node->output(1);
      return;
    }
    auto condition = std::make_unique<Graph>("condition");
    Value* counter = condition->add_input(Type::tensor(DType::i64, {}), "i");
    for (const char* name : {"a", "b"}) condition->add_input(plain, name);
    Value* limit = ops::scalar_int(*condition, DType::i64, below(4));
    condition->set_outputs({ops::lt(*condition, counter, limit)});
    std::vector<std::unique_ptr<Graph>> parts;
    parts.push_back(std::move(condition));
    parts.push_back(body("body", plain, true));
    Node* node = g_.add(op("while"), {ops::scalar_int(g_, DType::i64, 0), a, b},
                        to_attr_list(ops::While{3}), std::move(parts));
    a = node->output(1);
    b = node->output(2);
  }

  std::unique_ptr<Graph> body(const char* name, const Type& type, bool counted) {
    auto graph = std::make_unique<Graph>(name);
    std::vector<Value*> results;
    if (counted) {
      Value* counter = graph->add_input(Type::tensor(DType::i64, {}), "i");
      results.push_back(ops::add(*graph, counter, ops::scalar_int(*graph, DType::i64, 1)));
    }
    Value* a = graph->add_input(type, "a");
    Value* b = graph->add_input(type, "b");
    if (below(2) == 0) std::swap(a, b);
    if (below(3) == 0) a = ops::mul(*graph, ops::add(*graph, a, b), 0.5);
    if (below(4) == 0) b = ops::flip(*graph, b, {1});
    if (below(5) == 0) b = a;
    results.insert(results.end(), {a, b});
    graph->set_outputs(results);
    return graph;
  }

  // The current value, or a window of it, becomes a result.
  void read() {
    Value* value = any();
    switch (below(4)) {
      case 0:
        results_.push_back(value);
        return;
      case 1:
        results_.push_back(ops::slice(g_, value, 0, Dim(1), 2));
        return;
      case 2:
        results_.push_back(ops::reduce_sum(g_, value, {0}));
        return;
      default:
        results_.push_back(ops::transpose(g_, value, {1, 0}));
    }
  }

  void finish() {
    std::vector<Value*> outputs = results_;
    for (std::size_t k = 0; k < variables_.size(); ++k) {
      if (variables_[k] == g_.inputs()[k].get()) continue;
      g_.ties().push_back({static_cast<int>(outputs.size()), static_cast<int>(k)});
      outputs.push_back(variables_[k]);
    }
    if (outputs.empty()) outputs.push_back(ops::neg(g_, variables_[0]));
    std::shuffle(g_.ties().begin(), g_.ties().end(), random_);
    g_.set_outputs(outputs);
  }

  std::mt19937_64 random_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>("mutations");
  Graph& g_ = *graph_;
  Type type_;
  bool is_square_ = false;
  std::vector<Value*> variables_, results_;
};

}  // namespace

std::unique_ptr<Graph> random_mutations(std::uint64_t seed, int statements) {
  return Mutations(seed).run(statements);
}

}  // namespace gex::check
