// Whatever a shape rule accepts can be run: no body accesses memory outside its operands, and no
// rejection is an internal error.

#include <gtest/gtest.h>

#include <random>

#include "run.hpp"

namespace gex::test {
namespace {

class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }

  std::vector<std::int64_t> shape() {
    // Mostly the common shape, so that rules accept often; small changes to it otherwise.
    std::vector<std::int64_t> shape = common_;
    for (auto& size : shape)
      if (below(8) == 0) size = static_cast<std::int64_t>(below(5));
    if (below(6) == 0 && !shape.empty()) shape.erase(shape.begin());
    if (below(6) == 0) shape.resize(below(shape.size() + 1));
    if (below(10) == 0) shape.push_back(1 + static_cast<std::int64_t>(below(3)));
    return shape;
  }

  AttrValue attr(const AttrValue& like) {
    const auto number = [&] { return static_cast<std::int64_t>(below(6)) - 1; };
    if (std::holds_alternative<bool>(like)) return below(2) == 0;
    if (std::holds_alternative<std::int64_t>(like)) return number();
    if (std::holds_alternative<Dim>(like)) return Dim(number());
    if (std::holds_alternative<std::vector<std::int64_t>>(like)) return list<std::int64_t>(number);
    if (std::holds_alternative<std::vector<Dim>>(like)) {
      if (below(3) == 0) {
        const auto sizes = shape();
        return std::vector<Dim>(sizes.begin(), sizes.end());
      }
      return list<Dim>(number);
    }
    return like;
  }

  Tensors operands(const OpDef& op) {
    common_.assign(below(5), 0);
    for (auto& size : common_) size = static_cast<std::int64_t>(below(4)) + (below(8) != 0);
    const bool floats = below(5) != 0;
    Tensors tensors;
    for (const InputSpec& spec : op.inputs) {
      std::size_t count = 1;
      if (spec.arity == InputSpec::Arity::optional) break;
      if (spec.arity == InputSpec::Arity::variadic) count = below(3);
      for (; count > 0; --count) {
        const bool index = spec.name.find("ind") != std::string::npos ||
                           spec.name.find("target") != std::string::npos;
        DType dtype = floats ? DType::f32 : DType::i64;
        if (index) dtype = DType::i64;
        if (spec.name == "condition" || spec.name == "mask") dtype = DType::boolean;
        if (below(12) == 0) dtype = below(2) == 0 ? DType::i64 : DType::boolean;
        tensors.push_back(random_tensor(dtype, shape(), -6, 6, static_cast<unsigned>(random_())));
      }
    }
    return tensors;
  }

 private:
  template <class T, class F>
  std::vector<T> list(F number) {
    std::vector<T> values;
    for (std::size_t k = below(2) == 0 ? common_.size() : below(5); k > 0; --k)
      values.push_back(number());
    return values;
  }

  std::mt19937 random_;
  std::vector<std::int64_t> common_;
};

constexpr int kTrials = 400;

bool is_plain(const OpDef& op) {
  return !op.has(Trait::control) && !op.has(Trait::effect) && (op.body || op.expand);
}

TEST(Bounds, accepted_shapes_never_access_out_of_bounds) {
  int accepted = 0;
  for (const OpDef* op : all_ops()) {
    if (!is_plain(*op)) continue;
    Fuzz fuzz(static_cast<unsigned>(std::hash<std::string>()(op->name)));
    for (int trial = 0; trial < kTrials; ++trial) {
      const Tensors inputs = fuzz.operands(*op);
      AttrList attrs;
      for (const AttrField& field : op->attrs)
        attrs.push_back(fuzz.below(3) == 0 ? field.default_value : fuzz.attr(field.default_value));
      Graph graph;
      std::vector<Value*> values;
      for (const HostTensor& t : inputs) values.push_back(graph.add_input(type_of(t)));
      Node* node = nullptr;
      try {
        node = graph.add(*op, values, attrs);
      } catch (const UserError&) {
        continue;
      } catch (const std::exception& error) {
        ADD_FAILURE() << op->name << ": " << error.what();
        break;
      }
      for (std::size_t k = 0; k < node->num_outputs(); ++k) graph.add_output(node->output(k));
      ++accepted;
      try {
        interp::interpret(graph, inputs);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what() << "\n" << print(graph);
        break;
      }
    }
  }
  EXPECT_GT(accepted, 5000);
}

}  // namespace
}  // namespace gex::test
