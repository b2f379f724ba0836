#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "frontend/python/bindings.hpp"
#include "frontend/python/interp_engine.hpp"
#include "frontend/python/runner.hpp"

namespace gex::python {
namespace {

using Kind = OutputItem::Kind;

OutputItem plain(Kind kind, int of) {
  OutputItem item;
  item.kind = kind;
  item.of = of;
  return item;
}

OutputItem view(Kind kind, int of, std::vector<Dim> shape, std::vector<Dim> strides, Dim offset) {
  OutputItem item = plain(kind, of);
  item.shape = std::move(shape);
  item.strides = std::move(strides);
  item.offset = offset;
  return item;
}

void bind_signature(nb::module_& m) {
  nb::class_<OutputItem>(m, "OutputItem", "How one entry of the result list comes about.")
      .def_static("graph", [](int of) { return plain(Kind::graph, of); })
      .def_static("argument", [](int of) { return plain(Kind::argument, of); })
      .def_static("argument_view",
                  [](int of, std::vector<Dim> shape, std::vector<Dim> strides, Dim offset) {
                    return view(Kind::argument_view, of, std::move(shape), std::move(strides),
                                offset);
                  })
      .def_static("output_view",
                  [](int of, std::vector<Dim> shape, std::vector<Dim> strides, Dim offset) {
                    return view(Kind::output_view, of, std::move(shape), std::move(strides),
                                offset);
                  })
      .def_static("integer",
                  [](Dim value) {
                    OutputItem item = plain(Kind::integer, -1);
                    item.value = value;
                    return item;
                  })
      .def_static("none", [] { return plain(Kind::none, -1); })
      .def_prop_ro("dims", [](const OutputItem& item) {
        std::vector<Dim> dims = item.shape;
        dims.insert(dims.end(), item.strides.begin(), item.strides.end());
        dims.push_back(item.offset);
        dims.push_back(item.value);
        return dims;
      });
  nb::class_<SymbolSource>(m, "SymbolSource", "Where a symbol gets its value at each call.")
      .def(
          "__init__",
          [](SymbolSource* self, Dim symbol, int argument, int axis, int output) {
            new (self) SymbolSource{symbol, argument, axis, output};
          },
          nb::arg("symbol"), nb::arg("argument") = -1, nb::arg("axis") = -1,
          nb::arg("output") = -1);
  nb::class_<Signature>(m, "Signature", "How arguments and results map to a graph's own.")
      .def(
          "__init__",
          [](Signature* self, int num_arguments, std::vector<int> tensors,
             std::vector<std::pair<Dim, int>> integers, std::vector<nb::object> constants,
             std::vector<OutputItem> outputs, std::vector<SymbolSource> symbols) {
            new (self) Signature{num_arguments,        std::move(tensors), std::move(integers),
                                 std::move(constants), std::move(outputs), std::move(symbols)};
          },
          nb::arg("num_arguments"), nb::arg("tensors"), nb::arg("integers"), nb::arg("constants"),
          nb::arg("outputs"), nb::arg("symbols"));
}

int traverse_runner(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<Runner>(self)->traverse(visit, arg);
}

int clear_runner(PyObject* self) {
  nb::inst_ptr<Runner>(self)->clear();
  return 0;
}

PyType_Slot runner_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_runner)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear_runner)},
                              {0, nullptr}};

}  // namespace

void bind_runner(nb::module_& m) {
  bind_signature(m);
  nb::class_<Runner>(m, "Runner", nb::type_slots(runner_slots),
                     "A compiled graph: takes the list of arguments and empties it.")
      .def("__call__", &Runner::operator(), nb::arg("arguments"));
  m.def(
      "interpreter_runner",
      [](const Graph& graph, Signature signature, std::vector<nb::object> callees) {
        std::vector<Dim> integers;
        for (const auto& [value, position] : signature.integers) integers.push_back(value);
        return std::make_unique<Runner>(make_interp_engine(graph.clone(), integers),
                                        std::move(signature), std::move(callees));
      },
      nb::arg("graph"), nb::arg("signature"), nb::arg("callees"),
      "Runs the graph node by node in the reference executor: slow, for tests and debugging.");
}

}  // namespace gex::python
