#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "frontend/python/bindings.hpp"

namespace gex::python {
namespace {

void bind_dim(nb::module_& m) {
  nb::class_<Dim>(m, "Dim", "A size: a number or an exact expression over symbols.")
      .def(nb::init<std::int64_t>())
      .def_static(
          "symbol",
          [](const std::string& name, std::optional<std::int64_t> low,
             std::optional<std::int64_t> high) {
            DimRange range;
            if (low) range.lo = std::max(*low, -DimRange::kInf);
            if (high) range.hi = std::min(*high, DimRange::kInf);
            return Dim::symbol(name, range);
          },
          nb::arg("name"), nb::arg("low") = nb::none(), nb::arg("high") = nb::none())
      .def_static("min", [](Dim a, Dim b) { return min(a, b); })
      .def_static("max", [](Dim a, Dim b) { return max(a, b); })
      .def("__add__", [](Dim a, Dim b) { return a + b; })
      .def("__sub__", [](Dim a, Dim b) { return a - b; })
      .def("__mul__", [](Dim a, Dim b) { return a * b; })
      .def("__floordiv__", [](Dim a, Dim b) { return floordiv(a, b); })
      .def("__mod__", [](Dim a, Dim b) { return mod(a, b); })
      .def("__eq__",
           [](Dim a, nb::handle b) { return nb::isinstance<Dim>(b) && a == nb::cast<Dim>(b); })
      .def("__hash__", [](Dim a) { return static_cast<Py_hash_t>(a.hash() >> 1); })
      .def("__str__", &Dim::text)
      .def("__repr__", [](Dim d) { return "Dim(" + d.text() + ")"; })
      .def_prop_ro("constant", &Dim::as_const, "The number, or None if it has symbols.")
      .def_prop_ro("is_symbol", &Dim::is_symbol)
      .def_prop_ro("low", [](Dim d) { return d.range().lo; })
      .def_prop_ro("symbols", [](Dim d) {
        std::vector<Dim> symbols;
        d.collect_symbols(symbols);
        return symbols;
      });
}

}  // namespace

namespace {

// For HTML.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace

void bind_ir(nb::module_& m) {
  bind_dim(m);
  nb::enum_<DType> dtypes(m, "DType", "Element type.");
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    // `bool` can't be the name of a Python enum member.
    dtypes.value(dtype == DType::boolean ? "boolean" : name_of(dtype).data(), dtype);
  }
  nb::class_<Type>(m, "Type", "dtype, sizes, and strides where they are not the dense ones.")
      .def(
          "__init__",
          [](Type* self, DType dtype, std::vector<Dim> shape,
             std::optional<std::vector<Dim>> strides) {
            if (strides && *strides == dense_strides(shape)) strides.reset();
            new (self) Type{Type::Kind::tensor, dtype, std::move(shape), std::move(strides)};
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("strides") = nb::none())
      .def_static("absent", &Type::token, "A result that PyTorch does not return.")
      .def("__str__", &Type::text)
      .def_ro("dtype", &Type::dtype)
      .def_ro("shape", &Type::shape)
      .def_ro("strides", &Type::strides);
  nb::class_<ValueRef>(m, "Value", "A value of a graph that is being built.")
      .def_prop_ro("type", [](const ValueRef& v) { return v.value->type(); })
      .def("__repr__", [](const ValueRef& v) { return "Value(" + v.value->type().text() + ")"; });
  nb::class_<Graph>(m, "Graph", "A tensor program: pure, typed, printable.")
      .def_prop_ro("name", [](const Graph& g) { return g.name(); })
      .def("text", [](const Graph& g) { return print(g); })
      .def("clone", &Graph::clone)
      .def_prop_ro("num_nodes", &Graph::num_nodes)
      .def_static("parse", [](const std::string& text) { return parse_graph(text); })
      .def("_repr_html_", [](const Graph& g) { return str("<pre>", escaped(print(g)), "</pre>"); })
      .def("__str__", [](const Graph& g) { return print(g); });
}

}  // namespace gex::python
