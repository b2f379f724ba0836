#pragma once
#include <string>
#include <vector>

namespace gex::onnx {

// How many axes the inputs of an operator have at least: rows count on it. Empty: any number.
const std::vector<int>& least_ranks(const std::string& op);

}  // namespace gex::onnx
