// Writing model files through gex/session.h: only in libgex.

#include <cstddef>

#include "deploy/build/save_model.hpp"
#include "frontend/capi/boundary.hpp"
#include "frontend/capi/handles.hpp"
#include "gex/session.h"

using namespace gex;
using namespace gex::capi;

namespace {

std::vector<std::string> levels_in(const std::string& text) {
  std::vector<std::string> levels(1);
  for (const char c : text) {
    if (c == ',')
      levels.emplace_back();
    else
      levels.back() += c;
  }
  std::erase(levels, "");
  return levels;
}

template <class Desc>
std::vector<deploy::TensorInfo> infos_of(const std::vector<Desc>& descs, const char* const* names) {
  std::vector<deploy::TensorInfo> infos(descs.size());
  for (std::size_t k = 0; k < descs.size(); ++k)
    infos[k].name = names == nullptr ? descs[k].name : &required(names[k], "a name");
  return infos;
}

}  // namespace

extern "C" gex_status gex_program_save_model(const gex_program* program, const char* path,
                                             const gex_save_options* options) {
  return guarded([&] {
    const Compiled& compiled = required(program, "program").compiled;
    gex_save_options given = GEX_SAVE_OPTIONS_INIT;
    if (options != nullptr)
      given = read_versioned(options, given, offsetof(gex_save_options, levels), "options");
    deploy::SaveOptions save;
    if (given.levels != nullptr) save.levels = levels_in(given.levels);
    if (given.key != nullptr) save.key.assign(static_cast<const char*>(given.key), given.key_size);
    deploy::NewModel model;
    model.compiled = &compiled;
    model.metadata.name = given.name != nullptr ? given.name : compiled.program->name;
    model.metadata.inputs = infos_of(compiled.program->inputs, given.input_names);
    model.metadata.outputs = infos_of(compiled.program->outputs, given.output_names);
    deploy::save_models({model}, save, &required(path, "path"));
  });
}
