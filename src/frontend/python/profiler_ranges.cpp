#include "frontend/python/profiler_ranges.hpp"

namespace gex::python {
namespace {

// PyTorch sets this module variable while any profiler runs.
bool somebody_profiles() {
  static PyObject* const names = [] {
    nb::module_ profiler = nb::module_::import_("torch.autograd.profiler");
    return Py_NewRef(PyModule_GetDict(profiler.ptr()));  // kept forever, like the module
  }();
  static PyObject* const name = PyUnicode_InternFromString("_is_profiler_enabled");
  return PyDict_GetItemWithError(names, name) == Py_True;
}

}  // namespace

ProfilerRanges::ProfilerRanges(const RangeNames& names)
    : names_(names), profiling_(somebody_profiles()) {}

ProfilerRanges::~ProfilerRanges() {
  while (!open_.empty()) {
    try {
      leave();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("a range of the profiler");
    }
  }
}

void ProfilerRanges::enter(const std::string& name) {
  if (!profiling_) return;
  // record_function of torch.profiler goes through the dispatcher twice for each range.
  static PyObject* const type =
      nb::object(nb::module_::import_("torch._C._profiler").attr("_RecordFunctionFast"))
          .release()
          .ptr();  // kept forever, like the module
  nb::object range = nb::handle(type)(name.c_str());
  range.attr("__enter__")();
  open_.push_back(std::move(range));
}

void ProfilerRanges::leave() {
  if (open_.empty()) return;
  const nb::object range = std::move(open_.back());
  open_.pop_back();
  range.attr("__exit__")(nb::none(), nb::none(), nb::none());
}

}  // namespace gex::python
