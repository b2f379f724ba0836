#include "passes/dequantised_weights.hpp"

#include <algorithm>

#include "ops/core/build.hpp"
#include "ops/core/integer_products.hpp"

namespace gex::passes {

namespace {

bool is_transposed(const Node& node) {
  return node.is("transpose") && node.as<ops::Transpose>().perm == ops::Ints{1, 0};
}

std::optional<double> number_of(const Value* v) {
  const Node* node = v->producer();
  while (node != nullptr && (node->is("cast") || node->is("reshape") || node->is("expand")))
    node = node->input(0)->producer();
  if (node == nullptr || !node->is("full")) return std::nullopt;
  return node->as<ops::Full>().value;
}

// Whether integers are surely from 0 to 15.
bool are_halves(const Value* v) {
  const Node* node = v->producer();
  if (node == nullptr) return false;
  if (node->is("bit_and")) {
    for (int k = 0; k < 2; ++k) {
      const auto mask = number_of(node->input(static_cast<std::size_t>(k)));
      if (mask && *mask >= 0 && *mask <= 15) return true;
    }
    return false;
  }
  if (node->is("shr")) {
    const auto by = number_of(node->input(1));
    return node->input(0)->type().dtype == DType::u8 && by && *by == 4;
  }
  if (node->is("cat")) {
    for (const Value* part : node->inputs())
      if (!are_halves(part)) return false;
    return true;
  }
  const bool moves = node->is("reshape") || node->is("transpose") || node->is("slice");
  const bool converts = node->is("cast") && is_int(node->output()->type().dtype);
  return (moves || converts) && are_halves(node->input(0));
}

class Reader {
 public:
  std::optional<DequantisedWeights> run(Value* v) {
    result_.inputs_last = false;
    if (!real(v)) return std::nullopt;
    return result_;
  }

 private:
  // Views between elementwise nodes: whether there was one, and the value below it.
  Value* through_views(Value* v) {
    while (v->producer() != nullptr && !v->type().strides) {
      const Node& node = *v->producer();
      if (is_transposed(node))
        result_.inputs_last = !result_.inputs_last;
      else if (!node.is("reshape"))
        break;
      v = node.input(0);
    }
    return v;
  }

  bool take(WeightParameter& to, Value* value, const Node& reader) {
    if (to.value != nullptr) return false;
    value = before_widening(value);
    to = {value, value->type().shape, reader.output()->type().shape, result_.inputs_last};
    // As many entries as weights, each repeated: [..., 1] expanded, then reshaped.
    const Node* flat = value->producer();
    if (flat == nullptr || !flat->is("reshape") || flat->output()->type().shape != to.weights)
      return true;
    const Node* repeated = flat->input(0)->producer();
    if (repeated == nullptr || !repeated->is("expand")) return true;
    to.value = repeated->input(0);
    to.shape = to.value->type().shape;
    to.weights = repeated->output()->type().shape;
    return true;
  }

  static Value* before_widening(Value* v) {
    while (v->producer() != nullptr && v->producer()->is("cast")) {
      const DType from = v->producer()->input(0)->type().dtype;
      const bool exact = is_int(from) || (size_of(from) == 2 && v->type().dtype == DType::f32);
      if (!exact) break;
      v = v->producer()->input(0);
    }
    return v;
  }

  static bool leads_to_integers(const Value* v) {
    for (int steps = 0; steps < 16 && v->producer() != nullptr; ++steps) {
      const Node& node = *v->producer();
      if (node.is("dequantise")) return true;
      if (node.is("cast") && is_int(node.input(0)->type().dtype)) return true;
      const bool passes = node.is("cast") || node.is("reshape") || node.is("transpose") ||
                          node.is("sub") || node.is("mul") || node.is("add");
      if (!passes) return false;
      v = node.input(0);
    }
    return false;
  }

  // Floats.
  bool real(Value* v) {
    v = through_views(v);
    const Node* node = v->producer();
    if (node == nullptr || v->type().strides) return false;
    if (node->is("cast"))
      return is_int(node->input(0)->type().dtype) ? integer(node->input(0)) : real(node->input(0));
    if (node->is("dequantise")) return dequantise(*node);
    const bool scaled = node->is("mul"), moved = node->is("add"), centred = node->is("sub");
    if (!scaled && !moved && !centred) return false;
    const std::size_t weights = centred || leads_to_integers(node->input(0)) ? 0 : 1;
    if (node->input(weights)->type().shape != v->type().shape) return false;
    // From the outside in: an offset, a scale, a zero point.
    if (result_.zero.value != nullptr || (moved && result_.scale.value != nullptr)) return false;
    WeightParameter& to = scaled ? result_.scale : moved ? result_.offset : result_.zero;
    return take(to, node->input(1 - weights), *node) && real(node->input(weights));
  }

  bool integer(Value* v) {
    v = through_views(v);
    const DType dtype = v->type().dtype;
    result_.numbers = v;
    result_.halves = are_halves(v);
    if (result_.halves || (ops::is_byte(dtype) && !is_centred(v))) return true;
    const Node* node = v->producer();
    if (node == nullptr || v->type().strides) return false;
    // Wider integers hold what they were made of.
    const bool wide = dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
    const bool centred_bytes = dtype == DType::i8 && is_centred(v);
    if (node->is("cast") && wide && is_int(node->input(0)->type().dtype) &&
        size_of(node->input(0)->type().dtype) <= size_of(dtype))
      return integer(node->input(0));
    if (!node->is("sub") || (!wide && !centred_bytes) || result_.zero.value != nullptr)
      return false;
    if (node->input(0)->type().shape != v->type().shape) return false;
    return take(result_.zero, node->input(1), *node) && integer(node->input(0));
  }
  // A difference of bytes may wrap around, one of halves can not.
  static bool is_centred(const Value* v) {
    const Node* node = v->producer();
    return node != nullptr && node->is("sub") && are_halves(node->input(0)) &&
           (are_halves(node->input(1)) || number_of(node->input(1)));
  }

  bool dequantise(const Node& node) {
    if (result_.scale.value != nullptr || result_.zero.value != nullptr) return false;
    const Shape& shape = node.output()->type().shape;
    const std::int64_t axis = std::get<std::int64_t>(node.attr("axis"));
    Shape along(shape.size(), Dim(1));
    if (axis >= 0) along[static_cast<std::size_t>(axis)] = shape[static_cast<std::size_t>(axis)];
    result_.scale = {node.input(1), along, shape, result_.inputs_last};
    if (number_of(node.input(2)).value_or(1) != 0)
      result_.zero = {node.input(2), along, shape, result_.inputs_last};
    result_.numbers = node.input(0);
    return ops::is_byte(node.input(0)->type().dtype) && integer(node.input(0));
  }

  DequantisedWeights result_;
};

// Axes of `p.weights` along which the parameter has entries, from the outermost axis on.
struct Entries {
  Dim varying = 1;   // product of the axes with entries, without the outputs if they are last
  Dim repeated = 1;  // of those without
  bool per_output = true;
};

std::optional<Entries> entries_of(const WeightParameter& p, Dim outputs) {
  Shape shape(p.weights.size(), Dim(1));
  if (p.shape.size() > p.weights.size()) return std::nullopt;
  std::copy(p.shape.begin(), p.shape.end(), shape.end() - std::ssize(p.shape));
  Entries e;
  std::size_t axes = shape.size();
  if (!p.inputs_last) {
    if (axes == 0 || !(p.weights.back() == outputs)) return std::nullopt;
    --axes;
    e.per_output =
        shape[axes] == p.weights[axes] && !(shape[axes] == Dim(1) && !(outputs == Dim(1)));
    if (!e.per_output && !(shape[axes] == Dim(1))) return std::nullopt;
  }
  bool repeats = false;
  for (std::size_t d = 0; d < axes; ++d) {
    if (p.weights[d] == Dim(1)) continue;
    const bool full = shape[d] == p.weights[d];
    if (!full && !(shape[d] == Dim(1))) return std::nullopt;
    if (full && repeats) return std::nullopt;
    repeats = !full;
    (full ? e.varying : e.repeated) *= p.weights[d];
  }
  return e;
}

}  // namespace

std::optional<DequantisedWeights> dequantised_weights(Value* weights) {
  return Reader().run(weights);
}

std::optional<std::int64_t> group_of(const WeightParameter& p, Dim outputs, Dim inputs) {
  if (p.value == nullptr) return 0;
  const auto e = entries_of(p, outputs);
  if (!e || !inputs.is_const() || !e->repeated.is_const()) return std::nullopt;
  if (e->varying == Dim(1)) return 0;
  const std::int64_t count = inputs.constant(), repeated = e->repeated.constant();
  if (repeated == count) return 0;
  if (repeated > count || repeated < 2 || count % repeated != 0) return std::nullopt;
  return repeated;
}

Value* by_outputs(Graph& g, const WeightParameter& p, Dim outputs, Dim inputs, std::int64_t group) {
  const Entries e = *entries_of(p, outputs);
  const std::int64_t own = *group_of(p, outputs, inputs);
  const Dim groups = own == 0 ? Dim(1) : floordiv(inputs, own);
  Value* value = p.value;
  if (p.inputs_last) {
    const bool one = e.varying == Dim(1);
    value = ops::reshape(g, value, {one ? Dim(1) : outputs, one ? Dim(1) : groups});
  } else {
    value = ops::transpose(g, ops::reshape(g, value, {groups, e.per_output ? outputs : Dim(1)}),
                           {1, 0});
  }
  const Dim wanted = group == 0 ? Dim(1) : floordiv(inputs, group);
  if (groups == wanted) return value;
  // Fewer entries than groups: each serves several.
  const Dim rows = value->type().shape[0], each = floordiv(wanted, groups.constant());
  value = ops::expand(g, ops::unsqueeze(g, value, 2), {rows, groups, each});
  return ops::reshape(g, value, {rows, wanted});
}

}  // namespace gex::passes
