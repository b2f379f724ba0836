// gex.passes: user passes in Python, over the C interface and the builder of gex.es.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <gex/pass.hpp>

#include "base/tensor.hpp"
#include "frontend/python/bindings.hpp"
#include "frontend/python/python_error.hpp"

namespace gex::python {
namespace {

using es::EsTensorHolder;
using OptionalHolder = std::optional<EsTensorHolder>;

OptionalHolder optional(const EsTensorHolder& holder) {
  return holder.empty() ? OptionalHolder() : OptionalHolder(holder);
}

// The Python functions of one pass: called and released with the GIL held.
struct PyPass {
  nb::object condition, replacement, run;
};

void release(void* user) {
  if (!nb::is_alive()) return;  // the interpreter is finalised
  const nb::gil_scoped_acquire locked;
  delete static_cast<PyPass*>(user);
}

// Converts a Python error to the message of the failed compile: type, message, file and line.
template <class Body>
gex_status called(Body&& body) {
  const nb::gil_scoped_acquire locked;
  try {
    body();
    return GEX_OK;
  } catch (nb::python_error& error) {
    return gex_fail(GEX_INVALID_ARGUMENT, one_line(error).c_str());
  } catch (const es::Error& error) {
    return gex_fail(error.status(), error.what());
  } catch (const std::exception& error) {
    return gex_fail(GEX_INVALID_ARGUMENT, error.what());
  }
}

gex_status condition(void* user, gex_graph* graph, const gex_match* match, std::int32_t* agrees) {
  return called([&] {
    const es::detail::Borrowed borrowed(graph);
    const es::Match found(borrowed, match);
    const nb::object answer =
        static_cast<PyPass*>(user)->condition(nb::cast(&found, nb::rv_policy::reference));
    *agrees = nb::cast<bool>(answer);
  });
}

gex_status replacement(void* user, gex_graph* graph, const gex_match* match, gex_value* outputs,
                       std::size_t count) {
  return called([&] {
    const es::detail::Borrowed borrowed(graph);
    const es::Match found(borrowed, match);
    const auto values = nb::cast<std::vector<EsTensorHolder>>(
        static_cast<PyPass*>(user)->replacement(nb::cast(&found, nb::rv_policy::reference)));
    if (values.size() != count)
      throw es::Error(GEX_INVALID_ARGUMENT, "the replacement returns " +
                                                std::to_string(values.size()) + " values for " +
                                                std::to_string(count) + " outputs");
    for (std::size_t k = 0; k < count; ++k) outputs[k] = values[k].value();
  });
}

gex_status run(void* user, gex_graph* graph, std::int32_t* changed) {
  return called([&] {
    const es::detail::Borrowed borrowed(graph);
    es::GraphEditor editor(borrowed);
    *changed = nb::cast<bool>(
        static_cast<PyPass*>(user)->run(nb::cast(&editor, nb::rv_policy::reference)));
  });
}

struct Description {
  std::string name, stage, summary;
  int level = 2;
  std::string version;
};

void register_pass(const Description& description, gex_pass pass, PyPass functions) {
  pass.name = description.name.c_str();
  pass.stage = description.stage.c_str();
  pass.summary = description.summary.c_str();
  pass.level = description.level;
  pass.version = description.version.c_str();
  if (functions.condition.is_valid() && !functions.condition.is_none()) pass.condition = condition;
  pass.user = new PyPass(std::move(functions));
  pass.release = release;
  es::detail::Check(gex_pass_register(&pass));
}

using PyPattern = std::pair<const es::Graph*, std::vector<EsTensorHolder>>;

void register_pattern_pass(const Description& description, const std::vector<PyPattern>& patterns,
                           bool any_constants, bool any_attributes, nb::object accepts,
                           nb::object replaces) {
  std::vector<std::vector<gex_value>> captures(patterns.size());
  std::vector<gex_pattern> c_patterns;
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    for (const EsTensorHolder& holder : patterns[k].second) captures[k].push_back(holder.value());
    c_patterns.push_back({patterns[k].first->handle(), captures[k].data(), captures[k].size()});
  }
  gex_pass pass = GEX_PASS_INIT;
  pass.kind = GEX_PASS_PATTERN;
  pass.any_constants = any_constants;
  pass.any_attributes = any_attributes;
  pass.patterns = c_patterns.data();
  pass.pattern_count = c_patterns.size();
  pass.replacement = replacement;
  register_pass(description, pass, {std::move(accepts), std::move(replaces), {}});
}

void register_decompose_pass(const Description& description, const std::vector<std::string>& ops,
                             nb::object accepts, nb::object replaces) {
  std::vector<const char*> names;
  for (const std::string& op : ops) names.push_back(op.c_str());
  gex_pass pass = GEX_PASS_INIT;
  pass.kind = GEX_PASS_DECOMPOSE;
  pass.ops = names.data();
  pass.op_count = names.size();
  pass.replacement = replacement;
  register_pass(description, pass, {std::move(accepts), std::move(replaces), {}});
}

void register_graph_pass(const Description& description, nb::object runs) {
  gex_pass pass = GEX_PASS_INIT;
  pass.kind = GEX_PASS_GRAPH;
  pass.run = run;
  register_pass(description, pass, {{}, {}, std::move(runs)});
}

// Elements in order, and the shape.
std::pair<nb::list, std::vector<std::int64_t>> constant_of(const EsTensorHolder& holder) {
  const es::Tensor tensor = es::ConstantOf(holder);
  const auto dtype = static_cast<DType>(tensor.dtype());
  const HostTensor elements = HostTensor::from_bytes(dtype, tensor.shape(), tensor.data());
  nb::list list;
  for (std::int64_t k = 0; k < elements.numel(); ++k) {
    if (is_float(dtype)) {
      list.append(elements.get(k));
    } else if (dtype == DType::boolean) {
      list.append(elements.get(k) != 0);
    } else {
      list.append(elements.get_int(k));
    }
  }
  return {list, tensor.shape()};
}

std::vector<OptionalHolder> operands_of(const EsTensorHolder& holder) {
  std::vector<OptionalHolder> operands;
  for (const EsTensorHolder& operand : es::OperandsOf(holder))
    operands.push_back(optional(operand));
  return operands;
}

void bind_views(nb::module_& m) {
  nb::class_<es::Match>(m, "Match", "A match; valid until the function returns.")
      .def("input", [](const es::Match& f, std::size_t k) { return optional(f.Input(k)); })
      .def("output", &es::Match::Output)
      .def("captured", &es::Match::Captured)
      .def_prop_ro("input_count", &es::Match::input_count)
      .def("inline", &es::Match::Inline)
      .def("builder", [](const es::Match& f) { return f.Builder(); });
  nb::class_<es::GraphEditor>(m, "Editor", "A graph while a pass changes it.")
      .def("nodes", &es::GraphEditor::Nodes)
      .def("builder", [](const es::GraphEditor& e) { return e.Builder(); })
      .def("insert_before", &es::GraphEditor::InsertBefore)
      .def("replace", &es::GraphEditor::Replace)
      .def("erase", &es::GraphEditor::Erase);
  m.def("op_of", &es::OpOf);
  m.def("operands_of", &operands_of);
  m.def("uses_of", &es::UsesOf);
  m.def("attr_of", &es::AttrOf);
  m.def("constant_of", &constant_of);
}

}  // namespace

void bind_passes(nb::module_& m) {
  nb::module_ sub = m.def_submodule("passes", "Implementation of gex.passes.");
  bind_views(sub);
  nb::class_<Description>(sub, "Description")
      .def(
          "__init__",
          [](Description* self, std::string name, std::string stage, std::string summary, int level,
             std::string version) {
            new (self) Description{std::move(name), std::move(stage), std::move(summary), level,
                                   std::move(version)};
          },
          nb::arg("name"), nb::arg("stage"), nb::arg("summary"), nb::arg("level"),
          nb::arg("version"));
  sub.def("register_pattern_pass", &register_pattern_pass, nb::arg("description"),
          nb::arg("patterns"), nb::arg("any_constants"), nb::arg("any_attributes"),
          nb::arg("condition").none(), nb::arg("replacement"));
  sub.def("register_decompose_pass", &register_decompose_pass, nb::arg("description"),
          nb::arg("ops"), nb::arg("condition").none(), nb::arg("replacement"));
  sub.def("register_graph_pass", &register_graph_pass, nb::arg("description"), nb::arg("run"));
  sub.def("unregister", &es::UnregisterPass);
}

}  // namespace gex::python
