// Computes in which loop of a stage each expression and store runs.

#include <algorithm>

#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

class Depths {
 public:
  explicit Depths(const Stage& stage) : stage_(stage) {}

  LoopPosition of(Dim d, std::span<const LoopPosition> exprs) const {
    std::vector<Dim> symbols;
    d.collect_symbols(symbols);
    LoopPosition p;
    for (Dim s : symbols) {
      if (auto id = value_symbol_id(s)) {
        GEX_CHECK(*id < static_cast<ExprId>(exprs.size()), "value symbol refers forward");
        p = join(p, exprs[static_cast<std::size_t>(*id)]);
      } else if (s.extent()) {
        p.depth = std::max(p.depth, depth_of(s));
      }
    }
    return p;
  }
  static LoopPosition join(LoopPosition a, LoopPosition b) {
    return {std::max(a.depth, b.depth), a.after || b.after};
  }

 private:
  int depth_of(Dim index) const {
    int depth = 1;
    for (const auto* loops : {&stage_.domain, &stage_.reduce})
      for (const Range& r : *loops) {
        if (r.index == index) return depth;
        ++depth;
      }
    return 0;  // a grid index
  }
  const Stage& stage_;
};

}  // namespace

std::vector<LoopPosition> loop_positions(const Stage& stage) {
  Depths depths(stage);
  std::vector<LoopPosition> result;
  result.reserve(stage.exprs.size());
  for (const Expr& e : stage.exprs) {
    LoopPosition p;
    p.after = e.kind == Expr::Kind::acc;
    for_each_dim(e, [&](Dim d) { p = Depths::join(p, depths.of(d, result)); });
    for_each_operand(e,
                     [&](ExprId a) { p = Depths::join(p, result[static_cast<std::size_t>(a)]); });
    result.push_back(p);
  }
  return result;
}

LoopPosition loop_position(const Stage& stage, std::span<const LoopPosition> exprs,
                           const Store& store) {
  Depths depths(stage);
  LoopPosition p = exprs[static_cast<std::size_t>(store.value)];
  if (store.pred != kNoExpr) p = Depths::join(p, exprs[static_cast<std::size_t>(store.pred)]);
  for (Dim d : store.index) p = Depths::join(p, depths.of(d, exprs));
  return p;
}

}  // namespace gex::loop
