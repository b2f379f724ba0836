#pragma once
// What a Runner runs: a compiled graph, or one run by the reference executor.

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
    Dim value;  // integers: its symbol in the program
  };
  std::vector<Input> inputs;
  std::size_t num_outputs = 0;
  TorchDevice device;                                     // of inputs and outputs
  CompileReport report;                                   // empty if it is interpreted
  std::shared_ptr<const program::Executable> executable;  // of `session`
  std::unique_ptr<runtime::Session> session;              // or null:
  runtime::SessionOptions session_options;                // of `session`
  std::unique_ptr<InterpretedGraph> interpreted;

  void run(std::span<const runtime::InputArg> arguments, runtime::Host& host) const {
    session != nullptr ? session->run(arguments, host) : interpreted->run(arguments, host);
  }
  // Prints the program, parses and compiles the text, and runs that from now on: a Program is
  // self-contained. Only for compiled graphs.
  void reload_from_text();
};

// `integers`: the integer arguments of a call; those that no tensor defines become inputs.
// `released`: graph inputs that the host frees at their last use.
std::unique_ptr<RunnableGraph> compiled_graph(std::unique_ptr<Graph> graph,
                                              std::span<const Dim> integers,
                                              std::span<const int> released,
                                              const CompileOptions& options,
                                              runtime::SessionOptions session_options);
std::unique_ptr<RunnableGraph> interpreted_graph(std::unique_ptr<Graph> graph,
                                                 std::span<const Dim> integers);

}  // namespace gex::python
