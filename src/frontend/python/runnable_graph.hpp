#pragma once
// What a Runner runs: a graph that was compiled, or one that the reference executor runs.

#include <memory>
#include <span>
#include <vector>

#include "compile/compile.hpp"
#include "frontend/python/interpreted_graph.hpp"
#include "frontend/python/torch_api.hpp"
#include "runtime/session/session.hpp"

namespace gex::python {

struct RunnableGraph {
  struct Input {
    bool is_integer = false;
    Dim value;  // integers: what the program calls it
  };
  std::vector<Input> inputs;
  std::size_t num_outputs = 0;
  TorchDevice device;                         // where inputs and outputs lie
  CompileReport report;                       // empty if it is interpreted
  std::unique_ptr<runtime::Session> session;  // or null:
  std::unique_ptr<InterpretedGraph> interpreted;

  void run(std::span<const runtime::InputArg> arguments, runtime::Host& host) const {
    session != nullptr ? session->run(arguments, host) : interpreted->run(arguments, host);
  }
};

// `integers`: what the integer arguments of a call are; those that no tensor tells become inputs.
// `released`: graph inputs that the host lets go of at their last use.
std::unique_ptr<RunnableGraph> compiled_graph(std::unique_ptr<Graph> graph,
                                              std::span<const Dim> integers,
                                              std::span<const int> released,
                                              const CompileOptions& options,
                                              runtime::SessionOptions session_options);
std::unique_ptr<RunnableGraph> interpreted_graph(std::unique_ptr<Graph> graph,
                                                 std::span<const Dim> integers);

}  // namespace gex::python
