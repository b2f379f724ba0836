// gex.es: the C++ builder over the C interface, as Python's builder uses it. Everything specific to
// Python (numbers and nested lists as operands, names) is in python/gex/es.

#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <gex/es/builder.hpp>
#include <gex/es/control.hpp>
#include <gex/es/custom_op.hpp>
#include <gex/es/operators.hpp>

#include "frontend/python/bindings.hpp"
#include "frontend/python/es_tensors.hpp"
#include "frontend/python/python_error.hpp"

namespace gex::python {
namespace {

using es::EsGraphBuilder;
using es::EsTensorHolder;
using PySize = std::variant<std::int64_t, std::string>;
using PyHolders = std::vector<std::optional<EsTensorHolder>>;

es::DType to_es(DType dtype) { return static_cast<es::DType>(dtype); }

es::Shape to_shape(const std::vector<PySize>& sizes) {
  es::Shape shape;
  for (const PySize& size : sizes)
    shape.push_back(std::visit([](const auto& s) { return es::Size(s); }, size));
  return shape;
}

template <class T>
bool all_are(nb::sequence list) {
  for (nb::handle item : list)
    if (!nb::isinstance<T>(item)) return false;
  return true;
}

es::Attr to_attr(const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return {name, nb::cast<bool>(value)};
  if (nb::isinstance<nb::int_>(value)) return {name, nb::cast<std::int64_t>(value)};
  if (nb::isinstance<nb::float_>(value)) return {name, nb::cast<double>(value)};
  if (nb::isinstance<nb::str>(value)) return {name, nb::cast<std::string>(value)};
  if (nb::isinstance<DType>(value)) return {name, to_es(nb::cast<DType>(value))};
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    const auto list = nb::cast<nb::sequence>(value);
    if (all_are<nb::int_>(list)) return {name, nb::cast<std::vector<std::int64_t>>(value)};
    if (all_are<nb::str>(list)) return {name, nb::cast<std::vector<std::string>>(value)};
    std::vector<PySize> sizes;
    if (nb::try_cast(value, sizes)) return {name, to_shape(sizes)};
    return {name, nb::cast<std::vector<double>>(value)};
  }
  throw nb::type_error(("attribute '" + name +
                        "' is not a bool, int, float, str, DType or list of ints, floats or strs")
                           .c_str());
}

es::Attrs to_attrs(const nb::dict& dict) {
  es::Attrs attrs;
  for (auto [name, value] : dict) attrs.push_back(to_attr(nb::cast<std::string>(name), value));
  return attrs;
}

std::vector<EsTensorHolder> to_holders(const PyHolders& given) {
  std::vector<EsTensorHolder> holders;
  for (const auto& holder : given) holders.push_back(holder.value_or(EsTensorHolder()));
  return holders;
}

std::vector<es::EsTensorLike> to_likes(const std::vector<EsTensorHolder>& holders) {
  return {holders.begin(), holders.end()};
}

// Integers for constant sizes, else text.
std::vector<PySize> sizes_of(const EsTensorHolder& holder) {
  const std::vector<std::int64_t> numbers = holder.shape();
  const es::Shape texts = holder.sizes();
  std::vector<PySize> sizes;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (numbers[k] >= 0)
      sizes.emplace_back(numbers[k]);
    else
      sizes.emplace_back(std::string(texts[k].c().expression));
  }
  return sizes;
}

void bind_holder(nb::module_& m) {
  nb::class_<EsTensorHolder>(m, "Holder", "A value of a graph under construction.")
      .def_prop_ro("type", &EsTensorHolder::type)
      .def_prop_ro("name", &EsTensorHolder::name)
      .def_prop_ro("rank", &EsTensorHolder::rank)
      .def_prop_ro("shape", &EsTensorHolder::shape)
      .def_prop_ro("sizes", sizes_of)
      .def_prop_ro("dtype", [](const EsTensorHolder& h) { return static_cast<DType>(h.dtype()); })
      .def("set_dtype", [](EsTensorHolder& h, DType dtype) { h.SetDataType(to_es(dtype)); })
      .def("set_shape",
           [](EsTensorHolder& h, const std::vector<PySize>& shape) { h.SetShape(to_shape(shape)); })
      .def("set_label", [](EsTensorHolder& h, const std::string& name,
                           nb::handle value) { h.SetAttrForNode(to_attr(name, value)); })
      .def("label", &EsTensorHolder::GetAttr)
      .def("add_control_edge",
           [](EsTensorHolder& h, const std::vector<EsTensorHolder>& s) { h.AddControlEdge(s); })
      .def("same_graph", [](const EsTensorHolder& a, const EsTensorHolder& b) {
        return es::detail::Access::BuildingOf(a) == es::detail::Access::BuildingOf(b);
      });
}

nb::object size_of(const gex_size& size) {
  return size.expression == nullptr ? nb::cast(size.number) : nb::cast(size.expression);
}

template <class T, class Convert>
nb::object list_of(const T* elements, std::size_t count, Convert convert) {
  nb::list list;
  for (std::size_t k = 0; k < count; ++k) list.append(convert(elements[k]));
  return list;
}

nb::object from_attr(const gex_attr& attr) {
  const auto plain = [](auto element) { return nb::cast(element); };
  switch (attr.kind) {
    case GEX_ATTR_BOOL:
      return nb::cast(attr.value.integer != 0);
    case GEX_ATTR_INT:
      return nb::cast(attr.value.integer);
    case GEX_ATTR_FLOAT:
      return nb::cast(attr.value.real);
    case GEX_ATTR_STRING:
      return nb::cast(attr.value.string);
    case GEX_ATTR_DTYPE:
      return nb::cast(static_cast<DType>(attr.value.integer));
    case GEX_ATTR_SIZE:
      return size_of(attr.value.sizes[0]);
    case GEX_ATTR_SIZES:
      return list_of(attr.value.sizes, attr.count, size_of);
    case GEX_ATTR_INTS:
      return list_of(attr.value.integers, attr.count, plain);
    case GEX_ATTR_FLOATS:
      return list_of(attr.value.reals, attr.count, plain);
    default:
      return list_of(attr.value.strings, attr.count, plain);
  }
}

// `body(builder, operands, attributes)` returns the results; absent operands are None. It is called
// in every compile, on the compiling thread.
void register_custom_op(const std::string& name, const std::string& doc,
                        const std::vector<std::string>& inputs, const nb::dict& attrs,
                        nb::object body) {
  const auto expand = [body = std::move(body)](EsGraphBuilder& builder, const es::Holders& operands,
                                               const es::OpAttrs& given) -> es::Holders {
    const nb::gil_scoped_acquire locked;
    try {
      nb::list natives;
      for (const EsTensorHolder& operand : operands)
        natives.append(operand.empty() ? nb::none() : nb::cast(operand));
      nb::dict values;
      for (const gex_attr& attr : given) values[attr.name] = from_attr(attr);
      return nb::cast<es::Holders>(body(builder, natives, values));
    } catch (nb::python_error& error) {
      throw es::Error(GEX_INVALID_ARGUMENT, one_line(error));
    }
  };
  es::RegisterOp(name, doc, inputs, to_attrs(attrs), expand);
}

void bind_builder(nb::module_& m) {
  nb::class_<EsGraphBuilder>(m, "Builder")
      .def(nb::init<const std::string&>())
      .def_prop_ro("name", &EsGraphBuilder::name)
      .def("create_input",
           [](EsGraphBuilder& b, std::int64_t index, const std::optional<std::string>& name,
              DType dtype, const std::vector<PySize>& shape) {
             return b.CreateInput(index, name ? name->c_str() : nullptr, to_es(dtype),
                                  to_shape(shape));
           })
      .def("create_variable",
           [](EsGraphBuilder& b, std::int64_t index, const std::string& name, DType dtype,
              const std::vector<PySize>& shape) {
             return b.CreateVariable(index, name.c_str(), to_es(dtype), to_shape(shape));
           })
      .def("declare_size", &EsGraphBuilder::DeclareSize, nb::arg("name"), nb::arg("lowest"),
           nb::arg("highest") = GEX_NO_LIMIT)
      .def("constant_bools", [](EsGraphBuilder& b, const std::vector<bool>& values,
                                const std::vector<std::int64_t>& dims,
                                DType dtype) { return b.CreateConst(values, dims, to_es(dtype)); })
      .def("constant_ints", [](EsGraphBuilder& b, const std::vector<std::int64_t>& values,
                               const std::vector<std::int64_t>& dims,
                               DType dtype) { return b.CreateConst(values, dims, to_es(dtype)); })
      .def("constant_floats", [](EsGraphBuilder& b, const std::vector<double>& values,
                                 const std::vector<std::int64_t>& dims,
                                 DType dtype) { return b.CreateConst(values, dims, to_es(dtype)); })
      .def("constant_array",
           [](EsGraphBuilder& b, nb::handle given) {
             const HostArray array = to_array(given, "the constant");
             const ArrayArgument argument(array, "the constant");
             return b.CreateConst(argument.copied());
           })
      .def("constant_from_file",
           [](EsGraphBuilder& b, const std::string& path, DType dtype,
              const std::vector<std::int64_t>& dims) {
             return b.CreateConstFromFile(path, to_es(dtype), dims);
           })
      .def(
          "apply",
          [](EsGraphBuilder& b, const std::string& op, const PyHolders& inputs,
             const nb::dict& attrs, std::optional<std::size_t> count) {
            return count ? b.ApplyMany(op, to_holders(inputs), to_attrs(attrs), *count)
                         : b.ApplyAll(op, to_holders(inputs), to_attrs(attrs));
          },
          nb::arg("op"), nb::arg("inputs"), nb::arg("attrs"), nb::arg("count").none())
      .def("set_label", [](EsGraphBuilder& b, const std::string& name,
                           nb::handle value) { b.SetLabel(to_attr(name, value)); })
      .def("set_output", [](EsGraphBuilder&, const EsTensorHolder& tensor,
                            std::int64_t index) { EsGraphBuilder::SetOutput(tensor, index); })
      .def("build", &EsGraphBuilder::Build);
  m.def("assign", [](const EsTensorHolder& variable, const EsTensorHolder& value) {
    return es::Assign(variable, value);
  });
  m.def("if_", [](const EsTensorHolder& condition, const std::vector<EsTensorHolder>& inputs,
                  const es::Branch& yes,
                  const es::Branch& no) { return es::If(condition, to_likes(inputs), yes, no); });
  m.def("if_graphs", [](const EsTensorHolder& condition, const std::vector<EsTensorHolder>& inputs,
                        std::size_t count, const es::Graph& yes, const es::Graph& no) {
    return es::If(condition, to_likes(inputs), count, yes, no);
  });
  m.def("while_",
        [](const std::vector<EsTensorHolder>& inputs, const es::Branch& condition,
           const es::Branch& body) { return es::While(to_likes(inputs), condition, body); });
  m.def("for_",
        [](const EsTensorHolder& start, const EsTensorHolder& limit, const EsTensorHolder& delta,
           const std::vector<EsTensorHolder>& inputs, const es::Branch& body) {
          return es::For(start, limit, delta, to_likes(inputs), body);
        });
  m.def("register_op", register_custom_op);
  m.def("push_labels", [](const nb::dict& labels) {
    es::detail::Scopes::OfThisThread().labels.push_back(to_attrs(labels));
  });
  m.def("pop_labels", [] { es::detail::Scopes::OfThisThread().labels.pop_back(); });
  m.def("push_sources", [](std::vector<EsTensorHolder> sources) {
    es::detail::Scopes::OfThisThread().sources.push_back(std::move(sources));
  });
  m.def("pop_sources", [] { es::detail::Scopes::OfThisThread().sources.pop_back(); });
}

nb::dict program_counters(const PyProgram& program) {
  const gex_counters counters = [&] {
    const nb::gil_scoped_release
        unlocked;  // without the GIL: a run that this waits for may need it
    return program.program->Counters();
  }();
  nb::dict dict;
  dict["calls"] = counters.calls;
  dict["captures"] = counters.captures;
  dict["replays"] = counters.replays;
  dict["evictions"] = counters.evictions;
  dict["launches"] = counters.launches;
  dict["host_calls"] = counters.host_calls;
  dict["bytes_copied"] = counters.bytes_copied;
  dict["specialised"] = counters.specialised;
  dict["arena_bytes"] = counters.arena_bytes;
  dict["arena_lower_bound"] = counters.arena_lower_bound;
  dict["allocations"] = counters.allocations;
  return dict;
}

// allocate, release, submit, threads: see EsResources.
using PyResources = std::tuple<nb::object, nb::object, nb::object, int>;

EsResources::Held held_by_program(const PyResources& resources) {
  const auto& [allocate, release, submit, threads] = resources;
  return EsResources::Held(new EsResources(allocate, release, submit, threads));
}

using PyOptions = std::vector<std::pair<std::string, std::string>>;  // by name, as texts

es::CompileOptions to_options(const PyOptions& named, const EsResources::Held& resources) {
  es::CompileOptions options;
  options.named = named;
  options.allocator = resources->allocator();
  options.thread_pool = resources->thread_pool();
  return options;
}

void bind_graph(nb::module_& m) {
  nb::class_<PyProgram>(m, "Program", "A compiled graph, ready to run for any of its sizes.")
      .def_static(
          "load",
          [](const std::string& path, const PyOptions& options, const PyResources& resources) {
            EsResources::Held held = held_by_program(resources);
            const nb::gil_scoped_release unlocked;
            const es::CompileOptions with = to_options(options, held);
            return PyProgram(es::Program::Load(path, with), std::move(held));
          },
          nb::arg("path"), nb::arg("options"), nb::arg("resources"))
      .def("save", [](const PyProgram& p, const std::string& path) { p.program->Save(path); })
      .def_prop_ro("input_count", [](const PyProgram& p) { return p.program->input_count(); })
      .def_prop_ro("output_count", [](const PyProgram& p) { return p.program->output_count(); })
      .def("print", [](const PyProgram& p,
                       int level) { return p.program->Print(static_cast<es::Level>(level)); })
      .def(
          "report", [](const PyProgram& p) { return p.program->Report(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("counters", program_counters)
      .def("run", run_on_arrays, nb::arg("inputs"), nb::arg("outputs").none() = nb::none())
      .def("run_async", run_async_on_arrays, nb::arg("inputs"), nb::arg("callback"));
  nb::class_<es::Graph>(m, "Graph", "A graph that was built or parsed.")
      .def_static("parse", [](const std::string& text) { return es::Graph::Parse(text); })
      .def("print", &es::Graph::Print)
      .def("print_abbreviated", &es::Graph::PrintAbbreviated)
      .def("print_onnx", &es::Graph::PrintOnnx)
      .def_prop_ro("input_count", &es::Graph::input_count)
      .def_prop_ro("output_count", &es::Graph::output_count)
      .def("label", &es::Graph::GetAttr)
      .def(
          "compile",
          [](const es::Graph& g, const PyOptions& options, const PyResources& resources) {
            EsResources::Held held = held_by_program(resources);
            const nb::gil_scoped_release unlocked;
            const es::CompileOptions with = to_options(options, held);
            return PyProgram(g.Compile(with), std::move(held));
          },
          nb::arg("options"), nb::arg("resources"));
}

// Errors of the caller are also ValueErrors, as in Python's own functions.
void bind_errors(nb::module_& m) {
  static PyObject* mistake = nullptr;
  const nb::object user_error = m.attr("UserError");
  const nb::object bases = nb::make_tuple(user_error, nb::handle(PyExc_ValueError));
  mistake = PyErr_NewException("gex.es.EsError", bases.ptr(), nullptr);
  if (mistake == nullptr) throw nb::python_error();
  m.attr("EsError") = nb::handle(mistake);
  static PyObject* internal = m.attr("InternalError").ptr();
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const es::Error& error) {
      switch (error.status()) {
        case GEX_OUT_OF_MEMORY:
          return PyErr_SetString(PyExc_MemoryError, error.what());
        case GEX_INTERNAL:
          return PyErr_SetString(internal, error.what());
        default:
          return PyErr_SetString(mistake, error.what());
      }
    }
  });
}

}  // namespace

void bind_es(nb::module_& m) {
  bind_errors(m);
  nb::module_ sub = m.def_submodule("es", "The builder behind gex.es.");
  bind_holder(sub);
  bind_builder(sub);
  sub.def("register_loop_op", es::RegisterLoopOp);
  bind_graph(sub);
}

}  // namespace gex::python
