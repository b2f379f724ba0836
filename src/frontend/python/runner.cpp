#include "frontend/python/runner.hpp"

#include <utility>

#include "base/error.hpp"
#include "frontend/python/interrupts.hpp"
#include "frontend/python/torch_threads.hpp"

namespace gex::python {

using Kind = OutputItem::Kind;
using runtime::InputArg;

// What one call holds; reused by the next call of the thread, so that a call allocates nothing
// here.
struct Runner::Frame {
  std::vector<PyObject*> arguments;  // owned; null once released
  std::vector<InputArg> inputs;
  std::vector<std::int64_t> symbols, dims;

  void drop_arguments() {
    for (PyObject* object : arguments) Py_XDECREF(object);
    arguments.clear();
  }
};

namespace {

std::int64_t integer_of(PyObject* object) {
  const std::int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

bool uses_symbols(const OutputItem& item) {
  return item.kind == Kind::argument_view || item.kind == Kind::output_view ||
         item.kind == Kind::integer;
}

}  // namespace

Runner::Runner(std::unique_ptr<RunnableGraph> graph, PythonSignature signature,
               std::vector<nb::object> callees)
    : Runner(GraphMaker(), {}, {}, std::move(signature), std::move(callees)) {
  device_ = graph->device;
  bound_ = attach(std::move(graph));
  tuples_.resize(bound_->graph->num_outputs);
}

Runner::Runner(GraphMaker make, TorchDevice device, std::vector<FrozenArgument> frozen,
               PythonSignature signature, std::vector<nb::object> callees)
    : make_graph_(std::move(make)),
      device_(device),
      signature_(std::move(signature)),
      num_arguments_(signature_.num_arguments),
      callees_(std::move(callees)) {
  if (!frozen.empty()) frozen_ = std::make_unique<FrozenArguments>(std::move(frozen));
  number_arguments();
  std::vector<Dim> symbols;
  for (const SymbolSource& source : signature_.symbols) symbols.push_back(source.symbol);
  tape_ = DimTape(std::move(symbols));
  for (const OutputItem& item : signature_.outputs) {
    ItemSlots slots;
    if (uses_symbols(item)) {
      for (Dim d : item.shape) slots.shape.push_back(tape_.add(d));
      for (Dim d : item.strides) slots.strides.push_back(tape_.add(d));
      slots.offset = tape_.add(item.offset);
      slots.value = tape_.add(item.value);
    }
    slots_.push_back(std::move(slots));
  }
}

// From here on argument k is the k-th one taken from the list; constants follow. Frozen arguments
// and constants have no number.
void Runner::number_arguments() {
  const auto arguments = static_cast<std::size_t>(num_arguments_);
  std::vector<int> number(arguments + signature_.constants.size(), 0);
  if (frozen_)
    for (const FrozenArgument& frozen : frozen_->arguments())
      number[static_cast<std::size_t>(frozen.argument)] = -1;
  std::vector<nb::object> constants;
  int next = 0;
  for (std::size_t k = 0; k < number.size(); ++k) {
    if (number[k] < 0) continue;
    number[k] = next++;
    if (k < arguments)
      taken_.push_back(static_cast<int>(k));
    else
      constants.push_back(signature_.constants[k - arguments]);
  }
  signature_.constants = std::move(constants);
  const auto renumber = [&](int& argument) {
    if (argument < 0) return;
    argument = number[static_cast<std::size_t>(argument)];
    GEX_CHECK(argument >= 0, "a frozen argument is used as something else");
  };
  std::erase_if(signature_.tensors,
                [&](int argument) { return number[static_cast<std::size_t>(argument)] < 0; });
  for (int& argument : signature_.tensors) renumber(argument);
  for (auto& [value, argument] : signature_.integers) renumber(argument);
  for (SymbolSource& source : signature_.symbols) renumber(source.argument);
  for (OutputItem& item : signature_.outputs)
    if (item.kind == Kind::argument || item.kind == Kind::argument_view) renumber(item.of);
}

std::shared_ptr<Runner::Bound> Runner::attach(std::unique_ptr<RunnableGraph> graph) const {
  auto bound = std::make_shared<Bound>();
  std::size_t next_tensor = 0;
  for (const RunnableGraph::Input& input : graph->inputs) {
    bound->input_is_integer.push_back(input.is_integer);
    int argument = -1;
    if (input.is_integer) {
      for (const auto& [value, position] : signature_.integers)
        if (value == input.value) argument = position;
    } else if (next_tensor < signature_.tensors.size()) {
      argument = signature_.tensors[next_tensor++];
    }
    GEX_CHECK(argument >= 0, "no argument for input ", bound->argument_of_input.size());
    bound->argument_of_input.push_back(argument);
  }
  bound->graph = std::move(graph);
  return bound;
}

void Runner::bind_frozen(PyObject* const* arguments) {
  std::string change = frozen_->change(arguments);
  if (change.empty()) return;
  if (bound_ != nullptr) {
    ++rebinds_;
    const std::string message = str(
        "frozen_parameter: ", change,
        "; the graph is bound to it again, which takes as long as compiling. Calls shortly "
        "before this one may have used the old contents: call gex.refresh(model) after a change");
    if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) != 0) throw nb::python_error();
  }
  const TorchApi& torch = TorchApi::get();
  for (const FrozenArgument& frozen : frozen_->arguments()) {
    if (frozen.constant.is_valid()) continue;
    PyObject* tensor = arguments[frozen.argument];
    if (!torch.is_on(tensor, device_)) torch.refuse_device(tensor, device_, frozen.name);
  }
  FrozenArguments::Tensors tensors = frozen_->read(arguments);
  // The engine has streams of its own, which don't wait for the one that wrote the parameters.
  torch.wait_for_device_of(tensors.front().memory.ptr());
  std::vector<FrozenMemory> memory;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    memory.push_back({frozen_->arguments()[i].graph_input, frozen_->arguments()[i].name,
                      tensors[i].ref, tensors[i].contents});
  std::unique_ptr<RunnableGraph> graph;
  {
    nb::gil_scoped_release unlocked;
    graph = make_graph_(memory);
  }
  std::shared_ptr<Bound> bound = attach(std::move(graph));
  for (const FrozenArguments::Tensor& tensor : tensors) bound->memory.push_back(tensor.memory);
  tuples_.resize(bound->graph->num_outputs);
  frozen_->bind(std::move(tensors));
  bound_ = std::move(bound);
}

void Runner::bind_constants() {
  if (!frozen_) return;
  for (const FrozenArgument& frozen : frozen_->arguments())
    if (!frozen.constant.is_valid()) return;
  bind_frozen(nullptr);
}

void Runner::refresh() {
  if (!frozen_) return;
  frozen_->unbind();
  bound_ = nullptr;
}

nb::list Runner::frozen_tensors() const {
  nb::list tensors;
  if (frozen_)
    for (PyObject* object : frozen_->objects()) tensors.append(nb::borrow(object));
  return tensors;
}

// The caller's references to the taken arguments are released here; frozen ones stay in the list.
void Runner::take_arguments(PyObject* list, Frame& frame, OverheadClock& clock) {
  const Py_ssize_t count = PyList_GET_SIZE(list);
  if (count != num_arguments_)
    fail(ErrorCode::invalid_argument, "expected ", num_arguments_, " arguments, got ", count);
  PyObject** items = reinterpret_cast<PyListObject*>(list)->ob_item;
  if (frozen_) {
    bind_frozen(items);
    clock.mark(&Overhead::parameters_ns);
    for (int position : taken_)
      frame.arguments.push_back(std::exchange(items[position], Py_NewRef(Py_None)));
  } else {
    frame.arguments.assign(items, items + count);
    Py_SET_SIZE(reinterpret_cast<PyVarObject*>(list), 0);
  }
  for (const nb::object& constant : signature_.constants)
    frame.arguments.push_back(Py_NewRef(constant.ptr()));
}

void Runner::watch(nb::object word, nb::object refuse) {
  runtime::TensorRef tensor;
  TorchApi::get().read(word.ptr(), tensor);
  refused_value_ = static_cast<const std::int64_t*>(tensor.data);
  word_ = std::move(word);
  refuse_ = std::move(refuse);
}

// Kernels would follow addresses of another device. Constants may be host memory that a GPU reads.
void Runner::check_device(const Bound& bound, std::size_t input, const Frame& frame) const {
  const auto argument = static_cast<std::size_t>(bound.argument_of_input[input]);
  const std::size_t passed = frame.arguments.size() - signature_.constants.size();
  if (argument >= passed) return;
  const int position = frozen_ ? taken_[argument] : static_cast<int>(argument);
  TorchApi::get().refuse_device(frame.arguments[argument], bound.graph->device,
                                str("argument ", position));
}

void Runner::raise_refusal() const {
  if (refused_value_ != nullptr && *refused_value_ != 0) refuse_();
}

void Runner::run_graph(const Bound& bound, Frame& frame, TorchHost& host) {
  const runtime::ControlScope scope(&raising_interrupts());
  while (true) {
    try {
      bound.graph->run(frame.inputs, host);
      break;
    } catch (const runtime::LayoutMismatch& mismatch) {
      host.take_gil();
      if (!lay_out(mismatch, bound, frame)) throw;
    } catch (const UserError&) {
      host.take_gil();
      raise_refusal();  // it may be the cause of the device error
      throw;
    }
  }
}

nb::object Runner::operator()(nb::list arguments) {
  raise_refusal();
  static thread_local std::vector<std::unique_ptr<Frame>> spare_frames;
  std::unique_ptr<Frame> frame;
  if (spare_frames.empty()) {
    frame = std::make_unique<Frame>();
  } else {
    frame = std::move(spare_frames.back());
    spare_frames.pop_back();
  }
  struct GiveBack {
    std::unique_ptr<Frame>& frame;
    ~GiveBack() {
      frame->drop_arguments();
      spare_frames.push_back(std::move(frame));
    }
  } give_back{frame};
  ProfilerRanges ranges(range_names_);
  ranges.enter(range_names_.whole);
  OverheadClock clock(measures_overhead_);
  take_arguments(arguments.ptr(), *frame, clock);
  const std::shared_ptr<Bound> bound = bound_;  // another thread may bind again meanwhile

  const TorchApi& torch = TorchApi::get();
  const std::size_t num_inputs = bound->argument_of_input.size();
  frame->inputs.resize(num_inputs);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    PyObject* object = frame->arguments[static_cast<std::size_t>(bound->argument_of_input[i])];
    InputArg& input = frame->inputs[i];
    if (bound->input_is_integer[i]) {
      input.integer = integer_of(object);
      continue;
    }
    torch.read(object, input.tensor);
    if (!torch.is_on(object, bound->graph->device)) check_device(*bound, i, *frame);
  }
  clock.mark(&Overhead::inputs_ns);
  follow_torch_threads();

  TorchHost host({frame->arguments, bound->argument_of_input}, tuples_, callees_,
                 bound->graph->num_outputs, bound->graph->device, ranges, clock);
  run_graph(*bound, *frame, host);
  host.take_gil();
  if (clock.runs()) overhead_ = clock.overhead();

  evaluate_symbols(*frame, host);
  const std::size_t num_results = signature_.outputs.size();
  nb::object results = owned(PyTuple_New(static_cast<Py_ssize_t>(num_results)));
  for (std::size_t i = 0; i < num_results; ++i) {
    PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i),
                     build_result(i, *frame, host).release().ptr());
  }
  return results;
}

// A parameter may have been replaced by one with other strides: nothing guards against that in some
// versions of PyTorch. False if results are made of the argument itself.
bool Runner::lay_out(const runtime::LayoutMismatch& mismatch, const Bound& bound,
                     Frame& frame) const {
  const auto input = static_cast<std::size_t>(mismatch.input);
  const int argument = bound.argument_of_input[input];
  for (const OutputItem& item : signature_.outputs)
    if ((item.kind == Kind::argument || item.kind == Kind::argument_view) && item.of == argument)
      return false;
  PyObject*& object = frame.arguments[static_cast<std::size_t>(argument)];
  runtime::TensorRef wanted = frame.inputs[input].tensor;
  wanted.strides = mismatch.strides;
  PyObject* copy = TorchApi::get().copy_to(object, wanted, bound.graph->device).release().ptr();
  Py_DECREF(std::exchange(object, copy));
  TorchApi::get().read(object, frame.inputs[input].tensor);
  return true;
}

void Runner::evaluate_symbols(Frame& frame, const TorchHost& host) const {
  if (tape_.slots() == 0) return;
  frame.symbols.clear();
  const auto number_at = [&](const SymbolSource& source) -> std::int64_t {
    if (source.output >= 0)
      return TorchApi::get().number_in(host.output(static_cast<std::size_t>(source.output)));
    PyObject* argument = frame.arguments[static_cast<std::size_t>(source.argument)];
    return source.axis < 0 ? integer_of(argument)
                           : TorchApi::get().borrow(argument).shape[source.axis];
  };
  for (const SymbolSource& source : signature_.symbols)
    frame.symbols.push_back((number_at(source) - source.rest) / source.scale);
  frame.dims.resize(static_cast<std::size_t>(tape_.slots()));
  tape_.eval(frame.symbols, frame.dims);
}

nb::object Runner::build_result(std::size_t i, Frame& frame, const TorchHost& host) const {
  const OutputItem& item = signature_.outputs[i];
  const auto of = static_cast<std::size_t>(item.of);
  auto view_of = [&](PyObject* tensor) {
    auto tuple = [&](const std::vector<int>& slots) {
      std::vector<std::int64_t> values;
      for (int slot : slots) values.push_back(frame.dims[static_cast<std::size_t>(slot)]);
      return tuple_of(values);
    };
    return TorchApi::get().reinterpret(tensor, tuple(slots_[i].shape).ptr(),
                                       tuple(slots_[i].strides).ptr(),
                                       frame.dims[static_cast<std::size_t>(slots_[i].offset)]);
  };
  switch (item.kind) {
    case Kind::graph:
      return nb::borrow(host.output(of));
    case Kind::argument:
      return nb::borrow(frame.arguments[of]);
    case Kind::argument_view:
      return view_of(frame.arguments[of]);
    case Kind::output_view:
      return view_of(host.output(of));
    case Kind::integer:
      return owned(PyLong_FromLongLong(frame.dims[static_cast<std::size_t>(slots_[i].value)]));
    case Kind::none:
      return nb::none();
  }
  GEX_CHECK(false, "unknown output kind");
}

int Runner::traverse(visitproc visit, void* arg) const {
  for (const nb::object& object : callees_) Py_VISIT(object.ptr());
  for (const nb::object& object : signature_.constants) Py_VISIT(object.ptr());
  Py_VISIT(word_.ptr());
  Py_VISIT(refuse_.ptr());
  return frozen_ ? frozen_->traverse(visit, arg) : 0;
}

void Runner::clear() {
  callees_.clear();
  signature_.constants.clear();
  refused_value_ = nullptr;
  word_.reset();
  refuse_.reset();
  refresh();
}

}  // namespace gex::python
