// Gradients of pools: each element sums over the windows that cover it, so that elements are
// independent of each other.

#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/fold.hpp"
#include "ops/pool.hpp"

namespace gex::ops {

namespace {

ShapeRule fixed_rule(std::size_t axes) {
  return [axes](const InferContext& c) {
    const auto a = c.as<PoolGrad>();
    require_windows(c, axes, a.kernel, a.stride, a.padding, a.dilation);
    return with_pooled_axes(c, axes, a.size);
  };
}

Scalar gradient_at(BodyContext& c, const Place& e) {
  const DType t = c.in_type(0).dtype;
  return c.s.cast(c.in(0, e.at, e.inside, c.s.constant(t, 0)), compute_type(t));
}

template <class Attributes>
void register_max_grad(const std::string& name, std::size_t axes, const WindowForm& form,
                       const ShapeRule& rule) {
  loop::ReductionBody body = sum_over_windows(form);
  body.elements = [form, axes](BodyContext& c, Indices p) {
    const Place e = form.element(c, p);
    const Scalar nowhere = c.s.constant_int(DType::i64, -1);
    const Scalar largest = c.in(1, e.at, e.inside, nowhere);
    const Scalar self = c.s.index(plane_position(p, c.out_type().shape, axes));
    const Scalar grad = gradient_at(c, e);
    return std::vector<Scalar>{
        c.s.select(c.s.binary(Prim::eq, largest, self), grad, c.s.constant(grad.dtype, 0))};
  };
  Definition(name, "The gradient of a max pool, from that of its result and its indices.")
      .in({"grad", "indices"})
      .attrs<Attributes>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([rule](const InferContext& c) {
        require_dtype(c, 0, floating);
        require_dtype(c, 1, [](DType d) { return d == DType::i64; });
        bool fits = c.in(0).rank() == c.in(1).rank();
        for (std::size_t d = 0; fits && d < c.in(0).shape.size(); ++d) {
          fits = assume_eq(c.in(0).shape[d], c.in(1).shape[d]);
        }
        if (!fits) {
          fail(ErrorCode::shape_mismatch, c.op_name, ": grad is ", c.in(0), ", indices are ",
               c.in(1), "; both need one shape");
        }
        return Type::tensor(c.in(0).dtype, rule(c));
      })
      .reduction(std::move(body))
      .sample(pool_sample(axes, std::is_same_v<Attributes, Adaptive>, true, true))
      .define();
}

template <class Attributes>
void register_mean_grad(const std::string& name, std::size_t axes, const WindowForm& form,
                        const ShapeRule& rule) {
  loop::ReductionBody body = sum_over_windows(form);
  body.elements = [form](BodyContext& c, Indices p) {
    const Place e = form.element(c, p);
    const Scalar grad = gradient_at(c, e);
    const Scalar count = form.count(c, e.at, c.out_type().shape, grad.dtype);
    // A window that does not exist may have no elements: no division by their number.
    const Scalar nothing = c.s.constant(grad.dtype, 0);
    return std::vector<Scalar>{c.s.select(e.inside, c.s.div(grad, count), nothing)};
  };
  define_mean<Attributes>(name, "The gradient of a mean pool, from that of its result.", "grad",
                          rule, std::move(body),
                          pool_sample(axes, std::is_same_v<Attributes, Adaptive>, true, false));
}

}  // namespace

void register_pool_grad() {
  for (std::size_t axes : {2, 3}) {
    register_max_grad<PoolGrad>(pool_name("max_pool", axes, "_grad"), axes, kPoolCandidates,
                                fixed_rule(axes));
    register_max_grad<Adaptive>(pool_name("adaptive_max_pool", axes, "_grad"), axes,
                                kAdaptiveCandidates, adaptive_shape(axes));
    register_mean_grad<PoolGrad>(pool_name("avg_pool", axes, "_grad"), axes, kPoolCandidates,
                                 fixed_rule(axes));
    register_mean_grad<Adaptive>(pool_name("adaptive_avg_pool", axes, "_grad"), axes,
                                 kAdaptiveCandidates, adaptive_shape(axes));
  }
}

}  // namespace gex::ops
