#pragma once
// A graph that the reference executor runs node by node, on the arguments of a Session's call.

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.hpp"
#include "runtime/session/session.hpp"

namespace gex::python {

class InterpretedGraph {
 public:
  // `integers`: what the integer arguments of a call are.
  InterpretedGraph(std::unique_ptr<Graph> graph, std::span<const Dim> integers);

  // Symbols that no input's shape determines: passed after the tensors of a call.
  const std::vector<Dim>& integers() const { return integers_; }
  void run(std::span<const runtime::InputArg> inputs, runtime::Host& host) const;

 private:
  std::unique_ptr<Graph> graph_;
  std::vector<Dim> integers_;
};

}  // namespace gex::python
