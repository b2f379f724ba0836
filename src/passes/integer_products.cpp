#include "passes/integer_products.hpp"

#include <algorithm>
#include <optional>

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"
#include "ops/core/integer_products.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::passes {
namespace {

// A dequantised operand: views of (q - zero) * scale, with one scale or one for each element of an
// axis.
struct Dequantised {
  Value* q;
  Value* scale;
  Value* zero;
  std::int64_t axis;                    // after the views
  std::vector<const Node*> views = {};  // from q on

  DType dtype() const { return q->type().dtype; }
};

// The integers that a constant holds, through views and casts; nothing if it is no constant.
std::optional<std::vector<std::int64_t>> integers_of(const Value* v) {
  while (v->producer() != nullptr && (v->producer()->is("reshape") || v->producer()->is("cast")))
    v = v->producer()->input(0);
  if (v->producer() == nullptr) return std::nullopt;
  if (v->producer()->is("constant")) {
    const HostTensor& tensor = *std::get<TensorPtr>(v->producer()->attr("value"));
    std::vector<std::int64_t> values;
    for (std::int64_t k = 0; k < tensor.numel(); ++k) values.push_back(tensor.get_int(k));
    return values;
  }
  if (v->producer()->is("full"))
    return std::vector{static_cast<std::int64_t>(v->producer()->as<ops::Full>().value)};
  return std::nullopt;
}

bool all_are(const std::optional<std::vector<std::int64_t>>& values, std::int64_t wanted) {
  return values && std::ranges::all_of(*values, [&](std::int64_t v) { return v == wanted; });
}

class Rewriter {
 public:
  Rewriter(Graph& graph, Node& node, PassContext& context)
      : g_(graph), node_(node), context_(context) {}

  Value* run() {
    if (node_.output()->type().dtype != DType::f32 || node_.output()->type().strides)
      return nullptr;
    const auto a = dequantised(node_.input(0)), b = dequantised(node_.input(1));
    if (!a || !b) return nullptr;
    return node_.is("matmul") ? product(*a, *b) : convolution(*a, *b);
  }

 private:
  std::optional<Dequantised> dequantised(const Value* v) const {
    const Node* from = v->producer();
    if (from == nullptr) return std::nullopt;
    if (from->is("dequantise")) {
      Value* q = from->input(0);
      if (!ops::is_byte(q->type().dtype) || v->type().dtype != DType::f32) return std::nullopt;
      return Dequantised{q, from->input(1), from->input(2), from->as<Axis>().axis};
    }
    if (!from->is("transpose") && !from->is("reshape") && !from->is("pad")) return std::nullopt;
    auto inner = dequantised(from->input(0));
    if (!inner || !can_view(*from, *inner)) return std::nullopt;
    inner->views.push_back(from);
    return inner;
  }
  // Whether the view can be of the integers, and where the axis of the scales is then.
  static bool can_view(const Node& view, Dequantised& x) {
    if (view.is("transpose")) {
      const ops::Ints perm = view.as<ops::Transpose>().perm;
      if (x.axis >= 0) x.axis = std::ranges::find(perm, x.axis) - perm.begin();
      return true;
    }
    if (view.is("pad"))
      return view.as<ops::Pad>().value == 0 && x.axis < 0 && integers_of(x.zero).has_value();
    const Shape &from = view.input(0)->type().shape, &to = view.output()->type().shape;
    const bool keeps_first = !from.empty() && !to.empty() && from[0] == to[0];
    return x.axis < 0 || (x.axis == 0 && keeps_first);
  }
  // The integers with the views; those of weights with zero point 128 as signed ones.
  Value* integers(const Dequantised& x) {
    Value* q = x.q;
    if (is_shifted(x)) q = ops::minus_128(g_, q);
    for (const Node* view : x.views) {
      if (view->is("transpose")) {
        q = ops::transpose(g_, q, view->as<ops::Transpose>().perm);
      } else if (view->is("reshape")) {
        q = ops::reshape(g_, q, view->output()->type().shape);
      } else {
        const auto attrs = view->as<ops::Pad>();
        const std::int64_t zero = is_shifted(x) ? 0 : integers_of(x.zero)->at(0);
        q = ops::pad(g_, q, attrs.low, attrs.high, static_cast<double>(zero));
      }
    }
    return q;
  }
  // A border of zeros around the images becomes one of the convolution.
  static void take_border(Dequantised& x, ops::IntegerConv& attrs) {
    if (x.views.empty() || !ops::is_image_border(*x.views.back())) return;
    const auto border = x.views.back()->as<ops::Pad>();
    for (std::size_t k = 0; k < 2; ++k) {
      attrs.low[k] += border.low[k + 2].constant();
      attrs.high[k] += border.high[k + 2].constant();
    }
    x.views.pop_back();
  }
  static bool is_shifted(const Dequantised& x) {
    return x.dtype() == DType::u8 && all_are(integers_of(x.zero), 128);
  }
  static bool has_zero(const Dequantised& x) {
    return !is_shifted(x) && !all_are(integers_of(x.zero), 0);
  }
  Value* zero_or_null(const Dequantised& x) {
    return has_zero(x) ? ops::cast(g_, x.zero, DType::i32) : nullptr;
  }

  Value* product(const Dequantised& a, const Dequantised& b) {
    if (a.axis >= 0 || (b.axis >= 0 && b.axis != node_.input(1)->type().rank() - 1)) {
      context_.remark(node_, "not a product of integers: scales vary along a summed axis");
      return nullptr;
    }
    Value* y = ops::centred_product(g_, integers(a), zero_or_null(a), integers(b), zero_or_null(b));
    return ops::mul(g_, ops::cast(g_, y, DType::f32), ops::mul(g_, a.scale, b.scale));
  }

  Value* convolution(const Dequantised& x, const Dequantised& w) {
    const auto x_zero = integers_of(x.zero);
    const char* why = nullptr;
    if (x.axis >= 0 || w.axis > 0) why = "scales vary along a summed axis";
    if (!x_zero) why = "the image's zero point is not a constant";
    if (why != nullptr) {
      context_.remark(node_, str("not a convolution of integers: ", why));
      return nullptr;
    }
    const auto conv = node_.as<ops::Conv>();
    ops::IntegerConv attrs{.stride = conv.stride,
                           .dilation = conv.dilation,
                           .low = conv.padding,
                           .high = conv.padding,
                           .border = is_shifted(x) ? 0 : x_zero->at(0),
                           .groups = conv.groups};
    Dequantised image = x;
    take_border(image, attrs);
    Value* y =
        ops::centred_convolution(g_, integers(image), integers(w), attrs, nullptr, zero_or_null(w));
    Value* scale = ops::mul(g_, x.scale, w.scale);
    if (w.axis == 0)
      scale = ops::reshape(g_, scale, {node_.input(1)->type().shape[0], Dim(1), Dim(1)});
    return ops::mul(g_, ops::cast(g_, y, DType::f32), scale);
  }

  struct Axis {
    std::int64_t axis = -1;
    static constexpr auto fields() { return std::tuple{field("axis", &Axis::axis)}; }
  };

  Graph& g_;
  Node& node_;
  PassContext& context_;
};

bool rewrite(Graph& graph, Node& node, PassContext& context) {
  LabelPropagation labels(graph, &node);
  InsertBefore here(graph, &node);
  graph.set_location(node.location());
  Value* y = Rewriter(graph, node, context).run();
  graph.set_location({});
  if (y == nullptr) return false;
  labels.apply(node);
  y->set_name(node.output()->name());
  graph.replace_all_uses(node.output(), y);
  return true;
}

// Whether the value is computed from a product of integers, element by element.
bool is_of_integer_product(const Value* v) {
  constexpr int kSteps = 8;
  for (int step = 0; step < kSteps; ++step) {
    const Node* node = v->producer();
    if (node == nullptr) return false;
    if (ops::is_integer_product(*node)) return true;
    const bool is_step =
        std::ranges::any_of(std::initializer_list<const char*>{"cast", "mul", "add", "sub",
                                                               "maximum", "minimum", "reshape"},
                            [&](const char* op) { return node->is(op); });
    if (!is_step) return false;
    v = node->input(0);
  }
  return false;
}

// Sums that are quantised again are multiplied by the reciprocal of the scale, as they are already
// by the scales of the operands: a division costs more than all the rest of an epilogue.
bool multiply_by_reciprocal(Graph& graph, Node& node) {
  const Value *x = node.input(0), *scale = node.input(1);
  const Node* from = scale->producer();
  const bool is_number = from != nullptr && (from->is("constant") || from->is("full"));
  if (!is_number || product(scale->type().shape) != Dim(1)) return false;
  if (x->type().dtype != DType::f32 || node.output()->type().strides) return false;
  const auto& uses = node.output()->uses();
  if (uses.empty() || !std::ranges::all_of(uses, [](const Use& use) {
        return use.node != nullptr && use.node->is("round");
      }))
    return false;
  if (!is_of_integer_product(x)) return false;
  LabelPropagation labels(graph, &node);
  InsertBefore here(graph, &node);
  graph.set_location(node.location());
  Value* reciprocal = ops::div(graph, ops::scalar(graph, DType::f32, 1), node.input(1));
  Value* y = ops::mul(graph, node.input(0), reciprocal);
  graph.set_location({});
  labels.apply(node);
  graph.replace_all_uses(node.output(), y);
  return true;
}

}  // namespace

bool integer_products(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    if (node.is("div")) changed |= multiply_by_reciprocal(graph, node);
    for (const auto& subgraph : node.subgraphs()) changed |= integer_products(*subgraph, context);
    if (!node.is("matmul") && !node.is("conv2d")) continue;
    if (node.output()->uses().empty() || !rewrite(graph, node, context)) continue;
    context.count();
    changed = true;
  }
  return changed;
}

bool expand_integer_products(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node* node = graph.first(); node != nullptr; node = node->next()) {
    for (const auto& subgraph : node->subgraphs())
      changed |= expand_integer_products(*subgraph, context);
    if (!ops::is_integer_product(*node) || node->output()->uses().empty()) continue;
    InsertBefore here(graph, node);
    graph.set_location(node->location());
    Value* y = ops::expand_node(graph, *node).at(0);
    graph.set_location({});
    graph.replace_all_uses(node->output(), y);
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
