#pragma once
// Outputs that are not tensors of numbers, as such tensors: for model files, which hold nothing
// else.

#include <string>
#include <vector>

#include "frontend/onnx/importer.hpp"

namespace gex::onnx {

// Maps of scores by class (ZipMap) become the scores, one column for each class; strings become
// their places in a list. Returns a note for each such output, which lists the classes or the
// strings. Other sequences and optionals stay.
std::vector<std::string> make_tensor_outputs(Import& import, const ModelProto& model);

}  // namespace gex::onnx
