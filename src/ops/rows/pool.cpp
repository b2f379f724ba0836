// PyTorch's pools and their gradients.

#include <optional>

#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/pool.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

Ints entries(const AtenCall& c, std::size_t i, std::size_t axes) {
  Ints values = c.integers(i);
  if (values.size() == 1) values.resize(axes, values[0]);
  return values;
}

// kernel, stride and padding from argument `at` on; an empty stride is the kernel.
Pool pool_arguments(const AtenCall& c, std::size_t at, std::size_t axes) {
  Pool a;
  a.kernel = entries(c, at, axes);
  a.stride = entries(c, at + 1, axes);
  if (a.stride.empty()) a.stride = a.kernel;
  a.padding = entries(c, at + 2, axes);
  a.dilation = Ints(axes, 1);
  return a;
}

// The windows of a pool whose pooled input had this shape.
PoolGrad grad_of(const Pool& a, const Shape& pooled) {
  const Dims size(pooled.end() - static_cast<std::ptrdiff_t>(a.kernel.size()), pooled.end());
  return {a.kernel, a.stride, a.padding, a.dilation, a.count_include_pad, a.divisor, size};
}

Dims last_axes(const Shape& shape, std::size_t axes) {
  return {shape.end() - static_cast<std::ptrdiff_t>(axes), shape.end()};
}

AtenImport max_pool(std::size_t axes) {  // x, kernel, stride, padding, dilation, ceil_mode
  return [axes](AtenCall& c) {
    Pool a = pool_arguments(c, 1, axes);
    a.dilation = entries(c, 4, axes);
    a.ceil = c.flag(5);
    Node* n = c.graph().add(op(pool_name("max_pool", axes)), {c.tensor(0)}, a);
    return std::vector{n->output(0), n->output(1)};
  };
}

// grad, x, kernel, stride, padding, dilation, ceil, indices
AtenImport max_pool_backward(std::size_t axes) {
  return [axes](AtenCall& c) {
    Pool a = pool_arguments(c, 2, axes);
    a.dilation = entries(c, 5, axes);
    return one(apply(c.graph(), pool_name("max_pool", axes, "_grad"), {c.tensor(0), c.tensor(7)},
                     grad_of(a, c.result().shape)));
  };
}

// ceil, count_include_pad and divisor from argument `at` on.
void mean_arguments(const AtenCall& c, std::size_t at, Pool& a) {
  a.ceil = c.flag(at);
  a.count_include_pad = c.flag(at + 1);
  a.divisor = c.none(at + 2) ? 0 : c.number(at + 2);
}

AtenImport avg_pool(std::size_t axes) {
  return [axes](AtenCall& c) {
    Pool a = pool_arguments(c, 1, axes);
    mean_arguments(c, 4, a);
    return one(apply(c.graph(), pool_name("avg_pool", axes), {c.tensor(0)}, a));
  };
}

AtenImport avg_pool_backward(std::size_t axes) {  // grad, x, ...
  return [axes](AtenCall& c) {
    Pool a = pool_arguments(c, 2, axes);
    mean_arguments(c, 5, a);
    return one(apply(c.graph(), pool_name("avg_pool", axes, "_grad"), {c.tensor(0)},
                     grad_of(a, c.result().shape)));
  };
}

// If the number of windows divides an axis, windows are tiles: [..., window, tap] for each axis.
std::optional<Shape> tiles(const Shape& x, const Shape& y, std::size_t axes) {
  Shape shape(x.begin(), x.end() - static_cast<std::ptrdiff_t>(axes));
  for (std::size_t k = x.size() - axes; k < x.size(); ++k) {
    if (known_eq(mod(x[k], y[k]), 0) != true) return std::nullopt;
    shape.push_back(y[k]);
    shape.push_back(floordiv(x[k], y[k]));
  }
  return shape;
}

AtenImport adaptive_avg_pool(std::size_t axes) {
  return [axes](AtenCall& c) {
    Graph& g = c.graph();
    Value* x = c.tensor(0);
    if (const auto shape = tiles(x->type().shape, c.result().shape, axes)) {
      Ints taps;
      for (std::size_t k = 0; k < axes; ++k) taps.push_back(-1 - 2 * static_cast<std::int64_t>(k));
      return one(reduce_mean(g, reshape(g, x, *shape), taps));
    }
    return one(apply(g, pool_name("adaptive_avg_pool", axes), {x},
                     Adaptive{last_axes(c.result().shape, axes)}));
  };
}

AtenImport adaptive_max_pool(std::size_t axes) {
  return [axes](AtenCall& c) {
    Node* n = c.graph().add(op(pool_name("adaptive_max_pool", axes)), {c.tensor(0)},
                            Adaptive{last_axes(c.result().shape, axes)});
    return std::vector{n->output(0), n->output(1)};
  };
}

// grad, x and for max pools indices
AtenImport adaptive_backward(const char* kind, std::size_t axes) {
  return [kind, axes](AtenCall& c) {
    std::vector<Value*> inputs{c.tensor(0)};
    if (c.size() > 2) inputs.push_back(c.tensor(2));
    return one(apply(c.graph(), pool_name(kind, axes, "_grad"), inputs,
                     Adaptive{last_axes(c.result().shape, axes)}));
  };
}

}  // namespace

void register_pool_rows() {
  for (std::size_t axes : {2, 3}) {
    auto row = [axes](const char* kind, const char* rest, AtenImport import) {
      register_aten_row(str("aten.", pool_name(kind, axes, rest), ".default"), std::move(import));
    };
    row("max_pool", "_with_indices", max_pool(axes));
    row("max_pool", "_with_indices_backward", max_pool_backward(axes));
    row("avg_pool", "", avg_pool(axes));
    row("avg_pool", "_backward", avg_pool_backward(axes));
    row("_adaptive_avg_pool", "", adaptive_avg_pool(axes));
    row("_adaptive_avg_pool", "_backward", adaptive_backward("adaptive_avg_pool", axes));
    row("adaptive_max_pool", "", adaptive_max_pool(axes));
    row("adaptive_max_pool", "_backward", adaptive_backward("adaptive_max_pool", axes));
  }
  register_aten_facts({"aten._adaptive_avg_pool2d", "aten.avg_pool2d"},
                      {.decomposition = AtenFacts::Decomposition::any});
}

}  // namespace gex::ops
