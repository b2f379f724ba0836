#pragma once
// How a node becomes a problem of src/problems. The rule of an op stands in a file of its family;
// fusion asks it about epilogues and prologues, emission calls `launch`.

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.hpp"
#include "problems/problem.hpp"
#include "target/target.hpp"

namespace gex::ops {

// Memory of an operand: `buffer` is emission's number for it.
struct StridedOperand {
  int buffer = -1;
  std::vector<Dim> strides;
  Dim offset;
  bool operator==(const StridedOperand&) const = default;
};

// A launch before its epilogue and prologues are attached.
struct ProblemLaunch {
  problems::Problem problem;
  std::vector<StridedOperand> operands;
  std::vector<Dim> dims;
  Dim work;  // scalar steps
};

// A node on its way to a launch.
class ProblemContext {
 public:
  ProblemContext(const Node& n, bool with_epilogue, bool any_batch, problems::OperandSet set)
      : node(n), has_epilogue(with_epilogue), any_rows(any_batch), computed(set) {}
  virtual ~ProblemContext() = default;

  // Where operand k lies, never copied. What a prologue computes has the strides it would have,
  // and a buffer that is not read.
  virtual StridedOperand operand(int k) = 0;
  // Operand k in the layout of its type, copied there if it is a view.
  virtual StridedOperand materialised(int k) = 0;
  // A dense copy of elements of this type that lie as `from` says.
  virtual StridedOperand dense_copy(const StridedOperand& from, const Type& type) = 0;
  virtual bool is_used(std::size_t result) const = 0;

  const Node& node;
  const bool has_epilogue;              // takes the sums; the problem's result is not stored
  const bool any_rows;                  // a row must have the same bits whatever their number
  const problems::OperandSet computed;  // by prologues
};

// Which operands the kernels take from prologues.
struct PrologueRule {
  std::vector<int> (*operands)(const Node&) = nullptr;
  // How often the kernel asks for each element of an operand. 0: computing it always pays.
  std::int64_t (*times_read)(const Node&, int operand, const CostModel&) = nullptr;
  // Whether an operand may be computed, given whether a view repeats its elements; null: only what
  // is not repeated.
  bool (*accepts)(const Node&, int operand, bool repeated) = nullptr;
  bool along_columns = false;  // an operand may be dense along its second to last axis
  bool whole_rows = true;      // each call of the code is for one row at most
};

struct ProblemRule {
  ProblemLaunch (*launch)(ProblemContext&) = nullptr;
  bool epilogue = false;            // hands its sums to an epilogue
  bool any_result_strides = false;  // stores a matrix with any strides
  bool library_product = false;     // what vendors' libraries compute: a product of matrices
  std::optional<int> packed;        // the operand that targets may pack if it never changes
  std::optional<PrologueRule> prologues;
};

// Whether the node is computed as a problem. Ops with a loop body have kernels for floats and run
// as loops on integers. Ops without one have kernels for every dtype.
inline bool has_problem(const Node& node) {
  return node.op().problem != nullptr && (!node.op().body || is_float(node.output()->type().dtype));
}

// How a value that owns memory lies there: its type's strides, else dense.
inline std::vector<Dim> result_strides(const Node& node, std::size_t result = 0) {
  const Type& type = node.output(result)->type();
  return type.strides ? *type.strides : dense_strides(type.shape);
}

// The dtype of sums: what an epilogue gets.
inline DType accumulated(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace gex::ops
