#include "frontend/python/torch_host.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/strided_copy.hpp"

namespace gex::python {
namespace {

using runtime::TensorRef;

// Strides of axes of size 1 (or of empty tensors) don't matter; -1 matches any.
bool same_layout(std::span<const std::int64_t> expected, std::span<const std::int64_t> got,
                 std::span<const std::int64_t> shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1 && expected[d] >= 0 && expected[d] != got[d]) return false;
  return true;
}

struct Addresses {
  std::uintptr_t begin, end;
};

Addresses addresses_of(const void* data, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::size_t element) {
  const auto elements = static_cast<std::uintptr_t>(extent_of(shape, strides));
  if (elements == 0) return {0, 0};
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, begin + elements * element};
}

PyObject* object_of(std::uint64_t handle) {
  return reinterpret_cast<PyObject*>(static_cast<std::uintptr_t>(handle));
}

}  // namespace

TorchHost::TorchHost(Arguments inputs, std::vector<OutputTuples>& tuples,
                     std::span<const nb::object> callees, std::size_t num_outputs,
                     TorchDevice device, ProfilerRanges& ranges, OverheadClock& clock)
    : inputs_(inputs),
      tuples_(tuples),
      callees_(callees),
      outputs_(num_outputs),
      device_(device),
      ranges_(ranges),
      clock_(clock) {
  if (ranges_.profiling()) watch_before_ = LaunchWatch::set_current(this);
}

TorchHost::~TorchHost() {
  take_gil();
  if (ranges_.profiling()) LaunchWatch::set_current(watch_before_);
}

void TorchHost::about_to_block() {
  if (thread_ == nullptr) thread_ = PyEval_SaveThread();
}

std::optional<std::uint64_t> TorchHost::stream() {
  if (!device_.is_cuda()) return std::nullopt;
  take_gil();
  return TorchApi::get().current_stream(device_);
}

void TorchHost::begins(Phase phase) {
  clock_.mark(&Overhead::key_ns);
  if (!ranges_.profiling()) return;
  take_gil();
  if (in_phase_) ranges_.leave();
  in_phase_ = true;
  ranges_.enter(phase == Phase::capture ? ranges_.names().capture : ranges_.names().replay);
}

void TorchHost::launch_begins(std::string_view name) {
  take_gil();
  ranges_.enter(std::string(name));
  about_to_block();
}

void TorchHost::launch_ended() {
  take_gil();
  ranges_.leave();
  about_to_block();
}

void TorchHost::take_gil() {
  if (thread_ != nullptr) {
    PyEval_RestoreThread(thread_);
    thread_ = nullptr;
  }
  for (PyObject* object : pending_releases_) Py_DECREF(object);
  pending_releases_.clear();
}

void* TorchHost::allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                                 std::span<const std::int64_t> strides) {
  take_gil();
  const auto index = static_cast<std::size_t>(k);
  OutputTuples& known = tuples_[index];
  nb::object sizes = known.sizes,
             steps = known.steps;  // own references: other threads may replace them
  if (!sizes.is_valid() || !std::ranges::equal(known.shape, shape) ||
      !std::ranges::equal(known.strides, strides)) {
    sizes = tuple_of(shape);
    steps = tuple_of(strides);
    known.shape.assign(shape.begin(), shape.end());
    known.strides.assign(strides.begin(), strides.end());
    known.sizes = sizes;
    known.steps = steps;
  }
  const TorchApi& torch = TorchApi::get();
  outputs_[index] = torch.empty_strided(sizes.ptr(), steps.ptr(), dtype, device_);
  return torch.data(outputs_[index].ptr());
}

// Graphs are compiled to return memory of their own (compiled_graph()): the Runner makes views.
void TorchHost::set_view_output(int k, int, std::span<const std::int64_t>,
                                std::span<const std::int64_t>, std::int64_t) {
  GEX_CHECK(false, "output ", k, " is a view of an input");
}

void TorchHost::set_output_view_output(int k, int, std::span<const std::int64_t>,
                                       std::span<const std::int64_t>, std::int64_t) {
  GEX_CHECK(false, "output ", k, " is a view of another output");
}

void TorchHost::set_integer_output(int k, std::int64_t value) {
  take_gil();
  outputs_[static_cast<std::size_t>(k)] = owned(PyLong_FromLongLong(value));
}

void TorchHost::set_external_output(int k, std::uint64_t handle) {
  take_gil();
  outputs_[static_cast<std::size_t>(k)] = nb::steal(object_of(handle));
}

nb::object TorchHost::operand(const TensorRef& ref) const {
  if (ref.input >= 0) return nb::borrow(inputs_[ref.input]);
  if (ref.handle != 0) return nb::borrow(object_of(ref.handle));
  return TorchApi::get().wrap(ref, device_);
}

// The result as the program expects it: a separate tensor with the expected strides.
nb::object TorchHost::fitting(nb::object result, const TensorRef& expected,
                              std::span<const TensorRef> operands,
                              const program::Call& call) const {
  const TorchApi& torch = TorchApi::get();
  if (!torch.is_tensor(result.ptr()))
    fail(ErrorCode::invalid_argument, call.name, " returned a ", Py_TYPE(result.ptr())->tp_name,
         " where a tensor was expected");
  const dlpack::Tensor got = torch.borrow(result.ptr());
  const DType dtype = dtype_of(got.dtype);
  const auto rank = static_cast<std::size_t>(got.ndim);
  if (dtype != expected.dtype || rank != expected.shape.size())
    fail(ErrorCode::type_mismatch, call.name, " returned ", dtype, " of rank ", rank,
         " where its meta function returned ", expected.dtype, " of rank ", expected.shape.size());
  std::vector<std::int64_t> shape(got.shape, got.shape + got.ndim);
  bool copy = !same_layout(expected.strides, {got.strides, rank}, shape);
  const Addresses mine = addresses_of(got.data, shape, {got.strides, rank}, size_of(dtype));
  for (const TensorRef& operand : operands) {
    const Addresses other =
        addresses_of(operand.data, operand.shape, operand.strides, size_of(operand.dtype));
    copy = copy || (mine.begin < other.end && other.begin < mine.end);
  }
  if (!copy) return result;
  TensorRef target = expected;
  target.shape = shape;
  if (std::ranges::find(expected.strides, -1) != expected.strides.end())
    target.strides = {got.strides, rank};
  return torch.copy_to(result.ptr(), target, device_);
}

void TorchHost::call(const program::Call& call, std::span<const TensorRef> inputs,
                     std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
                     std::span<CallResult> outputs) {
  take_gil();
  std::vector<nb::object> held;
  std::vector<PyObject*> args;
  held.reserve(inputs.size() + integers.size());
  for (const TensorRef& ref : inputs) held.push_back(operand(ref));
  for (std::int64_t value : integers) held.push_back(owned(PyLong_FromLongLong(value)));
  for (const nb::object& object : held) args.push_back(object.ptr());
  PyObject* callee = callees_[static_cast<std::size_t>(call.callee)].ptr();
  nb::object results =
      owned(PyObject_Vectorcall(callee, args.data(), args.size(), /*kwnames=*/nullptr));
  GEX_CHECK(PyTuple_CheckExact(results.ptr()) &&
                PyTuple_GET_SIZE(results.ptr()) == static_cast<Py_ssize_t>(expected.size()),
            call.name, ": a callee must return a tuple with one entry per result");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    nb::object result =
        fitting(nb::borrow(PyTuple_GET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i))),
                expected[i], inputs, call);
    const dlpack::Tensor tensor = TorchApi::get().borrow(result.ptr());
    outputs[i].data = tensor.data;
    outputs[i].shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    outputs[i].handle = reinterpret_cast<std::uintptr_t>(result.release().ptr());
  }
}

void TorchHost::release(std::uint64_t handle) {
  if (thread_ == nullptr)
    Py_DECREF(object_of(handle));
  else
    pending_releases_.push_back(object_of(handle));
}

void TorchHost::release_input(int input) {
  take_gil();
  Py_CLEAR(inputs_[input]);
}

}  // namespace gex::python
