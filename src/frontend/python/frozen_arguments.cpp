#include "frontend/python/frozen_arguments.hpp"

#include <cstdlib>
#include <cstring>

#include "base/environment.hpp"
#include "base/error.hpp"

namespace gex::python {

namespace {

constexpr std::size_t kLookedAtInACall = 4;
constexpr int kShareOfTime = 100;  // checking all takes at most this fraction of the time

bool checks_contents() {
  static const bool checks = switch_in_environment("GEX_CHECK_FROZEN").value_or(false);
  return checks;
}

// The tensor's version counter; -1 for inference tensors, which have none.
std::int64_t version_of(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_version");
  PyObject* version = PyObject_GetAttr(tensor, name);
  if (version == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) throw nb::python_error();
    PyErr_Clear();
    return -1;
  }
  const std::int64_t value = PyLong_AsLongLong(version);
  Py_DECREF(version);
  return value;
}

// Of the contents, which are copied to the host if they are on another device.
Hash sum_of(PyObject* tensor) {
  const TorchApi& torch = TorchApi::get();
  const nb::object on_host = torch.is_cuda(tensor)
                                 ? owned(PyObject_CallMethod(tensor, "cpu", nullptr))
                                 : nb::borrow(tensor);
  runtime::TensorRef t;
  torch.read(on_host.ptr(), t);
  std::int64_t last = 0;
  for (std::size_t d = 0; d < t.shape.size(); ++d) last += (t.shape[d] - 1) * t.strides[d];
  return hash_bytes(t.data, static_cast<std::size_t>(last + 1) * size_of(t.dtype));
}

bool is_parameter(PyObject* tensor) {
  static PyObject* const type = [] {
    nb::object module = owned(PyImport_ImportModule("torch.nn"));
    return owned(PyObject_GetAttrString(module.ptr(), "Parameter")).release().ptr();
  }();
  const int is = PyObject_IsInstance(tensor, type);
  if (is < 0) throw nb::python_error();
  return is == 1;
}

}  // namespace

FrozenArguments::FrozenArguments(std::vector<FrozenArgument> arguments)
    : arguments_(std::move(arguments)) {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const int argument = arguments_[i].argument;
    if (arguments_[i].constant.is_valid()) break;  // constants come last, and are not compared
    if (runs_.empty() || argument != runs_.back().argument + runs_.back().count)
      runs_.push_back({argument, static_cast<int>(i), 0});
    ++runs_.back().count;
  }
}

FrozenArguments::Tensors FrozenArguments::read(PyObject* const* arguments) const {
  Tensors tensors;
  for (const FrozenArgument& frozen : arguments_) {
    Tensor tensor;
    tensor.object =
        frozen.constant.is_valid() ? frozen.constant : nb::borrow(arguments[frozen.argument]);
    tensor.memory = owned(PyObject_CallMethod(tensor.object.ptr(), "detach", nullptr));
    TorchApi::get().read(tensor.memory.ptr(), tensor.ref);
    tensor.version = version_of(tensor.object.ptr());
    // Other buffers, such as caches, change between calls.
    tensor.contents =
        frozen.constant.is_valid() || frozen.is_statistic || is_parameter(tensor.object.ptr());
    if (tensor.contents && checks_contents()) tensor.sum = sum_of(tensor.memory.ptr());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void FrozenArguments::bind(Tensors tensors) {
  tensors_ = std::move(tensors);
  objects_.clear();
  for (const Tensor& tensor : tensors_) objects_.push_back(tensor.object.ptr());
  next_ = 0;
  all_seen_ = Clock::now();
}

void FrozenArguments::unbind() {
  objects_.clear();
  tensors_.clear();
}

std::string FrozenArguments::change_of(std::size_t i) const {
  const Tensor& seen = tensors_[i];
  if (TorchApi::get().data(objects_[i]) != seen.ref.data)
    return str(arguments_[i].name, " was moved to other memory");
  if (seen.contents && version_of(objects_[i]) != seen.version)
    return str(arguments_[i].name, " was written to");
  return {};
}

std::string FrozenArguments::change_of_any() {
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < objects_.size(); ++i)
    if (std::string change = change_of(i); !change.empty()) return change;
  all_seen_ = Clock::now();
  all_cost_ = all_seen_ - begin;
  return {};
}

std::string FrozenArguments::change(PyObject* const* arguments) {
  if (objects_.empty()) return "not bound";
  for (const Run& run : runs_) {
    PyObject* const* known = objects_.data() + run.first;
    if (std::memcmp(arguments + run.argument, known,
                    static_cast<std::size_t>(run.count) * sizeof(PyObject*)) == 0)
      continue;
    for (int i = 0; i < run.count; ++i)
      if (arguments[run.argument + i] != known[i])
        return str(arguments_[static_cast<std::size_t>(run.first + i)].name,
                   " was replaced by another tensor");
  }
  if (checks_contents()) {
    std::string change = change_of_any();
    if (change.empty()) check_contents();
    return change;
  }
  for (std::size_t i = 0; i < std::min(kLookedAtInACall, objects_.size()); ++i) {
    next_ = next_ + 1 < objects_.size() ? next_ + 1 : 0;
    if (std::string change = change_of(next_); !change.empty()) return change;
  }
  if (objects_.size() > kLookedAtInACall && Clock::now() - all_seen_ > all_cost_ * kShareOfTime)
    return change_of_any();
  return {};
}

void FrozenArguments::check_contents() const {
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    if (!tensors_[i].contents || sum_of(tensors_[i].memory.ptr()) == tensors_[i].sum) continue;
    fail(ErrorCode::invalid_argument, "the contents of the frozen parameter ", arguments_[i].name,
         " have changed since it was bound; call gex.refresh(model) after changing parameters, or "
         "compile without frozen_parameter");
  }
}

int FrozenArguments::traverse(visitproc visit, void* arg) const {
  for (PyObject* object : objects_) Py_VISIT(object);
  return 0;
}

}  // namespace gex::python
