#pragma once
// The vocabulary in which src/ops defines ops. A family file reads like a table:
//
//   unary("tanh", Prim::tanh, "Hyperbolic tangent.").aten("aten.tanh.default").define();
//
// One statement defines everything about an op; define() adds it to the registry.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/assume.hpp"
#include "ir/graph.hpp"
#include "ir/op_def.hpp"
#include "loop/body.hpp"
#include "ops/core/attributes.hpp"
#include "ops/core/problem_rule.hpp"
#include "ops/core/reference.hpp"
#include "ops/rows/aten.hpp"

namespace gex::ops {

using loop::BodyContext;
using loop::Indices;
using loop::Prim;
using loop::Scalar;
using loop::ScalarBuilder;
using AtenImport = std::function<std::vector<Value*>(AtenCall&)>;

class Definition {
 public:
  Definition(std::string name, std::string doc);

  Definition& in(std::initializer_list<const char*> names);
  Definition& optional_in(std::initializer_list<const char*> names);
  Definition& variadic_in(const char* name);
  template <class S>
  Definition& attrs() {
    def_.attrs = schema_of<S>();
    return *this;
  }
  Definition& traits(Trait t);
  Definition& traits(std::uint32_t t);
  Definition& infer(std::function<std::vector<Type>(const InferContext&)> rule);
  // Names of the results of an op with several; ops with one need none.
  Definition& out(std::initializer_list<const char*> names);
  // For ops with one output.
  Definition& infer_one(std::function<Type(const InferContext&)> rule);

  Definition& map(loop::MapBody body);
  Definition& reduction(loop::ReductionBody body);
  Definition& scatter(loop::ScatterBody body);
  Definition& expand(std::function<std::vector<Value*>(Graph&, const Node&)> expansion);

  Definition& step(StepKind kind);
  Definition& problem(ProblemRule rule);
  Definition& reference(std::vector<HostTensor> (*function)(const ReferenceContext&));
  Definition& indices(std::vector<IndexInput> (*function)(const Node&));
  Definition& bounds(std::optional<ElementBounds> (*function)(const Node&));
  Definition& on_sizes(std::optional<Dim> (*function)(Dim, Dim));

  Definition& aten(const char* overload, AtenImport import);
  // With the family's default import (unary, binary, comparison).
  Definition& aten(std::initializer_list<const char*> overloads);
  Definition& aten(const char* overload) { return aten({overload}); }
  Definition& usual_import(AtenImport import);

  Definition& tested(double low, double high, double ulp_f32 = 4.0);
  Definition& tested_on(std::vector<DType> dtypes);
  Definition& sample(std::function<OpSample()> make);

  const OpDef& define();
  const std::string& name() const { return def_.name; }

 private:
  OpDef def_;
  AtenImport usual_import_;
};

// --- dtype classes an op may accept ---------------------------------------------------------
using DTypeSet = bool (*)(DType);
bool any_dtype(DType d);
bool numeric(DType d);   // not bool
bool floating(DType d);  // f64 f32 f16 bf16
bool integral(DType d);  // integers and bool
bool numeric_only_signed(DType d);
// UserError naming the op, the dtype and what to do.
void require_dtype(const InferContext& c, std::size_t input, DTypeSet accepts);
void require_same_dtype(const InferContext& c, std::size_t a, std::size_t b);
void require_rank(const InferContext& c, std::size_t input, int rank);
// Attributes of windows (stride, dilation, kernel: at least 1; padding: at least 0), two entries
// each.
void require_at_least(const InferContext& c, const char* attribute, const Ints& values,
                      std::int64_t least);

// --- elementwise ----------------------------------------------------------------------------
// Broadcasts all inputs from `first` on.
Shape broadcast_inputs(const InferContext& c, std::size_t first = 0);
// Whether an operand can be read at every index of a shape.
bool broadcasts_to(const Shape& operand, const Shape& shape, std::string_view op_name);
// The index of an operand of this shape for element `index` of the broadcast result.
std::vector<Dim> broadcast_index(const Shape& operand, const Shape& result, Indices index);
Scalar in_broadcast(BodyContext& c, int k, Indices index);

Definition unary(const char* name, Prim prim, const char* doc, DTypeSet accepts = floating);
// The body gets and returns the compute type: one rounding at the end, as in eager PyTorch.
using UnaryBody = std::function<Scalar(ScalarBuilder&, const Node&, Scalar)>;
Definition unary_body(const char* name, const char* doc, UnaryBody body,
                      DTypeSet accepts = floating);
Definition binary(const char* name, Prim prim, const char* doc, DTypeSet accepts = numeric);
using BinaryBody = std::function<Scalar(ScalarBuilder&, const Node&, Scalar, Scalar)>;
Definition binary_body(const char* name, const char* doc, BinaryBody body,
                       DTypeSet accepts = numeric);
Definition comparison(const char* name, Prim prim, const char* doc);

// --- shapes ---------------------------------------------------------------------------------
// Linear position of an index in a dense row-major shape, and back.
Dim linearise(Indices index, const Shape& shape);
std::vector<Dim> delinearise(Dim linear, const Shape& shape);
// The index in `from` of the element at `index` of `to`, a shape with the same number of elements.
std::vector<Dim> reshape_index(const Shape& from, const Shape& to, Indices index);
// Whether `size` elements from `start` by `step` are inside an axis; an empty slice always is.
bool fits_into(Dim start, Dim size, std::int64_t step, Dim axis);
// Ascending and inside input 0.
void require_axes(const InferContext& c, const Ints& axes);
Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdim);
bool contains(const Ints& axes, std::int64_t axis);
Ints all_axes(int rank);

}  // namespace gex::ops
