#include "lower/fused_graph.hpp"

#include "lower/cluster.hpp"

namespace gex::lower {

std::string Unit::label() const {
  std::string text;
  std::size_t shown = 0;
  for (const Node* node : nodes) {
    if (is_free(*node) && nodes.size() > 1) continue;
    if (shown == 6) {
      text += "+...";
      break;
    }
    text += (text.empty() ? "" : "+") + node->op().name;
    ++shown;
  }
  return text;
}

const Prologue* Unit::prologue_of(int operand) const {
  for (const Prologue& prologue : prologues)
    if (prologue.operand == operand) return &prologue;
  return nullptr;
}

std::string print(const FusedGraph& fused) {
  std::string text;
  int number = 0;
  for (const Unit& unit : fused.units) {
    const char* kind = unit.kind == Unit::Kind::loop      ? "kernel"
                       : unit.kind == Unit::Kind::problem ? "contraction"
                       : unit.kind == Unit::Kind::scatter ? "scatter"
                                                          : "step";
    text += str("// unit ", number++, ": ", kind, " ", unit.label(), " (", unit.nodes.size(),
                unit.nodes.size() == 1 ? " operator)\n" : " operators)\n");
    for (const Prologue& prologue : unit.prologues)
      text +=
          str("// operand ", prologue.operand, ", computed:\n", loop::print(prologue.kernel), "\n");
    if (!unit.kernel.stages.empty()) text += loop::print(unit.kernel) + "\n";
  }
  for (const Remark& remark : fused.remarks)
    text += str("// not fused: ", remark.node, ": ", remark.reason, "\n");
  return text;
}

}  // namespace gex::lower
