#pragma once
// Windows on the last axes of a tensor, shared by pools and their gradients.

#include <functional>
#include <tuple>

#include "ops/core/define.hpp"

namespace gex::ops {

// One entry for each pooled axis.
struct Pool {
  Ints kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool ceil = false;              // the last window may extend over the edge
  bool count_include_pad = true;  // avg_pool: padding counts as zeros
  double divisor = 0;             // avg_pool: replaces the count if not 0
  static constexpr auto fields() {
    return std::tuple{
        field("kernel", &Pool::kernel),   field("stride", &Pool::stride),
        field("padding", &Pool::padding), field("dilation", &Pool::dilation),
        field("ceil", &Pool::ceil),       field("count_include_pad", &Pool::count_include_pad),
        field("divisor", &Pool::divisor)};
  }
};

// Gradients of pools: the windows, and the sizes of the pooled axes of the input.
struct PoolGrad {
  Ints kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool count_include_pad = true;
  double divisor = 0;
  Dims size;
  static constexpr auto fields() {
    return std::tuple{field("kernel", &PoolGrad::kernel),
                      field("stride", &PoolGrad::stride),
                      field("padding", &PoolGrad::padding),
                      field("dilation", &PoolGrad::dilation),
                      field("count_include_pad", &PoolGrad::count_include_pad),
                      field("divisor", &PoolGrad::divisor),
                      field("size", &PoolGrad::size)};
  }
};

// Adaptive pools: window o of `size` covers [o*in/size, ceil((o+1)*in/size)). Their gradients: the
// size of the input.
struct Adaptive {
  Dims size;
  static constexpr auto fields() { return std::tuple{field("size", &Adaptive::size)}; }
};

// The number of windows on an axis.
Dim pooled_size(Dim size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                std::int64_t dilation, bool ceil);
void require_windows(const InferContext& c, std::size_t axes, const Ints& kernel,
                     const Ints& stride, const Ints& padding, const Ints& dilation);

using ShapeRule = std::function<Shape(const InferContext&)>;
// The input's shape with these sizes on its last axes, which must not be empty.
Shape with_pooled_axes(const InferContext& c, std::size_t axes, const Dims& size);
ShapeRule adaptive_shape(std::size_t axes);

// An element of a window, or a window that covers an element, and whether it exists.
struct Place {
  std::vector<Dim> at;
  Scalar inside;
};

// Windows of one form. A point of a pool's iteration space is [..., window, tap], that of its
// gradient [..., element, candidate window].
struct WindowForm {
  Dims (*taps)(const Node&);
  Place (*element)(BodyContext&, Indices point);
  // The divisor of the sum over the window at `point`.
  Scalar (*count)(BodyContext&, Indices point, const Shape& pooled, DType dtype);
};
extern const WindowForm kPoolWindows, kAdaptiveWindows;        // of pools
extern const WindowForm kPoolCandidates, kAdaptiveCandidates;  // of their gradients

// Reduces over the taps, without accumulators and bodies.
loop::ReductionBody over_windows(const WindowForm& form);
// Sums in the compute type and rounds once; without elements.
loop::ReductionBody sum_over_windows(const WindowForm& form);

// A pool or gradient of one floating-point operand.
template <class Attributes>
void define_mean(const std::string& name, const char* doc, const char* operand,
                 const ShapeRule& rule, loop::ReductionBody body,
                 std::function<OpSample()> sample) {
  Definition(name, doc)
      .in({operand})
      .attrs<Attributes>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([rule](const InferContext& c) {
        require_dtype(c, 0, floating);
        return Type::tensor(c.in(0).dtype, rule(c));
      })
      .reduction(std::move(body))
      .sample(std::move(sample))
      .define();
}

// The last `axes` of an index as a row-major number.
Dim plane_position(Indices index, const Shape& shape, std::size_t axes);

// A sample of a pool over `axes` axes or of its gradient, which may take the indices.
std::function<OpSample()> pool_sample(std::size_t axes, bool adaptive, bool gradient,
                                      bool with_indices);

std::string pool_name(const char* kind, std::size_t axes, const char* rest = "");

}  // namespace gex::ops
