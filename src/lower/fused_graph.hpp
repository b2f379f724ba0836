#pragma once
// The kernel level: the graph cut into units, each of which becomes one launch or one runtime step.

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

// Elementwise code that makes an operand of a contraction. Parameters of the kernel: inputs, then
// the operand's elements (f32 or f64) over the dense grid of `value`.
struct Prologue {
  int operand = 0;
  Value* value = nullptr;  // the operand is a view of it
  std::vector<Value*> inputs;
  loop::Kernel kernel;
};

struct Unit {
  enum class Kind : std::uint8_t {
    loop,         // `kernel`; parameters: inputs, then outputs
    contraction,  // `anchor` by a Choice, then `kernel` (if any) as its epilogue
    scatter,      // `anchor`, with a form that copies input 0 first and one that works in place
    step,         // calls and control flow: `anchor` becomes a runtime step
  };
  Kind kind = Kind::loop;
  std::vector<const Node*> nodes;  // in graph order
  const Node* anchor = nullptr;
  // Values in memory that are read, and written. Contractions: operands of the anchor are not
  // listed here (they are strided views, resolved when the step is made), only what the epilogue
  // reads.
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  // loop: parameters are inputs then outputs. contraction with an epilogue: parameter 0 is the
  // accumulator (dense, f32 or f64, over `space`), then inputs, then outputs.
  loop::Kernel kernel;
  Shape space;
  bool has_epilogue = false;
  std::vector<Prologue> prologues;  // of a contraction: these operands have no memory

  const Prologue* prologue_of(int operand) const;  // null: it lies in memory

  std::string label() const;  // "add+gelu+sum": for names and reports
};

// Why two things that could have been one launch are two.
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
  bool enabled = true;         // false: every node its own unit
  bool prologues = true;       // operands may be computed by their contraction
  std::size_t max_nodes = 64;  // in one unit
  CostModel costs;             // of the target
  // Graph outputs that are handed out as views of inputs and so need no memory of their own.
  std::unordered_set<const Value*> views;
  // Concatenations whose parts are written where they end up: steps, not kernels.
  std::unordered_set<const Node*> placed_cats;
  bool cats_alone = false;  // every concatenation is a kernel of its own
};

// The graph must hold no composites except those with the contraction trait.
FusedGraph fuse(const Graph& graph, const FuseOptions& options = {});

std::string print(const FusedGraph& fused);  // units with their kernels' loop text, then remarks

}  // namespace gex::lower
