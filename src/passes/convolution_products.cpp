#include "passes/convolution_products.hpp"

#include <array>

#include "ops/core/build.hpp"
#include "passes/engine/rules.hpp"

namespace gex::passes {
namespace {

bool covers_image(const Node& conv) {
  const auto attrs = conv.as<ops::Conv>();
  const Shape &x = conv.input(0)->type().shape, &w = conv.input(1)->type().shape;
  const auto has_size = [&](std::size_t axis) {
    return w[axis].is_const() && w[axis].constant() > 0 && x[axis] == w[axis];
  };
  // Taps further apart reach over the edge.
  const auto is_dense = [&](std::size_t k) {
    return attrs.padding[k] == 0 && (attrs.dilation[k] == 1 || w[k + 2] == Dim(1));
  };
  return attrs.groups == 1 && has_size(2) && has_size(3) && is_dense(0) && is_dense(1);
}

Value* product_of(Graph& graph, Node& node) {
  if (!node.is("conv2d") || node.output()->type().strides || !covers_image(node)) return nullptr;
  Value *x = node.input(0), *w = node.input(1);
  const Shape &images = x->type().shape, &taps = w->type().shape;
  const Dim depth = taps[1] * taps[2] * taps[3];
  Value* left = ops::reshape(graph, x, {images[0], depth});
  Value* right = ops::transpose(graph, ops::reshape(graph, w, {taps[0], depth}), {1, 0});
  Value* product = ops::matmul(graph, left, right, node.as<ops::Conv>().wide);
  return ops::reshape(graph, product, node.output()->type().shape);
}

constexpr std::array<Rule, 1> kConvolutionProducts = {product_of};

bool make_products(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kConvolutionProducts);
}

}  // namespace

Pass convolution_products() {
  return {"convolution-products", "a convolution whose kernel covers the image becomes a matmul",
          Stage::early, 2, make_products};
}

}  // namespace gex::passes
