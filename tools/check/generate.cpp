#include "check/generate.hpp"

#include <algorithm>
#include <random>

#include "check/rebuild.hpp"
#include "ir/assume.hpp"
#include "ops/control.hpp"
#include "ops/core/build.hpp"
#include "tests/ops/samples.hpp"

namespace gex::check {
namespace {

using test::kSize;
using test::Sample;
using Kind = Sample::Input::Kind;

constexpr std::int64_t kMostElements = 20000;  // maximum per value; the interpreter is slow
constexpr std::size_t kMostInputs = 12;

bool is_whole(DType dtype) { return !is_float(dtype) && dtype != DType::boolean; }

class Generator {
 public:
  Generator(std::uint64_t seed, const GenerateOptions& options)
      : random_(seed), options_(options), g_(*graph_) {}

  std::unique_ptr<Graph> run() {
    const unsigned kind = below(8);
    float_ = kind == 0 ? DType::bf16 : kind == 1 ? DType::f64 : kind == 2 ? DType::f16 : DType::f32;
    fresh(float_, {kSize, Dim(6)});
    fresh(below(2) == 0 ? float_ : DType::i64, {Dim(6)});
    for (int step = 0; step < options_.nodes; ++step) grow();
    choose_outputs();
    verify(g_);
    if (below(5) < 2) {
      const Dim size(static_cast<std::int64_t>(2 + below(8)));
      Changes fixed;
      fixed.size = [size](Dim d) {
        return d.substitute(
            [size](Dim s) { return s == kSize ? std::optional(size) : std::nullopt; });
      };
      return rebuild(g_, fixed);
    }
    return std::move(graph_);
  }

 private:
  unsigned below(std::size_t n) { return static_cast<unsigned>(random_() % n); }
  template <class List>
  auto& any(List& list) {
    return list[below(list.size())];
  }
  // Prefers recent values: chains give deeper fusion.
  Value* any_value() {
    const std::size_t n = pool_.size();
    const std::size_t back = below(3) == 0 ? below(n) : below(std::min<std::size_t>(n, 3));
    return pool_[n - 1 - back];
  }

  Value* fresh(DType dtype, Shape shape, const char* name = "x") {
    if (g_.inputs().size() >= kMostInputs)
      for (const auto& input : g_.inputs())
        if (input->type().dtype == dtype && input->type().shape == shape &&
            input->name().starts_with(name))
          return input.get();
    Value* input =
        g_.add_input(Type::tensor(dtype, std::move(shape)), str(name, "_", g_.inputs().size()));
    if (input->name().starts_with("x")) pool_.push_back(input);
    return input;
  }

  // Casts of floats to integers that can't hold them are undefined: keep values small.
  Value* cast(Value* x, DType dtype) {
    if (is_float(x->type().dtype) && is_whole(dtype)) {
      Value* small = ops::lt(g_, ops::abs(g_, x), ops::scalar(g_, x->type().dtype, 100));
      x = ops::where(g_, small, x, ops::scalar(g_, x->type().dtype, 0));
      if (dtype == DType::u8) x = ops::abs(g_, x);
    }
    return ops::cast(g_, x, dtype);
  }

  // A function of x with this dtype and shape.
  Value* fit(Value* x, DType dtype, const Shape& shape) {
    while (x->type().shape.size() > shape.size()) {
      if (!provably_nonnegative(x->type().shape[0] - Dim(1))) return fresh(dtype, shape);
      x = ops::select(g_, x, 0, Dim(0));
    }
    while (x->type().shape.size() < shape.size()) x = ops::unsqueeze(g_, x, 0);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Dim have = x->type().shape[d];
      if (have == shape[d] || have == Dim(1)) continue;
      if (known_le(shape[d], have) != true) {
        ops::Dims low(shape.size(), Dim(0)), high(shape.size(), Dim(0));
        high[d] = shape[d];
        x = ops::pad(g_, x, low, high, below(2));
      }
      x = ops::slice(g_, x, static_cast<std::int64_t>(d), Dim(0), shape[d]);
    }
    if (x->type().shape != shape) x = ops::expand(g_, x, shape);
    return cast(x, dtype);
  }

  bool too_big(const Node& node) const {
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      if (node.output(k)->type().numel().eval([](Dim) { return 9; }) > kMostElements) return true;
    return false;
  }

  bool keep(const std::vector<Value*>& results) {
    for (Value* result : results)
      if (too_big(*result->producer())) return false;
    for (Value* result : results) pool_.push_back(result);
    return !results.empty();
  }

  void grow() {
    static const std::vector<const OpDef*> ops = [] {
      std::vector<const OpDef*> known;
      for (const OpDef* op : all_ops())
        if (test::sample_of(*op) != nullptr) known.push_back(op);
      return known;
    }();
    if (below(16) == 0 && grow_control()) return;
    const OpDef& op = *any(ops);
    for (int attempt = 0; attempt < 4; ++attempt)
      if (below(4) != 0 && grow_freely(op)) return;
    for (DType dtype : {float_, DType::i64, DType::boolean, DType::f32})
      if (grow_sample(op, dtype)) return;
  }

  // Uses the sample's attributes and shapes with results of other ops, converted to fit.
  bool grow_sample(const OpDef& op, DType dtype) {
    const Sample& sample = *test::sample_of(op);
    std::vector<Value*> operands;
    for (const Sample::Input& input : sample.inputs) {
      switch (input.kind) {
        case Kind::index:
          operands.push_back(fresh(DType::i64, input.shape, "index"));
          break;
        case Kind::key:
          operands.push_back(fresh(DType::i64, input.shape, "key"));
          break;
        default: {
          const DType wanted = input.kind == Kind::flag ? DType::boolean : dtype;
          operands.push_back(below(3) == 0 ? fresh(wanted, input.shape)
                                           : fit(any_value(), wanted, input.shape));
        }
      }
    }
    try {
      return keep(sample.build(g_, operands));
    } catch (const UserError&) {
      return false;  // not for this dtype
    }
  }

  // Random operands and attributes; the shape rule decides whether they are valid.
  bool grow_freely(const OpDef& op) {
    if (op.has(Trait::control) || op.has(Trait::effect)) return false;
    Value* first = any_value();
    std::vector<Value*> operands;
    for (const InputSpec& spec : op.inputs) {
      std::size_t count = 1;
      if (spec.arity == InputSpec::Arity::optional && below(2) == 0) count = 0;
      if (spec.arity == InputSpec::Arity::variadic) count = 1 + below(3);
      if (count == 0) operands.push_back(nullptr);
      for (; count > 0; --count)
        operands.push_back(operands.empty() && !is_special(spec) ? first : operand(spec, first));
    }
    while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    if (operands.size() >= 2 && operands[1] != nullptr) operands[1] = tame(op, operands[1]);
    AttrList attrs;
    for (const AttrField& field : op.attrs) attrs.push_back(attribute(field, first->type()));
    AssumptionLog assumed;
    Node* node = nullptr;
    try {
      node = g_.add(op, operands, attrs);
    } catch (const UserError&) {
      return false;
    }
    std::vector<Value*> results;
    for (std::size_t k = 0; k < node->num_outputs(); ++k) results.push_back(node->output(k));
    if (!assumed.taken().empty() || !keep(results)) {  // not valid for every size
      g_.erase(node);
      return false;
    }
    return true;
  }

  static bool is_special(const InputSpec& spec) {
    return spec.name.find("ind") != std::string::npos || spec.name == "condition" ||
           spec.name == "mask" || spec.name == "key";
  }

  Value* operand(const InputSpec& spec, Value* like) {
    const Shape shape = derived(like->type().shape);
    if (spec.name == "key") return fresh(DType::i64, {}, "key");
    if (spec.name.find("ind") != std::string::npos) return fresh(DType::i64, shape, "index");
    if (spec.name == "condition" || spec.name == "mask")
      return fit(any_value(), DType::boolean, shape);
    const DType dtype = below(8) == 0 ? DType::i32 : like->type().dtype;
    if (below(4) == 0) return fresh(dtype, shape);
    Value* other = any_value();
    if (other->type().dtype == dtype && below(2) == 0) return other;
    return fit(other, dtype, shape);
  }

  // A shape that broadcasts with, or is near to, this one.
  Shape derived(Shape shape) {
    for (Dim& size : shape)
      if (below(6) == 0) size = Dim(1);
    while (!shape.empty() && below(5) == 0) shape.erase(shape.begin());
    if (shape.size() >= 2 && below(6) == 0) std::swap(shape[0], shape[1]);
    return shape;
  }

  // Avoids integer divisors and shift counts that SEMANTICS.md leaves undefined.
  Value* tame(const OpDef& op, Value* y) {
    if (!is_whole(y->type().dtype)) return y;
    const std::string& name = op.name;
    const auto is = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (is("div") || is("mod") || is("remainder"))
      return ops::bit_or(g_, y, ops::scalar_int(g_, y->type().dtype, 1));
    if (is("shift") || is("pow"))
      return ops::bit_and(g_, y, ops::scalar_int(g_, y->type().dtype, 3));
    return y;
  }

  AttrValue attribute(const AttrField& field, const Type& type) {
    const AttrValue& like = field.default_value;
    const auto rank = static_cast<std::int64_t>(type.rank());
    const auto small = [&] { return static_cast<std::int64_t>(below(5)) - (below(4) == 0); };
    if (field.name == "stable") return true;  // otherwise the order of equal elements is undefined
    if (std::holds_alternative<bool>(like)) return below(2) == 0;
    if (std::holds_alternative<std::int64_t>(like)) {
      if (field.name == "axis" && rank > 0) return std::int64_t{below(type.shape.size())};
      return below(3) == 0 ? like : small();
    }
    if (std::holds_alternative<std::vector<std::int64_t>>(like)) return integers(field, type);
    if (std::holds_alternative<std::vector<Dim>>(like)) return sizes(field, type);
    if (std::holds_alternative<Dim>(like)) return below(2) == 0 ? kSize : Dim(small());
    if (std::holds_alternative<double>(like) && below(2) == 0) return 0.25 * below(9);
    return like;  // dtypes, strings, tensors
  }

  std::vector<std::int64_t> integers(const AttrField& field, const Type& type) {
    std::vector<std::int64_t> axes;
    for (int d = 0; d < type.rank(); ++d) axes.push_back(d);
    if (field.name == "perm") {
      std::shuffle(axes.begin(), axes.end(), random_);
      return axes;
    }
    if (field.name == "axes") {
      std::erase_if(axes, [&](std::int64_t) { return below(2) == 0; });
      return axes;
    }
    std::vector<std::int64_t> values(axes.size());
    for (auto& value : values) value = 1 + below(3);
    return values;
  }

  std::vector<Dim> sizes(const AttrField& field, const Type& type) {
    Shape shape = type.shape;
    if (field.name == "starts" || field.name == "low" || field.name == "high") {
      for (Dim& size : shape) size = Dim(static_cast<std::int64_t>(below(3)));
      return shape;
    }
    if (field.name == "sizes") {
      for (Dim& size : shape)
        if (below(2) == 0) size = size - Dim(static_cast<std::int64_t>(below(3)));
      return shape;
    }
    switch (below(4)) {  // another shape with as many elements, or one to expand to
      case 0:
        return {type.numel()};
      case 1:
        if (shape.size() < 2) return shape;
        shape[1] = shape[0] * shape[1];
        shape.erase(shape.begin());
        return shape;
      case 2:
        shape.insert(shape.begin() + below(shape.size() + 1), Dim(below(2) == 0 ? 1 : 3));
        return shape;
      default:
        if (!shape.empty()) std::swap(any(shape), any(shape));
        return shape;
    }
  }

  std::unique_ptr<Graph> branch(const Type& type, const char* name, bool counted) {
    auto body = std::make_unique<Graph>(name);
    Value* counter = counted ? body->add_input(Type::tensor(DType::i64, {}), "i") : nullptr;
    Value* x = body->add_input(type, "a");
    for (std::size_t k = below(3) + (counted ? 1 : 0); k > 0; --k) {
      const char* ops[] = {"tanh", "neg", "sigmoid", "abs"};
      x = ops::apply(*body, ops[below(4)], {x});
    }
    std::vector<Value*> results;
    if (counted) results.push_back(ops::add(*body, counter, ops::scalar_int(*body, DType::i64, 1)));
    results.push_back(x);
    body->set_outputs(results);
    return body;
  }

  bool grow_control() {
    Value* x = any_value();
    if (!is_float(x->type().dtype)) return false;
    const Type type = Type::tensor(x->type().dtype, x->type().shape);
    std::vector<std::unique_ptr<Graph>> bodies;
    if (below(2) == 0) {
      bodies.push_back(branch(type, "then", false));
      bodies.push_back(branch(type, "else", false));
      Node* node = g_.add(op("if"), {fresh(DType::boolean, {}), x}, AttrList{}, std::move(bodies));
      return keep({node->output(0)});
    }
    auto condition = std::make_unique<Graph>("condition");
    Value* counter = condition->add_input(Type::tensor(DType::i64, {}), "i");
    condition->add_input(type, "a");
    condition->set_outputs(
        {ops::lt(*condition, counter, ops::scalar_int(*condition, DType::i64, below(4)))});
    bodies.push_back(std::move(condition));
    bodies.push_back(branch(type, "body", true));
    Node* node = g_.add(op("while"), {ops::scalar_int(g_, DType::i64, 0), x},
                        to_attr_list(ops::While{2}), std::move(bodies));
    return keep({node->output(1)});
  }

  void choose_outputs() {
    std::vector<Value*> outputs;
    for (std::size_t k = 1 + below(3); k > 0; --k) outputs.push_back(any_value());
    if (pool_.back()->producer() != nullptr) outputs.push_back(pool_.back());
    g_.set_outputs(outputs);
    if (below(3) != 0) return;
    for (const auto& input : g_.inputs())
      for (std::size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k]->producer() != nullptr && outputs[k]->type() == input->type()) {
          g_.ties().push_back({static_cast<int>(k), input->index()});
          return;
        }
  }

  std::mt19937_64 random_;
  GenerateOptions options_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>("fuzz");
  Graph& g_;
  DType float_ = DType::f32;
  std::vector<Value*> pool_;
};

}  // namespace

std::unique_ptr<Graph> random_graph(std::uint64_t seed, const GenerateOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace gex::check
