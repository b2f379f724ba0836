#include "passes/recognise_attention.hpp"

#include <limits>

#include "ir/label_propagation.hpp"
#include "loop/view_index.hpp"
#include "ops/core/build.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

// By one node; uses by `guard`, if any, do not count.
bool used_once(const Value* v, const Node* guard = nullptr) {
  std::size_t count = 0;
  for (const Use& use : v->uses()) {
    if (use.node == nullptr) return false;
    count += use.node != guard;
  }
  return count == 1;
}

// Follows reshapes and expansions that keep all elements in order; every step has no other user.
Value* skip_reshapes(Value* v, const Node* guard = nullptr) {
  while (v->producer() != nullptr && v->producer()->is("reshape") && used_once(v, guard))
    v = v->producer()->input(0);
  return v;
}

// Of x * number, or a reshape of it, x in the shape of `v`; multiplies `scale` by the number.
Value* without_scale(Graph& graph, Value* v, double& scale) {
  const Value* product = v;
  while (product->producer() != nullptr && product->producer()->is("reshape"))
    product = product->producer()->input(0);
  const Node* mul = product->producer();
  if (mul == nullptr || !mul->is("mul")) return v;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::optional<double> factor = splat(mul->input(1 - k));
    if (!factor || !(mul->input(k)->type().shape == product->type().shape)) continue;
    scale *= *factor;
    return ops::reshape(graph, mul->input(k), v->type().shape);
  }
  return v;
}

// Keys and values as seen by the matmul, [B*H, ...] or [B, H, ...], converted to [B, heads, S, D]
// with the fewest heads: if the views come from an expansion by groups, the unexpanded value is
// used.
class Heads {
 public:
  Heads(Graph& graph, Dim batch, Dim heads) : graph_(graph), batch_(batch), heads_(heads) {}

  // `transposed`: the last two axes are [D, S].
  Value* as_keys(Value* v, Dim length, Dim width, bool transposed) {
    if (Value* grouped = before_repeat(v, length, width, transposed)) return grouped;
    if (transposed) v = ops::swap_axes(graph_, v, -2, -1);
    return ops::reshape(graph_, v, {batch_, heads_, length, width});
  }

  // The heads before they were repeated, or null.
  Value* not_repeated(Value* v) {
    const Shape& shape = v->type().shape;
    return before_repeat(v, shape[2], shape[3], false);
  }

 private:
  // Finds expand([B, kv, 1, S, D] -> [B, kv, group, S, D]) above the views.
  Value* before_repeat(Value* v, Dim length, Dim width, bool transposed) {
    if (v->type().rank() < 3) return nullptr;  // no heads
    for (Node* node = v->producer(); node != nullptr && node->op().has(Trait::view);
         node = node->input(0)->producer()) {
      if (!node->is("expand") || node->output()->type().rank() != 5) continue;
      const Shape& out = node->output()->type().shape;
      Value* small = node->input(0);
      const Shape& in = small->type().shape;
      Shape want = {batch_, out[1], Dim(1), length, width};
      if (in != want || !(out[1] * out[2] == heads_)) return nullptr;
      if (!reads_by_group(v, node, out[1], out[2], length, width, transposed)) return nullptr;
      return ops::reshape(graph_, small, {batch_, out[1], length, width});
    }
    return nullptr;
  }

  // Follows the index of head kv*group + g up to the expansion, where it must be (b, kv, g, s, d).
  bool reads_by_group(Value* v, const Node* expansion, Dim kv_heads, Dim group, Dim length,
                      Dim width, bool transposed) {
    Dim b = Dim::index("b", batch_), kv = Dim::index("kv", kv_heads), g = Dim::index("g", group);
    Dim s = Dim::index("s", length), d = Dim::index("d", width);
    Dim head = kv * group + g;
    std::vector<Dim> index;
    if (v->type().rank() == 3) {
      index = {b * heads_ + head, transposed ? d : s, transposed ? s : d};
    } else {
      index = {b, head, transposed ? d : s, transposed ? s : d};
    }
    for (Node* node = v->producer(); node != expansion; node = node->input(0)->producer()) {
      auto up = loop::view_operand_index(*node, index);
      if (!up) return false;
      index = std::move(*up);
    }
    return index == std::vector<Dim>{b, kv, g, s, d};
  }

  Graph& graph_;
  Dim batch_, heads_;
};

struct Scores {
  Node* softmax = nullptr;
  Node* matmul = nullptr;
  Value* mask = nullptr;
  bool mask_hides = false;      // a boolean mask that is true for hidden keys
  const Node* guard = nullptr;  // logits == -inf, by which fully masked rows give zeros, not NaN
  double scale = 1;
  Value* scale_value = nullptr;  // a scale known only at run time: one element
};

// Below the mask: a matmul, reshaped and scaled.
bool find_product(Value* v, Scores& scores) {
  v = skip_reshapes(v, scores.guard);
  Node* node = v->producer();
  if (node == nullptr || !used_once(v, scores.guard)) return false;
  if (node->is("mul") || node->is("div")) {
    for (std::size_t k = 0; k < (node->is("mul") ? 2u : 1u); ++k) {
      std::optional<double> factor = splat(node->input(1 - k));
      bool one_element = node->is("mul") && node->input(1 - k)->type().numel() == Dim(1);
      if (!(node->input(k)->type().shape == node->output()->type().shape)) continue;
      if (factor) {
        scores.scale = node->is("mul") ? *factor : 1 / *factor;
      } else if (one_element) {
        scores.scale_value = node->input(1 - k);
      } else {
        continue;
      }
      v = skip_reshapes(node->input(k));
      node = v->producer();
      if (node == nullptr || !used_once(v)) return false;
      break;
    }
  }
  if (!node->is("matmul")) return false;
  scores.matmul = node;
  return true;
}

// where(seen, scores, -inf), or where(hidden, -inf, scores).
bool find_hidden(const Node& where, Scores& scores) {
  const auto hides = [](const Value* v) {
    return splat(v) == -std::numeric_limits<double>::infinity();
  };
  const bool seen = hides(where.input(2));
  if (!seen && !hides(where.input(1))) return false;
  Value* logits = where.input(seen ? 1 : 2);
  if (!(logits->type().shape == where.output()->type().shape) || !find_product(logits, scores))
    return false;
  scores.mask = where.input(0);
  scores.mask_hides = !seen;
  return true;
}

// Of where(all(logits == -inf), 0, softmax(logits)), the comparison; else null.
const Node* guard_of(const Node& where) {
  if (!where.is("where") || splat(where.input(1)) != 0.0) return nullptr;
  const Node* softmax = where.input(2)->producer();
  const Node* all = where.input(0)->producer();
  if (softmax == nullptr || !softmax->is("softmax") || all == nullptr || !all->is("reduce_all") ||
      !used_once(where.input(0)))
    return nullptr;
  const auto over = all->as<ops::Reduce>();
  const Node* equal = all->input(0)->producer();
  if (!over.keepdim || over.axes != ops::Ints{softmax->as<ops::Axis>().axis} || equal == nullptr ||
      !equal->is("eq") || !used_once(all->input(0)) || equal->input(0) != softmax->input(0) ||
      splat(equal->input(1)) != -std::numeric_limits<double>::infinity())
    return nullptr;
  return equal;
}

std::optional<Scores> find_scores(Value* probabilities) {
  Value* v = skip_reshapes(probabilities);
  Scores scores;
  if (v->producer() == nullptr || !used_once(v)) return std::nullopt;
  scores.guard = guard_of(*v->producer());
  if (scores.guard != nullptr) v = v->producer()->input(2);
  scores.softmax = v->producer();
  if (!scores.softmax->is("softmax") || !used_once(v)) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(v->type().rank());
  if (rank < 2 || rank > 4 || scores.softmax->as<ops::Axis>().axis != rank - 1) return std::nullopt;
  Value* logits = scores.softmax->input(0);
  if (!used_once(logits, scores.guard)) return std::nullopt;
  if (find_product(logits, scores)) return scores;
  Node* add = logits->producer();
  if (add == nullptr) return std::nullopt;
  if (add->is("where") && find_hidden(*add, scores)) return scores;
  if (!add->is("add")) return std::nullopt;
  for (std::size_t k = 0; k < 2; ++k) {
    Value* mask = add->input(1 - k);
    if (!(add->input(k)->type().shape == logits->type().shape)) continue;
    if (find_product(add->input(k), scores)) {
      scores.mask = mask;
      return scores;
    }
  }
  return std::nullopt;
}

// Attention over operands of the two matmuls; `shape`: of the scores, [B, H, Sq, Sk].
Value* attend_by_heads(Graph& graph, Value* q, Value* k, Value* v, Value* mask, const Shape& shape,
                       const ops::Attention& attrs) {
  const Dim width = q->type().shape.back(), value_width = v->type().shape.back();
  Heads heads(graph, shape[0], shape[1]);
  Value* q4 = ops::reshape(graph, q, {shape[0], shape[1], shape[2], width});
  Value* k4 = heads.as_keys(k, shape[3], width, true);
  Value* v4 = heads.as_keys(v, shape[3], value_width, false);
  if (!(k4->type().shape[1] == v4->type().shape[1])) {
    // Only one of the two is repeated: use both as they are.
    k4 = ops::reshape(graph, ops::swap_axes(graph, k, -2, -1),
                      {shape[0], shape[1], shape[3], width});
    v4 = ops::reshape(graph, v, {shape[0], shape[1], shape[3], value_width});
  }
  return ops::attention(graph, q4, k4, v4, mask, attrs);
}

bool replace(Graph& graph, Node& product) {
  DType dtype = product.output()->type().dtype;
  if ((dtype != DType::f32 && dtype != DType::f64) || product.input(0)->type().dtype != dtype)
    return false;
  std::optional<Scores> scores = find_scores(product.input(0));
  if (!scores || scores->softmax->output()->type().dtype != dtype) return false;
  Shape shape = scores->softmax->output()->type().shape;  // [B, H, Sq, Sk]
  const int rank = scores->softmax->output()->type().rank();
  const bool bare = scores->scale == 1 && scores->scale_value == nullptr && !scores->mask &&
                    scores->guard == nullptr;
  // Two matrices and a softmax may as well be a classifier, for which matmuls are faster.
  if (rank == 2 && bare) return false;
  while (shape.size() < 4) shape.insert(shape.begin(), Dim(1));
  Value* q = scores->matmul->input(0);
  Value* k = scores->matmul->input(1);
  Value* v = product.input(1);
  Dim width = q->type().shape.back(), value_width = v->type().shape.back();
  auto fits = [&](const Value* x, Dim rows, Dim columns) {
    const Shape& s = x->type().shape;
    if (s.size() > 4) return false;
    Dim outer = 1;
    for (std::size_t d = 0; d + 2 < s.size(); ++d) outer *= s[d];
    return outer == shape[0] * shape[1] && s[s.size() - 2] == rows && s.back() == columns;
  };
  if (!fits(q, shape[2], width) || !fits(k, width, shape[3]) || !fits(v, shape[3], value_width))
    return false;
  LabelPropagation labels(graph, &product);
  InsertBefore here(graph, &product);
  graph.set_location(product.location());
  Value* mask = scores->mask;
  if (scores->mask_hides) mask = ops::apply(graph, "bit_not", {mask});
  double scale = scores->scale;
  q = without_scale(graph, q, scale);
  k = without_scale(graph, k, scale);
  if (scores->scale_value != nullptr)
    q = ops::mul(graph, q, ops::reshape(graph, scores->scale_value, {}));
  const ops::Attention attrs{.scale = scale, .nan_if_fully_masked = scores->guard == nullptr};
  const auto finish = [&](Value* out) {
    graph.set_location({});
    // The last node first: if labels differ, those of the result win.
    for (const Node* node : {&product, scores->softmax, scores->matmul}) labels.apply(*node);
    graph.replace_all_uses(product.output(), out);
    return true;
  };
  // Attention accepts operands without batch or heads.
  if (rank < 4 && q->type().rank() == rank && k->type().rank() == rank &&
      v->type().rank() == rank) {
    return finish(ops::attention(graph, q, ops::swap_axes(graph, k, -2, -1), v, mask, attrs));
  }
  Value* out = attend_by_heads(graph, q, k, v, mask, shape, attrs);
  return finish(ops::reshape(graph, out, product.output()->type().shape));
}

// Attention reads each key head for all query heads of its group, so heads need not be repeated.
bool read_by_group(Graph& graph, Node& attention) {
  const Shape& q = attention.input(0)->type().shape;
  if (q.size() != 4 || !(attention.input(1)->type().shape[1] == q[1])) return false;
  InsertBefore here(graph, &attention);
  graph.set_location(attention.location());
  Heads heads(graph, q[0], q[1]);
  Value* keys = heads.not_repeated(attention.input(1));
  Value* values = keys == nullptr ? nullptr : heads.not_repeated(attention.input(2));
  graph.set_location({});
  if (values == nullptr || !(keys->type().shape[1] == values->type().shape[1])) return false;
  graph.set_input(&attention, 1, keys);
  graph.set_input(&attention, 2, values);
  return true;
}

}  // namespace

bool recognise_attention(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs())
      changed |= recognise_attention(*subgraph, context);
    const bool product = node.is("matmul") && !node.output()->type().strides;
    if (product ? !replace(graph, node) : !node.is("attention") || !read_by_group(graph, node))
      continue;
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
