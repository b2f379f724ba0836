#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "frontend/fx/importer.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/torch_api.hpp"

namespace gex::python {
namespace {

struct Mark {
  Node* last;
};

AtenArg to_aten_arg(nb::handle object) {
  PyObject* p = object.ptr();
  if (p == Py_None) return {};
  if (PyBool_Check(p)) return {p == Py_True};
  if (PyLong_Check(p)) return {Dim(nb::cast<std::int64_t>(object))};
  if (PyFloat_Check(p)) return {PyFloat_AS_DOUBLE(p)};
  if (PyUnicode_Check(p)) return {nb::cast<std::string>(object)};
  if (nb::isinstance<ValueRef>(object)) return {nb::cast<ValueRef>(object).value};
  if (nb::isinstance<Dim>(object)) return {nb::cast<Dim>(object)};
  if (nb::isinstance<DType>(object)) return {nb::cast<DType>(object)};
  if (PyList_Check(p) || PyTuple_Check(p)) {
    std::vector<AtenArg> items;
    for (nb::handle item : nb::borrow<nb::sequence>(object)) items.push_back(to_aten_arg(item));
    return {std::move(items)};
  }
  fail(ErrorCode::type_mismatch, "an argument of type ", Py_TYPE(p)->tp_name,
       " is not supported by op rows");
}

std::vector<Value*> values_of(const std::vector<ValueRef>& refs) {
  std::vector<Value*> values;
  for (const ValueRef& ref : refs) values.push_back(ref.value);
  return values;
}

std::vector<ValueRef> refs_of(const std::vector<Value*>& values) {
  std::vector<ValueRef> refs;
  for (Value* value : values) refs.push_back({value});
  return refs;
}

// (values, reason): values is None if no row accepted the node.
nb::object add_node(fx::Importer& importer, const std::string& overload, nb::sequence args,
                    std::vector<Type> results, const std::string& location) {
  std::vector<AtenArg> converted;
  for (nb::handle arg : args) converted.push_back(to_aten_arg(arg));
  fx::NodeOutcome outcome =
      importer.add_node(overload, std::move(converted), std::move(results), location);
  nb::object values = nb::none();
  if (outcome.values) values = nb::cast(refs_of(*outcome.values));
  return nb::make_tuple(values, outcome.reason);
}

std::vector<ValueRef> add_call(fx::Importer& importer, const std::string& name, std::int64_t callee,
                               const std::vector<ValueRef>& operands,
                               std::vector<std::optional<std::vector<Dim>>> operand_strides,
                               std::vector<Dim> integers, std::vector<Type> results, bool ordered,
                               const std::string& location, std::vector<int> written) {
  fx::CallSpec spec;
  spec.name = name;
  spec.callee = callee;
  spec.operands = values_of(operands);
  spec.operand_strides = std::move(operand_strides);
  spec.integers = std::move(integers);
  spec.results = std::move(results);
  spec.ordered = ordered;
  spec.written = std::move(written);
  return refs_of(importer.add_call(spec, location));
}

std::vector<std::pair<ValueRef, Dim>> expected_sizes(const fx::Importer& importer) {
  std::vector<std::pair<ValueRef, Dim>> sizes;
  for (const auto& [found, size] : importer.expected_sizes())
    sizes.push_back({ValueRef{found}, size});
  return sizes;
}

ValueRef add_constant(fx::Importer& importer, nb::handle tensor) {
  const dlpack::Tensor t = TorchApi::get().borrow(tensor.ptr());
  std::vector<std::int64_t> shape(t.shape, t.shape + t.ndim);
  return {
      importer.add_constant(HostTensor::from_bytes(dtype_of(t.dtype), std::move(shape), t.data))};
}

void bind_kinds_of_facts(nb::class_<AtenFacts>& facts) {
  using Facts = AtenFacts;
  nb::enum_<Facts::Indices>(facts, "Indices")
      .value("none", Facts::Indices::none)
      .value("along_axis", Facts::Indices::along_axis)
      .value("along_axis_from_ends", Facts::Indices::along_axis_from_ends)
      .value("rows", Facts::Indices::rows)
      .value("each_axis", Facts::Indices::each_axis)
      .value("each_element", Facts::Indices::each_element)
      .value("cells", Facts::Indices::cells)
      .value("classes", Facts::Indices::classes);
  nb::enum_<Facts::Values>(facts, "Values")
      .value("any", Facts::Values::any)
      .value("fractions", Facts::Values::fractions)
      .value("few_trues", Facts::Values::few_trues)
      .value("bag_starts", Facts::Values::bag_starts);
  nb::enum_<Facts::Range>(facts, "Range")
      .value("unknown", Facts::Range::unknown)
      .value("same", Facts::Range::same)
      .value("zero", Facts::Range::zero)
      .value("filled", Facts::Range::filled)
      .value("counted", Facts::Range::counted)
      .value("sum", Facts::Range::sum)
      .value("difference", Facts::Range::difference)
      .value("product", Facts::Range::product)
      .value("remainder", Facts::Range::remainder)
      .value("clamped", Facts::Range::clamped)
      .value("chosen", Facts::Range::chosen)
      .value("place", Facts::Range::place);
  nb::enum_<Facts::NoOp>(facts, "NoOp")
      .value("never", Facts::NoOp::never)
      .value("always", Facts::NoOp::always)
      .value("on_integers", Facts::NoOp::on_integers)
      .value("no_padding", Facts::NoOp::no_padding)
      .value("power_of_one", Facts::NoOp::power_of_one)
      .value("one_part", Facts::NoOp::one_part);
  nb::enum_<Facts::Padding>(facts, "Padding")
      .value("unknown", Facts::Padding::unknown)
      .value("keeps_positions", Facts::Padding::keeps_positions)
      .value("reads_sizes", Facts::Padding::reads_sizes)
      .value("contracts", Facts::Padding::contracts)
      .value("folds", Facts::Padding::folds)
      .value("along_axis", Facts::Padding::along_axis)
      .value("from_the_front", Facts::Padding::from_the_front)
      .value("attends", Facts::Padding::attends)
      .value("normalises_last", Facts::Padding::normalises_last)
      .value("normalises_batch", Facts::Padding::normalises_batch)
      .value("convolves", Facts::Padding::convolves);
  nb::enum_<Facts::Decomposition>(facts, "Decomposition")
      .value("core", Facts::Decomposition::core)
      .value("any", Facts::Decomposition::any)
      .value("of_floats", Facts::Decomposition::of_floats);
}

// Facts about ATen ops from src/ops.
void bind_facts(nb::module_& m) {
  using Facts = AtenFacts;
  nb::class_<Facts> facts(m, "AtenFacts",
                          "Facts about an ATen op for importers: src/ops/rows/aten_facts.hpp.");
  bind_kinds_of_facts(facts);
  facts.def_ro("indices", &Facts::indices)
      .def_ro("values", &Facts::values)
      .def_ro("divisor", &Facts::divisor)
      .def_ro("range", &Facts::range)
      .def_ro("places_axis", &Facts::places_axis)
      .def_ro("no_op", &Facts::no_op)
      .def_ro("no_op_argument", &Facts::no_op_argument)
      .def_ro("padding", &Facts::padding)
      .def_ro("padding_argument", &Facts::padding_argument)
      .def_ro("decomposition", &Facts::decomposition);
  m.def("aten_overloads", &all_aten_overloads, "Overloads that some op's row takes.");
  m.def(
      "aten_facts", [](const std::string& name) { return aten_facts(name); }, nb::arg("name"),
      "By a name without overload, such as aten.add.");
}

}  // namespace

void bind_importer(nb::module_& m) {
  nb::class_<Mark>(m, "Mark", "A point in the building of a graph.");
  nb::class_<fx::Importer>(m, "Importer", "Builds a Graph from the nodes of a traced program.")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("add_input",
           [](fx::Importer& importer, Type type, std::string name) {
             return ValueRef{importer.add_input(std::move(type), std::move(name))};
           })
      .def("add_constant", &add_constant, "A contiguous CPU tensor, copied into the graph.")
      .def("add_dim",
           [](fx::Importer& importer, Dim value) { return ValueRef{importer.add_dim(value)}; })
      .def("add_node", &add_node, nb::arg("overload"), nb::arg("args"), nb::arg("results"),
           nb::arg("location"))
      .def_prop_ro("expected_sizes", &expected_sizes,
                   "Of the last add_node: sizes found in data, and what they must be.")
      .def("mark", [](const fx::Importer& importer) { return Mark{importer.mark()}; })
      .def("rollback", [](fx::Importer& importer, Mark mark) { importer.rollback(mark.last); })
      .def(
          "label",
          [](fx::Importer& importer, Mark mark,
             const std::vector<std::pair<std::string, std::int64_t>>& given) {
            Labels labels;
            for (const auto& [name, value] : given) set_label(labels, name, value);
            importer.label(mark.last, labels);
          },
          nb::arg("mark"), nb::arg("labels"), "Labels what was added after the mark.")
      .def("add_call", &add_call, nb::arg("name"), nb::arg("callee"), nb::arg("operands"),
           nb::arg("operand_strides"), nb::arg("integers"), nb::arg("results"), nb::arg("ordered"),
           nb::arg("location"), nb::arg("written") = std::vector<int>(),
           "`written`: operands that the call writes; the last results are their new contents.")
      .def("add_bind",
           [](fx::Importer& importer, ValueRef value, Dim symbol, const std::string& location) {
             return ValueRef{importer.add_bind(value.value, symbol, location)};
           })
      .def(
          "add_if",
          [](fx::Importer& importer, ValueRef condition, const std::vector<ValueRef>& inputs,
             fx::Importer& yes, fx::Importer& no, const std::string& location) {
            return refs_of(importer.add_if(condition.value, values_of(inputs), yes, no, location));
          },
          nb::arg("condition"), nb::arg("inputs"), nb::arg("yes"), nb::arg("no"),
          nb::arg("location"))
      .def(
          "add_while",
          [](fx::Importer& importer, const std::vector<ValueRef>& inputs, int carried,
             fx::Importer& condition, fx::Importer& body, const std::string& location) {
            return refs_of(
                importer.add_while(values_of(inputs), carried, condition, body, location));
          },
          nb::arg("inputs"), nb::arg("carried"), nb::arg("condition"), nb::arg("body"),
          nb::arg("location"))
      .def(
          "add_check",
          [](fx::Importer& importer, ValueRef condition, const std::vector<ValueRef>& operands,
             std::vector<Dim> integers, std::string name, std::int64_t callee,
             const std::string& location) {
            fx::CallSpec spec;
            spec.name = std::move(name);
            spec.callee = callee;
            spec.operands = values_of(operands);
            spec.operand_strides.resize(operands.size());
            spec.integers = std::move(integers);
            importer.add_check(condition.value, spec, location);
          },
          nb::arg("condition"), nb::arg("operands"), nb::arg("integers"), nb::arg("name"),
          nb::arg("callee"), nb::arg("location"))
      .def(
          "add_copy_of",
          [](fx::Importer& importer, const fx::Importer& body, const std::vector<ValueRef>& inputs,
             const std::string& traced_for, const std::string& now) {
            return refs_of(importer.add_copy_of(body, values_of(inputs), traced_for, now));
          },
          nb::arg("body"), nb::arg("inputs"), nb::arg("traced_for") = "", nb::arg("now") = "")
      .def(
          "add_output",
          [](fx::Importer& importer, ValueRef value, std::optional<std::vector<Dim>> strides) {
            return importer.add_output(value.value, std::move(strides));
          },
          nb::arg("value"), nb::arg("strides") = nb::none())
      .def("tie", [](fx::Importer& importer, ValueRef value,
                     int input) { importer.tie(value.value, input); })
      .def("text", [](const fx::Importer& importer) { return print(importer.graph()); })
      .def("finish", &fx::Importer::finish);
  bind_facts(m);
}

}  // namespace gex::python
