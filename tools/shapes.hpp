#pragma once
// Sizes of a model's inputs and gears, as the command line says them.

#include <optional>
#include <vector>

#include "arguments.hpp"
#include "frontend/onnx/importer.hpp"
#include "program/program.hpp"
#include "runtime/capture/gear_options.hpp"

namespace gex::tool {

// --shape x=1..32,3,224,224: a fact for each input of the model that it names. A range or a name
// is a size symbol; a range keeps the name that the model has for the size.
std::vector<std::optional<onnx::InputFact>> shapes_given(const onnx::ModelProto& model,
                                                         const Arguments& arguments);

// --gears auto, or --gears batch=1,8,32 for sizes by name.
runtime::GearOptions gears_given(const program::Program& program, const Arguments& arguments);

}  // namespace gex::tool
