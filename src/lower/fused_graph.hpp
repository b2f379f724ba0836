#pragma once
// The kernel level: the graph partitioned into units, each of which becomes one launch or one
// runtime step.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/graph.hpp"
#include "loop/kernel.hpp"
#include "target/target.hpp"

namespace gex::lower {

// Elementwise code that computes an operand of a problem. Parameters of the kernel: inputs, then
// the operand's elements (f32 or f64) over the dense grid of `value`.
struct Prologue {
  int operand = 0;
  Value* value = nullptr;  // the operand is a view of it
  std::vector<Value*> inputs;
  loop::Kernel kernel;
};

struct Unit {
  enum class Kind : std::uint8_t {
    loop,     // `kernel`; parameters: inputs, then outputs
    problem,  // `anchor` as a problem, then `kernel` (if any) as its epilogue
    scatter,  // `anchor`, with a form that copies input 0 first and one that works in place
    step,     // calls and control flow: `anchor` becomes a runtime step
  };
  Kind kind = Kind::loop;
  std::vector<const Node*> nodes;  // in graph order
  const Node* anchor = nullptr;
  // Values in memory that are read, and written. Problems: operands of the anchor are not
  // listed here (they are strided views, resolved when the step is made), only what the epilogue
  // reads.
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  // loop: parameters are inputs then outputs. problem with an epilogue: parameter 0 is the
  // accumulator (dense, f32 or f64, over `space`), then inputs, then outputs.
  loop::Kernel kernel;
  Shape space;
  bool has_epilogue = false;
  std::vector<Prologue> prologues;  // of a problem: these operands have no memory

  const Prologue* prologue_of(int operand) const;  // null: the operand is in memory

  std::string label() const;  // "add+gelu+sum": for names and reports
};

// Why two nodes that could have been fused are separate launches.
struct Remark {
  std::string node;  // op and result, with the user's line if known
  std::string reason;
  const Node* at = nullptr;
  const Node* other = nullptr;  // the last node of the neighbour
};

struct FusedGraph {
  std::vector<Unit> units;  // in an order that respects data and tokens
  std::vector<Remark> remarks;
};

struct FuseOptions {
  bool enabled = true;         // false: every node is a separate unit
  bool prologues = true;       // operands may be computed by the kernel that reads them
  std::size_t max_nodes = 64;  // in one unit
  CostModel costs;             // of the target
  // Graph outputs that are returned as views of inputs and so need no memory.
  std::unordered_set<const Value*> views;
  // Concatenations whose parts are written directly into the result: steps, not kernels.
  std::unordered_set<const Node*> placed_cats;
  bool cats_alone = false;  // every concatenation is a separate kernel
};

// The graph must have no composites except those that are problems.
FusedGraph fuse(const Graph& graph, const FuseOptions& options = {});

std::string print(const FusedGraph& fused);  // units with their kernels' loop text, then remarks

}  // namespace gex::lower
