#pragma once
// Traversals of a Kernel that several files of this folder and the code generators share.

#include "loop/kernel.hpp"

namespace gex::loop {

// "v12" -> 12: the form of value symbol names.
std::optional<ExprId> value_name_id(std::string_view name);

// Bytes of a local in scratch memory: rounded up to 64. Locals are allocated in order.
Dim local_bytes(const Buffer& buffer);

// Whether neighbouring points of the last grid axis are apart at this index of the buffer, but
// those of the axis before it adjacent.
bool is_across(const Kernel& kernel, int buffer, const std::vector<Dim>& index);
// Whether some load of the buffer is.
bool loads_across(const Kernel& kernel, int buffer);

// Every Dim of a stage's expression: of an index expression, or the indices of a load.
template <class F>
void for_each_dim(const Expr& e, F&& f) {
  if (e.kind == Expr::Kind::index) f(e.dim);
  for (const Dim& d : e.index) f(d);
}

// Every Dim of the kernel, in a fixed order: buffers, grid, then each stage.
template <class F>
void for_each_dim(const Kernel& kernel, F&& f) {
  for (const Buffer& b : kernel.buffers) {
    for (const Dim& d : b.shape) f(d);
    for (const Dim& d : b.strides) f(d);
  }
  for (const Range& r : kernel.grid) f(r.extent());
  for (const Stage& stage : kernel.stages) {
    for (const Range& r : stage.domain) f(r.extent());
    for (const Range& r : stage.reduce) f(r.extent());
    for (const Expr& e : stage.exprs) for_each_dim(e, f);
    for (const Store& s : stage.stores)
      for (const Dim& d : s.index) f(d);
  }
}

// The expressions an expression reads directly: arguments, predicate, fill, value symbols.
template <class F>
void for_each_operand(const Expr& e, F&& f) {
  for (ExprId a : e.args) f(a);
  if (e.pred != kNoExpr) f(e.pred);
  if (e.fill != kNoExpr) f(e.fill);
  std::vector<Dim> symbols;
  for_each_dim(e, [&](Dim d) { d.collect_symbols(symbols); });
  for (Dim s : symbols)
    if (auto id = value_symbol_id(s)) f(*id);
}

// The loop in which an expression runs: the deepest loop it depends on, and whether it reads an
// accumulator (then it runs after the combine). Depth 0 is the grid point, 1.. the domain loops,
// then the reduce loops, outermost first.
struct LoopPosition {
  int depth = 0;
  bool after = false;
};
std::vector<LoopPosition> loop_positions(const Stage& stage);
LoopPosition loop_position(const Stage& stage, std::span<const LoopPosition> exprs,
                           const Store& store);
// Stores deeper than the domain run at each element of the reduction, all others once after it.
inline bool runs_at_element(const Stage& stage, LoopPosition p) {
  return p.depth > static_cast<int>(stage.domain.size());
}

}  // namespace gex::loop
