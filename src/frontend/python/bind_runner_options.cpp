#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "frontend/python/bindings.hpp"
#include "frontend/python/runner_options.hpp"

namespace gex::python {
namespace {

// A row of the table of options as Python's option tables read it.
nb::dict row_for_python(const OptionRow& row) {
  constexpr const char* kParts[] = {"compile", "session", "api"};
  constexpr const char* kKeys[] = {"value", "apart", "none"};
  const OptionAbout& about = row.about;
  nb::dict out;
  out["name"] = row.name;
  out["part"] = kParts[static_cast<int>(row.part)];
  out["type"] = row.type_name();
  out["default"] = row.default_value;
  out["help"] = row.help;
  out["key"] = kKeys[static_cast<int>(about.key)];
  out["key_reason"] = about.key_reason;
  out["lowest"] = about.lowest;
  out["highest"] = about.highest;
  out["flag"] = row.flag();
  out["environment"] = about.variable;
  out["torch_name"] = !about.torch_instead.empty() ? ""
                      : about.torch_name.empty()   ? row.name
                                                   : about.torch_name;
  out["torch_instead"] = about.torch_instead;
  out["npugraph_ex_name"] = about.npugraph_ex_name;
  out["npugraph_ex_is_inverted"] = about.npugraph_ex_is_inverted;
  return out;
}

}  // namespace

void bind_runner_options(nb::module_& m) {
  nb::class_<RunnerOptions> options(m, "RunnerOptions",
                                    "How `compiled_runner` compiles a graph and replays it.");
  options.def(nb::init<>());
  for (const OptionRow& row : option_table()) {
    if (row.part == OptionRow::Part::api) continue;
    const std::string name(row.name);
    options.def_prop_rw(
        name.c_str(), [&row](const RunnerOptions& self) { return row.get(self.user); },
        [&row](RunnerOptions& self, const OptionValue& value) { row.set(self.user, value); });
  }
  options.def_rw("cache_dir", &RunnerOptions::cache_dir)
      .def_rw("frozen", &RunnerOptions::frozen)
      .def_rw("released", &RunnerOptions::released)
      .def_rw("keep_arena", &RunnerOptions::keep_arena)
      .def_rw("tensors_on_host", &RunnerOptions::tensors_on_host);
  m.def(
      "option_table",
      [] {
        nb::list rows;
        for (const OptionRow& row : option_table()) rows.append(row_for_python(row));
        return rows;
      },
      "Every option of a compile, one dict each.");
}

}  // namespace gex::python
