#include "frontend/python/runner.hpp"

#include "base/error.hpp"

namespace gex::python {

using Kind = OutputItem::Kind;
using runtime::InputArg;

// What one call holds; reused by the next call of the thread, so that a call allocates nothing
// here.
struct Runner::Frame {
  std::vector<PyObject*> arguments;  // owned
  std::vector<PyObject*> tensors;    // borrowed, by engine input
  std::vector<InputArg> inputs;
  std::vector<std::int64_t> symbols, dims;

  void drop_arguments() {
    for (PyObject* object : arguments) Py_DECREF(object);
    arguments.clear();
  }
};

namespace {

std::int64_t integer_of(PyObject* object) {
  const std::int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

std::int64_t number_in(PyObject* tensor) {
  const dlpack::Tensor t = TorchApi::get().borrow(tensor);
  GEX_CHECK(dtype_of(t.dtype) == DType::i64 && t.ndim == 0, "symbol outputs are 0-d i64");
  return *static_cast<const std::int64_t*>(t.data);
}

bool uses_symbols(const OutputItem& item) {
  return item.kind == Kind::argument_view || item.kind == Kind::output_view ||
         item.kind == Kind::integer;
}

}  // namespace

Runner::Runner(std::unique_ptr<Engine> engine, Signature signature, std::vector<nb::object> callees)
    : engine_(std::move(engine)), signature_(std::move(signature)), callees_(std::move(callees)) {
  std::size_t next_tensor = 0;
  for (const Engine::Input& input : engine_->inputs()) {
    input_is_integer_.push_back(input.is_integer);
    int argument = -1;
    if (input.is_integer) {
      for (const auto& [value, position] : signature_.integers)
        if (value == input.value) argument = position;
    } else if (next_tensor < signature_.tensors.size()) {
      argument = signature_.tensors[next_tensor++];
    }
    GEX_CHECK(argument >= 0, "no argument for input ", argument_of_input_.size());
    argument_of_input_.push_back(argument);
  }
  tuples_.resize(engine_->num_outputs());

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

nb::object Runner::operator()(nb::list arguments) {
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

  PyObject* list = arguments.ptr();
  const Py_ssize_t count = PyList_GET_SIZE(list);
  if (count != signature_.num_arguments)
    fail(ErrorCode::invalid_argument, "expected ", signature_.num_arguments, " arguments, got ",
         count);
  for (Py_ssize_t i = 0; i < count; ++i)
    frame->arguments.push_back(Py_NewRef(PyList_GET_ITEM(list, i)));
  for (const nb::object& constant : signature_.constants)
    frame->arguments.push_back(Py_NewRef(constant.ptr()));
  if (PyList_SetSlice(list, 0, count, nullptr) != 0) throw nb::python_error();

  const TorchApi& torch = TorchApi::get();
  const std::size_t num_inputs = argument_of_input_.size();
  frame->inputs.resize(num_inputs);
  frame->tensors.resize(num_inputs);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    PyObject* object = frame->arguments[static_cast<std::size_t>(argument_of_input_[i])];
    InputArg& input = frame->inputs[i];
    if (input_is_integer_[i]) {
      frame->tensors[i] = nullptr;
      input.integer = integer_of(object);
      continue;
    }
    frame->tensors[i] = object;
    const dlpack::Tensor t = torch.borrow(object);
    const auto rank = static_cast<std::size_t>(t.ndim);
    input.tensor.data = static_cast<std::byte*>(t.data) + t.byte_offset;
    input.tensor.dtype = dtype_of(t.dtype);
    input.tensor.shape = {t.shape, rank};
    input.tensor.strides = {t.strides, rank};
  }

  TorchHost host(frame->tensors, tuples_, callees_, engine_->num_outputs());
  engine_->run(frame->inputs, host);
  host.take_gil();

  evaluate_symbols(*frame, host);
  const std::size_t num_results = signature_.outputs.size();
  nb::object results = owned(PyTuple_New(static_cast<Py_ssize_t>(num_results)));
  for (std::size_t i = 0; i < num_results; ++i) {
    PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i),
                     build_result(i, *frame, host).release().ptr());
  }
  return results;
}

void Runner::evaluate_symbols(Frame& frame, const TorchHost& host) const {
  if (tape_.slots() == 0) return;
  frame.symbols.clear();
  for (const SymbolSource& source : signature_.symbols) {
    if (source.output >= 0) {
      frame.symbols.push_back(number_in(host.output(static_cast<std::size_t>(source.output))));
    } else {
      PyObject* argument = frame.arguments[static_cast<std::size_t>(source.argument)];
      frame.symbols.push_back(source.axis < 0
                                  ? integer_of(argument)
                                  : TorchApi::get().borrow(argument).shape[source.axis]);
    }
  }
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
  return 0;
}

void Runner::clear() {
  callees_.clear();
  signature_.constants.clear();
}

}  // namespace gex::python
