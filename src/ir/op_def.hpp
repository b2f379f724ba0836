#pragma once
// OpDef: the definition of an op, registered once by one file of src/ops. Passes, printers, the
// interpreter, code generation and front ends query it; nothing switches on names.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/attrs.hpp"
#include "ir/type.hpp"

namespace gex {

class Graph;
class Node;
class Value;
class AtenCall;  // frontend spelling, see ops/rows/aten.hpp
class HostTensor;
namespace loop {
struct OpBody;  // see loop/body.hpp
}
namespace ops {
struct ProblemRule;       // see ops/core/problem_rule.hpp
struct ReferenceContext;  // see ops/core/reference.hpp
}  // namespace ops

enum class Trait : std::uint32_t {
  pure = 1u << 0,         // no effect, same inputs same outputs: may be removed, merged, recomputed
  elementwise = 1u << 1,  // out[i] depends only on in_k[i] (after broadcasting)
  reduction = 1u << 2,    // body is a reduction
  scan = 1u << 3,         // body is a scan
  scatter = 1u << 4,      // body stores to data-dependent indices of a copy of input 0
  view = 1u << 5,         // body is an index map on input 0: no arithmetic
  commutative = 1u << 6,  // inputs 0 and 1 may be swapped
  random = 1u << 7,       // draws from a counter-based generator given as input
  effect = 1u << 8,       // ordered by tokens; never removed or reordered
  contraction = 1u << 9,  // sums products: counts as work of matrix units
  composite = 1u << 10,   // defined by `expand`
  control = 1u << 11,     // has subgraphs
  constant = 1u << 12,    // no inputs, value known from attributes only
  cheap = 1u << 13,       // recomputing costs less than a load and a store
  idempotent = 1u << 14,  // f(f(x)) == f(x)
  concatenation = 1u << 15,  // the inputs one after another along attribute "axis"
};
constexpr std::uint32_t operator|(Trait a, Trait b) {
  return static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b);
}
constexpr std::uint32_t operator|(std::uint32_t a, Trait b) {
  return a | static_cast<std::uint32_t>(b);
}

struct InputSpec {
  std::string name;
  enum class Arity : std::uint8_t { one, optional, variadic } arity = Arity::one;
};

// The input of a shape rule: it must work on symbolic Dims and throw UserError with both shapes on
// misuse. Absent optional inputs are null.
struct InferContext {
  std::string_view op_name;
  std::span<const Type* const> inputs;
  const AttrList& attrs;
  std::span<const std::unique_ptr<Graph>> subgraphs;

  const Type& in(std::size_t i) const { return *inputs[i]; }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  template <class S>
  S as() const {
    return from_attr_list<S>(attrs);
  }
};

// One ATen overload ("aten.add.Tensor") and its conversion to nodes. Returning no values means "not
// supported in this form": the importer continues with the decomposition or a call.
struct AtenRow {
  std::string overload;
  std::function<std::vector<Value*>(AtenCall&)> import;
};

// The runtime step of an op that is not a kernel.
enum class StepKind : std::uint8_t {
  none,      // has a body, an expansion or a problem
  constant,  // data stored in the program
  call,      // of a function of the host program
  bind,      // assigns a value to a size symbol
  branch,    // runs one of two subgraphs
  loop,      // runs a subgraph while another returns true
  order,     // only orders effects: no step
};

// An input whose elements are positions along an axis of input 0. Negative ones count from its end.
struct IndexInput {
  std::size_t input;
  std::int64_t axis;
};

// Bounds of the elements of a result, both included.
struct ElementBounds {
  Dim low, high;
};

// A small example of an op over the symbol s; tests check every op with it.
struct OpSample {
  struct Input {
    Shape shape;
    // index: i64, small; flag: bool; key: i64, 0-d; data: the dtype under test.
    enum class Kind : std::uint8_t { data, index, flag, key } kind = Kind::data;
  };
  std::vector<Input> inputs;
  std::vector<std::pair<std::string, AttrValue>> attrs;
  // For ops whose inputs need preparation; else the op is applied to the inputs with `attrs`.
  std::function<std::vector<Value*>(Graph&, const std::vector<Value*>&)> build;
};

// How the generated numeric tests choose inputs and compare results.
struct TestSpec {
  double low = -3.0, high = 3.0;
  double ulp_f32 = 4.0;
  std::vector<DType> dtypes;  // empty: every dtype the op accepts
};

struct OpDef {
  std::string name;
  std::string doc;
  std::vector<InputSpec> inputs;
  std::vector<std::string> outputs;  // names; empty if their number depends on the node
  AttrSchema attrs;
  std::uint32_t traits = 0;
  std::function<std::vector<Type>(const InferContext&)> infer;  // mandatory
  // Exactly one of: a loop body; an expansion into other ops (given the node's inputs; returns its
  // outputs, inserted before the node); a step of the runtime.
  std::shared_ptr<const loop::OpBody> body;
  std::function<std::vector<Value*>(Graph&, const Node&)> expand;
  StepKind step = StepKind::none;
  // How the node becomes a problem of src/problems, and which operands a prologue may compute; null
  // for ops that are only loops, steps or expansions. ops::has_problem tells for which nodes it
  // applies.
  std::shared_ptr<const ops::ProblemRule> problem;
  // Computes the results with plain code if body and expansion are too slow or don't exist.
  std::vector<HostTensor> (*reference)(const ops::ReferenceContext&) = nullptr;
  std::vector<IndexInput> (*indices)(const Node&) = nullptr;
  std::optional<ElementBounds> (*bounds)(const Node&) = nullptr;
  // The op on two integers that are known as sizes; nothing if the result is not known.
  std::optional<Dim> (*on_sizes)(Dim, Dim) = nullptr;
  std::vector<AtenRow> aten;
  TestSpec test;
  std::function<OpSample()> sample;  // none: elementwise ops share a default

  bool has(Trait t) const { return (traits & static_cast<std::uint32_t>(t)) != 0; }
};

// The registry. Ops of src/ops are registered from the start (ops/core/registry.cpp lists the
// families, so the order of static initialisation does not matter); user ops may be added at run
// time under new names.
const OpDef& op(std::string_view name);       // UserError(not_found) suggests the nearest name
const OpDef* find_op(std::string_view name);  // null if unknown
const OpDef& register_op(OpDef def);          // UserError if the name is taken or infer missing
std::vector<const OpDef*> all_ops();          // sorted by name
// Set once by src/ops, so that ir can load the built-in ops on first use without depending on them.
void set_builtin_ops_loader(void (*load)());

}  // namespace gex
