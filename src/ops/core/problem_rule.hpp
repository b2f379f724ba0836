#pragma once
// How a node becomes a problem of src/problems. The rule of an op is in a file of its family;
// fusion queries it for epilogues and prologues, emission calls `launch`.

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.hpp"
#include "problems/problem.hpp"
#include "target/target.hpp"

namespace gex::ops {

// Memory of an operand; `buffer` is its number in the program.
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
  Dim work;  // scalar operations
};

// A node that is being turned into a launch.
class ProblemContext {
 public:
  ProblemContext(const Node& n, bool with_epilogue, bool any_batch, bool subnormals,
                 problems::OperandSet set)
      : node(n),
        has_epilogue(with_epilogue),
        any_rows(any_batch),
        keep_subnormals(subnormals),
        computed(set) {}
  virtual ~ProblemContext() = default;

  // Operand k in its current memory, never copied. An operand computed by a prologue has the
  // strides of its value, and a buffer that is not read.
  virtual StridedOperand operand(int k) = 0;
  // Operand k in the layout of its type, copied there if it is a view.
  virtual StridedOperand materialised(int k) = 0;
  // A dense copy of elements of this type, laid out as `from`.
  virtual StridedOperand dense_copy(const StridedOperand& from, const Type& type) = 0;
  virtual bool is_used(std::size_t result) const = 0;

  const Node& node;
  const bool has_epilogue;              // receives the sums; the problem's result is not stored
  const bool any_rows;                  // a row must have the same bits for any number of rows
  const bool keep_subnormals;           // also where the processor's own instruction does not
  const problems::OperandSet computed;  // by prologues
};

// Which operands the kernels can take from prologues.
struct PrologueRule {
  std::vector<int> (*operands)(const Node&) = nullptr;
  // How often the kernel reads each element of an operand. 0: computing it always pays.
  std::int64_t (*times_read)(const Node&, int operand, const CostModel&) = nullptr;
  // Whether an operand may be computed, given whether a view repeats its elements; null: only if it
  // does not.
  bool (*accepts)(const Node&, int operand, bool repeated) = nullptr;
  bool along_columns = false;  // an operand may be dense along its second to last axis
  bool whole_rows = true;      // each call of the code is for one row at most
};

struct ProblemRule {
  ProblemLaunch (*launch)(ProblemContext&) = nullptr;
  bool epilogue = false;            // passes its sums to an epilogue
  bool any_result_strides = false;  // can store a matrix with any strides
  bool library_product = false;     // vendors' libraries can compute it: a plain matmul
  std::optional<int> packed;        // the operand that targets may pack if it is constant
  std::optional<PrologueRule> prologues;
  // The value that the kernel reads for an operand, where it looks through the operand's producer;
  // null: the operand itself.
  Value* (*operand_value)(const Node&, int operand) = nullptr;
};

// Whether the node is computed as a problem. Ops with a loop body have kernels for floats and run
// as loops on integers. Ops without one have kernels for every dtype.
inline bool has_problem(const Node& node) {
  return node.op().problem != nullptr && (!node.op().body || is_float(node.output()->type().dtype));
}

// Strides of a value that owns memory: those of its type, else dense.
inline std::vector<Dim> result_strides(const Node& node, std::size_t result = 0) {
  const Type& type = node.output(result)->type();
  return type.strides ? *type.strides : dense_strides(type.shape);
}

// The dtype of sums, which an epilogue receives.
inline DType accumulated(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Zeros around images that only convolutions computed as problems read: their kernels pad images
// themselves.
bool is_conv_border(const Node& node);
// Whether the node is a border of zeros around images.
bool is_image_border(const Node& node);

// Whether the kernel for transposed convolutions can compute a conv_transpose2d, and the node of
// that kernel with its operands.
bool has_transposed_kernel(const Node& node);
Value* conv2d_transposed(Graph& g, const Node& node);

}  // namespace gex::ops
