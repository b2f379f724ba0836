#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontend/python/bindings.hpp"
#include "frontend/python/runner_options.hpp"

namespace gex::python {
namespace {

using Class = nb::class_<RunnerOptions>;

// A field of CompileOptions as one of RunnerOptions.
template <auto Field>
void compile_option(Class& options, const char* name) {
  using Value = std::remove_reference_t<decltype(std::declval<CompileOptions&>().*Field)>;
  options.def_prop_rw(
      name, [](const RunnerOptions& self) { return self.compile.*Field; },
      [](RunnerOptions& self, Value value) { self.compile.*Field = std::move(value); });
}

}  // namespace

void bind_runner_options(nb::module_& m) {
  Class options(m, "RunnerOptions", "How `compiled_runner` compiles a graph and replays it.");
  options.def(nb::init<>());
  compile_option<&CompileOptions::target>(options, "target");
  compile_option<&CompileOptions::level>(options, "level");
  compile_option<&CompileOptions::disabled_passes>(options, "disabled_passes");
  compile_option<&CompileOptions::enabled_passes>(options, "enabled_passes");
  compile_option<&CompileOptions::fuse>(options, "fuse");
  compile_option<&CompileOptions::prologues>(options, "prologues");
  compile_option<&CompileOptions::fast_math>(options, "fast_math");
  compile_option<&CompileOptions::place_cats>(options, "place_cats");
  compile_option<&CompileOptions::overwrite_temps>(options, "overwrite_temps");
  compile_option<&CompileOptions::write_ties_in_place>(options, "write_ties_in_place");
  compile_option<&CompileOptions::generate_code>(options, "generate_code");
  compile_option<&CompileOptions::dump_dir>(options, "dump_dir");
  compile_option<&CompileOptions::keep_static_code>(options, "keep_static_code");
  compile_option<&CompileOptions::autotune>(options, "autotune");
  options.def_rw("cache_dir", &RunnerOptions::cache_dir)
      .def_rw("frozen", &RunnerOptions::frozen)
      .def_rw("released", &RunnerOptions::released)
      .def_rw("keep_arena", &RunnerOptions::keep_arena)
      .def_rw("reuse_memory", &RunnerOptions::reuse_memory)
      .def_rw("static_code_at_once", &RunnerOptions::static_code_at_once)
      .def_rw("tensors_on_host", &RunnerOptions::tensors_on_host);
}

}  // namespace gex::python
