#pragma once
// Calls, binds and control flow as runtime steps.

#include <functional>
#include <span>
#include <string>

#include "emit/launches.hpp"

namespace gex::emit {

class Steps {
 public:
  // `emit_graph` emits a subgraph into a segment.
  Steps(State& state, Memory& memory, Launches& launches,
        std::function<void(Graph&, int)> emit_graph)
      : state_(state), memory_(memory), launches_(launches), emit_graph_(std::move(emit_graph)) {}

  void emit(const Node& node);

 private:
  void emit_constant(const Node& node);
  void emit_bind(const Node& node);
  void emit_call(const Node& node);
  void emit_if(const Node& node);
  void emit_while(const Node& node);
  int emit_region(Graph& graph, std::span<const Operand> inputs, const std::string& name);

  State& state_;
  Memory& memory_;
  Launches& launches_;
  std::function<void(Graph&, int)> emit_graph_;
};

}  // namespace gex::emit
