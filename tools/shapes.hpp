#pragma once
// Sizes of a model's inputs and gears, as given on the command line.

#include <optional>
#include <vector>

#include "arguments.hpp"
#include "frontend/onnx/importer.hpp"
#include "program/program.hpp"
#include "runtime/capture/gear_options.hpp"

namespace gex::tool {

// --shape x=1..32,3,224,224: the type of each named input of the model. A range or a name is a size
// symbol; a range keeps the model's name of the size.
std::vector<std::optional<onnx::InputFact>> shapes_given(const onnx::ModelProto& model,
                                                         const Arguments& arguments);

// --gears auto, or --gears batch=1,8,32 for sizes by name.
runtime::GearOptions gears_given(const program::Program& program, const Arguments& arguments);

}  // namespace gex::tool
