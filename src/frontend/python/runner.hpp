#pragma once
// A compiled graph as PyTorch calls it: takes the boxed argument list, runs, builds the results.
// Everything between the two lists happens here, in one call from Python.

#include <nanobind/nanobind.h>
#include <cstdint>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/dim/dim.hpp"
#include "frontend/python/frozen_arguments.hpp"
#include "frontend/python/overhead.hpp"
#include "frontend/python/profiler_ranges.hpp"
#include "frontend/python/runnable_graph.hpp"
#include "frontend/python/torch_host.hpp"
#include "runtime/session/session.hpp"

namespace gex::python {

// How one entry of the result list is made.
struct OutputItem {
  enum class Kind : std::uint8_t {
    graph,          // output `of` of the graph
    argument,       // argument `of` itself
    argument_view,  // a view of argument `of`
    output_view,    // a view of output `of` of the graph
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
  int output = -1;                   // instead: the number in this output of the graph
  std::int64_t scale = 1, rest = 0;  // the number found there is scale*symbol + rest
};

// How the arguments and results of a Python call map to those of a graph. See also gex::Signature,
// which relates a graph to its Program.
struct PythonSignature {
  int num_arguments = 0;
  std::vector<int> tensors;                   // argument of each tensor input of the graph
  std::vector<std::pair<Dim, int>> integers;  // what each integer argument is, and its position
  std::vector<nb::object> constants;          // tensors appended after the arguments
  std::vector<OutputItem> outputs;
  std::vector<SymbolSource> symbols;
};

// signature_bytes.cpp. Constants are not part of it.
nb::bytes save_signature(const PythonSignature& signature);
PythonSignature load_signature(const nb::bytes& bytes,
                               std::vector<nb::object> constants);  // UserError

// Memory of a frozen graph input.
struct FrozenMemory {
  int graph_input;
  std::string name;
  runtime::TensorRef tensor;
  bool contents;
};
// Called without the GIL.
using GraphMaker = std::function<std::unique_ptr<RunnableGraph>(std::span<const FrozenMemory>)>;

class Runner {
 public:
  Runner(std::unique_ptr<RunnableGraph> graph, PythonSignature signature,
         std::vector<nb::object> callees);
  // The graph is made runnable at the first call, when the frozen arguments are known, and again
  // after one of them has changed.
  Runner(GraphMaker make, TorchDevice device, std::vector<FrozenArgument> frozen,
         PythonSignature signature, std::vector<nb::object> callees);

  // Makes it runnable now if it has no frozen arguments.
  void bind_constants();
  // Takes over the arguments that it needs and returns a tuple.
  nb::object operator()(nb::list arguments);
  void refresh();  // the next call binds the frozen arguments again
  // Null before the first call with frozen arguments.
  const RunnableGraph* graph() const { return bound_ ? bound_->graph.get() : nullptr; }
  RunnableGraph* graph() { return bound_ ? bound_->graph.get() : nullptr; }
  // Null also if the graph is interpreted.
  const RunnableGraph* compiled_graph() const {
    return graph() != nullptr && graph()->session != nullptr ? graph() : nullptr;
  }
  std::int64_t rebinds() const { return rebinds_; }
  // The word in which kernels record an error; `refuse` raises it.
  void watch(nb::object word, nb::object refuse);
  void name_ranges(std::string whole, std::string capture, std::string replay) {
    range_names_ = {std::move(whole), std::move(capture), std::move(replay)};
  }
  void measure_overhead(bool on) { measures_overhead_ = on; }
  const Overhead& overhead() const { return overhead_; }  // of the last call that was measured
  // Arguments bound once, as the last call passed them.
  nb::list frozen_tensors() const;

  int traverse(visitproc visit, void* arg) const;  // for Python's cycle collector
  void clear();

 private:
  struct Frame;
  // A graph and what it needs to live; calls on several threads share it.
  struct Bound {
    std::vector<nb::object> memory;  // of frozen arguments
    std::unique_ptr<RunnableGraph> graph;
    std::vector<int> argument_of_input;
    std::vector<bool> input_is_integer;
  };

  void number_arguments();
  std::shared_ptr<Bound> attach(std::unique_ptr<RunnableGraph> graph) const;
  void bind_frozen(PyObject* const* arguments);
  void take_arguments(PyObject* list, Frame& frame, OverheadClock& clock);
  void check_device(const Bound& bound, std::size_t input, const Frame& frame) const;
  bool lay_out(const runtime::LayoutMismatch& mismatch, const Bound& bound, Frame& frame) const;
  void evaluate_symbols(Frame& frame, const TorchHost& host) const;
  nb::object build_result(std::size_t i, Frame& frame, const TorchHost& host) const;

  GraphMaker make_graph_;
  TorchDevice device_;                       // that the graph is compiled for
  std::unique_ptr<FrozenArguments> frozen_;  // null: all arguments are passed in each call
  PythonSignature signature_;                // numbers arguments without the frozen ones
  std::vector<int> taken_;                   // positions of those
  int num_arguments_ = 0;
  std::vector<nb::object> callees_;
  std::shared_ptr<Bound> bound_;
  std::vector<OutputTuples> tuples_;
  std::int64_t rebinds_ = 0;
  void raise_refusal() const;
  void run_graph(const Bound& bound, Frame& frame, TorchHost& host);
  nb::object word_, refuse_;  // see watch()
  const volatile std::int64_t* refused_value_ =
      nullptr;  // in word_; not 0: a kernel recorded an error
  RangeNames range_names_;
  bool measures_overhead_ = false;
  Overhead overhead_;
  DimTape tape_;
  struct ItemSlots {
    std::vector<int> shape, strides;
    int offset = -1, value = -1;
  };
  std::vector<ItemSlots> slots_;
};

}  // namespace gex::python
