#pragma once
// A compiled graph as PyTorch calls it: takes the boxed argument list, runs, builds the results.
// Everything between the two lists happens here, in one call from Python.

#include <nanobind/nanobind.h>
#include <cstdint>

#include <memory>
#include <mutex>
#include <vector>

#include "base/dim.hpp"
#include "frontend/python/torch_host.hpp"
#include "runtime/session.hpp"

namespace gex::python {

// What runs: a Session over a compiled Program, or the reference executor.
class Engine {
 public:
  virtual ~Engine() = default;
  struct Input {
    bool is_integer = false;
    Dim value;  // integers: what the program calls it
  };
  virtual std::vector<Input> inputs() const = 0;
  virtual std::size_t num_outputs() const = 0;
  virtual void run(std::span<const runtime::InputArg> inputs, runtime::Host& host) = 0;
};

// How one entry of the result list comes about.
struct OutputItem {
  enum class Kind : std::uint8_t {
    graph,          // output `of` of the engine
    argument,       // argument `of` itself
    argument_view,  // a view of argument `of`
    output_view,    // a view of output `of` of the engine
    integer,        // `value`
    none,
  };
  Kind kind = Kind::none;
  int of = -1;
  std::vector<Dim> shape, strides;
  Dim offset;  // in elements from where the viewed tensor starts
  Dim value;
};

// Where the symbols that OutputItems mention get their values.
struct SymbolSource {
  Dim symbol;
  int argument = -1;  // an integer argument, or a tensor argument whose size `axis` it is
  int axis = -1;
  int output = -1;  // instead: the number in this output of the engine
};

struct Signature {
  int num_arguments = 0;
  std::vector<int> tensors;                   // argument of each tensor input of the engine
  std::vector<std::pair<Dim, int>> integers;  // what each integer argument is, and its position
  std::vector<nb::object> constants;          // tensors appended behind the arguments
  std::vector<OutputItem> outputs;
  std::vector<SymbolSource> symbols;
};

class Runner {
 public:
  Runner(std::unique_ptr<Engine> engine, Signature signature, std::vector<nb::object> callees);

  // Empties the list (the caller's references end here) and returns a tuple.
  nb::object operator()(nb::list arguments);
  const Engine& engine() const { return *engine_; }

  int traverse(visitproc visit, void* arg) const;  // for Python's cycle collector
  void clear();

 private:
  struct Frame;
  void evaluate_symbols(Frame& frame, const TorchHost& host) const;
  nb::object build_result(std::size_t i, Frame& frame, const TorchHost& host) const;

  std::unique_ptr<Engine> engine_;
  Signature signature_;
  std::vector<nb::object> callees_;
  std::vector<int> argument_of_input_;  // for each engine input
  std::vector<bool> input_is_integer_;
  std::vector<OutputTuples> tuples_;
  DimTape tape_;
  struct ItemSlots {
    std::vector<int> shape, strides;
    int offset = -1, value = -1;
  };
  std::vector<ItemSlots> slots_;
};

}  // namespace gex::python
