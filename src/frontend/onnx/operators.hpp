#pragma once
#include <string>
#include <utility>
#include <vector>

namespace gex::onnx {

// Domain and name of every operator with a row.
std::vector<std::pair<std::string, std::string>> known_operators();

}  // namespace gex::onnx
