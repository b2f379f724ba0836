#pragma once
// OpBody: what an op computes, as scalar expressions at an index. Written once in the op's
// definition and used by the interpreter, fusion, LLVM and CUDA. The body requests operands at
// indices; the lowering decides whether a request becomes a load or the producer's own expression
// (fusion).

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.hpp"
#include "loop/builder.hpp"

namespace gex::loop {

using Indices = std::span<const Dim>;

class BodyContext {
 public:
  BodyContext(ScalarBuilder& builder, const Node& op_node) : s(builder), node(op_node) {}
  virtual ~BodyContext() = default;
  // Operand k at an index inside its shape. Scalar has the operand's dtype.
  virtual Scalar in(int k, Indices index) = 0;
  // The same where `pred` holds, else `fill`: memory is not accessed where the predicate is false.
  virtual Scalar in(int k, Indices index, Scalar pred, Scalar fill) = 0;

  const Type& in_type(int k) const { return node.input(static_cast<std::size_t>(k))->type(); }
  const Type& out_type(int k = 0) const { return node.output(static_cast<std::size_t>(k))->type(); }

  ScalarBuilder& s;
  const Node& node;
};

// out_k[index] = map(index). The only body of elementwise ops, views, cat, pad, gather, iota,
// random.
using MapBody = std::function<Scalar(BodyContext&, int output, Indices index)>;

struct ReductionBody {
  bool scan = false;
  // The axes of the iteration shape that are reduced. `shape` gives the iteration shape; the axes
  // not in `axes` must be, in order, the non-unit (or all) dims of the output.
  std::function<Shape(const Node&)> shape;
  std::function<std::vector<int>(const Node&)> axes;
  // Index of the outputs at a point of the iteration shape (must not use reduced axes unless scan).
  std::function<std::vector<Dim>(const Node&, Indices point)> out_index;
  std::function<std::vector<Accumulator>(const Node&)> accumulators;
  std::function<std::vector<Scalar>(BodyContext&, Indices point)> elements;
  std::function<std::vector<Scalar>(ScalarBuilder&, const Node&, std::span<const Scalar> a,
                                    std::span<const Scalar> b)>
      combine;
  // Computes output k from the final accumulators (scan: those after this element).
  std::function<Scalar(BodyContext&, int output, Indices point, std::span<const Scalar> acc)>
      finish;
};

struct ScatterBody {
  // out = copy of input 0, then for each point of `shape`: out[index] (mode)= value, if in range.
  std::function<Shape(const Node&)> shape;
  struct Update {
    std::vector<Dim> index;
    Scalar value;
    Scalar pred;  // kNoExpr id: always
  };
  std::function<Update(BodyContext&, Indices point)> update;
  std::function<Store::Mode(const Node&)> mode;
};

struct OpBody {
  MapBody map;  // exactly one of the three is set
  std::unique_ptr<const ReductionBody> reduction;
  std::unique_ptr<const ScatterBody> scatter;
};

}  // namespace gex::loop
